from tierq import Client

client = Client()  # TIERQ_URL and TIERQ_KEY
job_id = client.submit("paid", "RESIZE", {"width": 512}, queue="pictures")
done = client.wait(job_id, timeout=60)
print(job_id, done.status, done.result)
