import { Client } from 'tierq';

const client = new Client(); // TIERQ_URL and TIERQ_KEY
const picture = { queue: 'pictures', payload: { file: 'ada.jpg' } };
const { flowId, jobs } = await client.submitFlow({
  name: 'ada.jpg',
  jobs: {
    resize: { type: 'RESIZE', ...picture },
    scan: { type: 'SCAN', ...picture },
    publish: { type: 'PUBLISH', queue: 'pictures', after: ['resize', 'scan'] },
  },
}, { idempotencyKey: 'picture-4711' });
const done = await client.waitFlow(flowId, { timeout: 60_000 });
console.log(flowId, done.state, (await client.poll(jobs.publish)).result);
