import sys

from tierq import Client, TierqError

client = Client()  # TIERQ_URL and TIERQ_KEY
mail = {"to": "ann@example.org", "subject": "Import 7", "body": "All rows are in."}
batch = client.create_batch("import 7", tier="paid", then={"type": "SEND_EMAIL", "payload": mail},
                            idempotency_key="import-7")["batchId"]
count = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000
rows = [{"type": "SIMULATION", "batch": batch, "idempotency_key": "import-7-row-%d" % n} for n in range(count)]
while rows:  # a full queue refuses some for now
    answers = client.submit_many("paid", rows)
    for answer in answers:
        if isinstance(answer, TierqError) and not answer.passing:
            raise answer
    rows = [row for row, answer in zip(rows, answers) if isinstance(answer, TierqError)]
client.seal_batch(batch)
done = client.wait_batch(batch)
print(done["completed"], "of", done["total"], "rows, and the mail is", client.wait(done["thenJobId"], 60).status)
