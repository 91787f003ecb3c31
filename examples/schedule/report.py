from tierq import Client

client = Client()  # TIERQ_URL and TIERQ_KEY
client.put_schedule("nightly-report", {
    "cron": "30 2 * * *", "timezone": "Europe/Berlin",
    "job": {"tier": "paid", "type": "REPORT", "payload": {"kind": "jobs", "format": "csv"}},
})
print("comes at", client.next_of_schedule("nightly-report", n=3))
job = client.wait(client.run_schedule("nightly-report"), timeout=60)  # one more now, to see that it works
print("a report now is", job.status)
