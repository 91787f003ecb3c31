"""Client and worker of tierq, a job server with strict tiers.

A program submits jobs with a Client, and runs jobs of its own with a Worker::

    from tierq import Client, Worker

    client = Client("http://127.0.0.1:8080")
    job_id = client.submit("paid", "RESIZE", {"width": 512}, queue="pictures")
    print(client.wait(job_id).result)

    worker = Worker("http://127.0.0.1:8080", ["pictures"])

    @worker.handle("RESIZE")
    def resize(payload, job):
        return {"width": payload["width"] // 2}

    worker.run()
"""

from .client import Client, Poll
from .errors import (
    BatchStuck, Cancelled, FlowFailed, JobCancelled, JobExpired, JobFailed, Later, LeaseLost, MaxTime, OutcomeUnknown,
    Permanent, RetryAfter, Stopped, Stopping, TierqError, Unavailable,
)
from .job import Job
from .worker import Worker

__all__ = [
    "BatchStuck", "Cancelled", "Client", "FlowFailed", "Job", "JobCancelled", "JobExpired", "JobFailed", "Later",
    "LeaseLost", "MaxTime", "OutcomeUnknown", "Permanent", "Poll", "RetryAfter", "Stopped", "Stopping", "TierqError",
    "Unavailable", "Worker",
]
__version__ = "0.1.0"
