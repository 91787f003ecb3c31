// Pushes jobs with the Node library, runs them with its worker, and says what ran. The first argument says how many.
import {createRequire} from 'node:module';

const faktory = createRequire(import.meta.url)('faktory-worker');
const many = Number(process.argv[2]);
const jids = new Map(); // jid -> attempts that succeeded
let attempts = 0, failures = 0;

faktory.register('Cut', (n) => async ({job}) => {
  attempts++;
  if (n < 10 && !job.failure) {
    failures++;
    throw new Error(`job ${n} fails once`);
  }
  if (n < 10 && job.failure.message !== `job ${n} fails once`) throw new Error('its failure is not told');
  jids.set(job.jid, (jids.get(job.jid) ?? 0) + 1);
});

const client = await faktory.connect();
const queues = ['default', 'paid.films'];
for (let n = 0; n < many; n += 50) {
  const jobs = [];
  for (let i = n; i < Math.min(n + 50, many); i++) {
    jobs.push(Object.assign(client.job('Cut', i), {queue: queues[i % 2]}));
  }
  const refused = await client.pushBulk(jobs);
  if (refused.size) throw new Error([...refused.values()].join());
}
const one = client.job('Later', 1);
one.at = new Date(Date.now() + 3_600_000);
await one.push();

const worker = await faktory.work({concurrency: 10, queues, timeout: 5000});
const end = Date.now() + 120_000;
while (jids.size < many && Date.now() < end) await new Promise((r) => setTimeout(r, 50));
await worker.stop();
for (const [jid, n] of jids) if (n !== 1) throw new Error(`${jid} ran ${n} times`);
const {faktory: {sets}} = await client.info();
if (sets.scheduled !== 1) throw new Error(`scheduled: ${sets.scheduled}`);
await client.close();
console.log(`ran ${jids.size} jobs, failed ${failures} times, in all ${attempts} attempts`);
process.exit(0);
