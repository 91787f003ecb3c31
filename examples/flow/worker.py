from tierq import Worker

worker = Worker(queues=["pictures"], concurrency=4)  # TIERQ_URL and TIERQ_KEY


@worker.handle("RESIZE")
def resize(payload, job):
    return {"file": payload["file"] + ".small"}


@worker.handle("SCAN")
def scan(payload, job):
    return {"clean": True}


@worker.handle("PUBLISH")
def publish(payload, job):
    if not job.input("scan")["result"]["clean"]:  # what the jobs that it waited for left behind
        return {"published": None}
    return {"published": job.input("resize")["result"]["file"]}


if __name__ == "__main__":
    worker.run()
