from tierq import Client

client = Client()  # TIERQ_URL and TIERQ_KEY
picture = {"queue": "pictures", "payload": {"file": "ada.jpg"}}
flow = client.submit_flow({
    "resize": {"type": "RESIZE", **picture},
    "scan": {"type": "SCAN", **picture},
    "publish": {"type": "PUBLISH", "queue": "pictures", "after": ["resize", "scan"]},
}, name="ada.jpg", idempotency_key="picture-4711")
done = client.wait_flow(flow["flowId"], timeout=60)
print(done["flowId"], done["state"], client.poll(flow["jobs"]["publish"]).result)
