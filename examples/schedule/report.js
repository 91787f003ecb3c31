import { Client } from 'tierq';

const client = new Client(); // TIERQ_URL and TIERQ_KEY
await client.putSchedule('nightly-report', {
  cron: '30 2 * * *', timezone: 'Europe/Berlin',
  job: { tier: 'paid', type: 'REPORT', payload: { kind: 'jobs', format: 'csv' } },
});
console.log('comes at', await client.nextOfSchedule('nightly-report', { n: 3 }));
const jobId = await client.runSchedule('nightly-report'); // one more now, to see that it works
console.log('a report now is', (await client.wait(jobId, { timeout: 60_000 })).status);
