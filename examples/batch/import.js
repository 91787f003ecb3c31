import { Client, TierqError } from 'tierq';

const client = new Client(); // TIERQ_URL and TIERQ_KEY
const mail = { to: 'ann@example.org', subject: 'Import 7', body: 'All rows are in.' };
const { batchId } = await client.createBatch(
  { name: 'import 7', tier: 'paid', then: { type: 'SEND_EMAIL', payload: mail } }, { idempotencyKey: 'import-7' });
const count = Number(process.argv[2] ?? 10_000);
let rows = Array.from({ length: count }, (_, n) => (
  { type: 'SIMULATION', batch: batchId, idempotencyKey: `import-7-row-${n}` }));
while (rows.length > 0) { // a full queue refuses some for now
  const answers = await client.submitMany('paid', rows);
  const wrong = answers.find((answer) => answer instanceof TierqError && !answer.passing);
  if (wrong) throw wrong;
  rows = rows.filter((row, n) => answers[n] instanceof TierqError);
}
await client.sealBatch(batchId);
const done = await client.waitBatch(batchId);
const { status } = await client.wait(done.thenJobId, { timeout: 60_000 });
console.log(done.completed, 'of', done.total, 'rows, and the mail is', status);
