from tierq import Permanent, Worker

worker = Worker(queues=["pictures"], concurrency=16)  # TIERQ_URL and TIERQ_KEY


@worker.handle("RESIZE")
def double(payload, job):
    if payload["width"] < 0:
        raise Permanent("no picture has a negative width")
    return {"width": 2 * payload["width"]}


if __name__ == "__main__":
    worker.run()  # until SIGTERM, and then until the running jobs are done
