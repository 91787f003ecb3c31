import { Client } from 'tierq';

const client = new Client(); // TIERQ_URL and TIERQ_KEY
const jobId = await client.submit('paid', 'RESIZE', { width: 512 }, { queue: 'pictures' });
const done = await client.wait(jobId, { timeout: 60_000 });
console.log(jobId, done.status, done.result);
