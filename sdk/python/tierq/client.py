"""Submits jobs to a server, and follows them."""

from __future__ import annotations

import time
import uuid
from dataclasses import dataclass
from typing import Any, Dict, Optional
from urllib.parse import quote

from .batches import Batches
from .bulk import Bulk, job_of
from .caller import HOLD
from .errors import JobCancelled, JobExpired, JobFailed
from .flows import Flows
from .joblogs import Logs
from .schedules import Schedules


@dataclass(frozen=True)
class Poll:
    """The state of a job. Times are RFC 3339 texts; what there is not yet is None."""

    job_id: str
    status: str  # SCHEDULED, HELD, WAITING, PENDING, PROCESSING, COMPLETED, FAILED, CANCELLED or EXPIRED
    tier: str
    type: str
    retry_count: int
    max_retries: int
    arrived_at: Optional[str]
    first_tried_at: Optional[str]
    completed_at: Optional[str]
    run_at: Optional[str]
    position: Optional[int]
    eta_seconds: Optional[float]
    result: Any
    failure_cause: Optional[str]
    last_error: Optional[str]
    trace_id: Optional[str]
    expires_at: Optional[str] = None  # of a job that was never claimed: when it ends EXPIRED
    progress: Optional[Dict[str, Any]] = None  # at, done, total and note, if the handler has said it

    @property
    def ended(self) -> bool:
        return self.status in ("COMPLETED", "FAILED", "CANCELLED", "EXPIRED")


def _id_of(said: Dict[str, Any]) -> str:
    job_id = said["apiResponseData"]["jobId"]
    if type(job_id) is not str:
        raise TypeError("a jobId")
    return job_id


def _poll_of(d: Dict[str, Any]) -> Poll:
    return Poll(d["jobId"], d["currentJobStatus"], d.get("jobTier", ""), d.get("type", ""), d.get("retryCount", 0),
                d.get("maxRetries", 0), d.get("arrivedAt"), d.get("firstTriedAt"), d.get("completedAt"), d.get("runAt"),
                d.get("position"), d.get("etaSeconds"), d.get("result"), d.get("failureCause"), d.get("lastError"),
                d.get("traceId"), d.get("expiresAt"), d.get("progress"))


class Client(Batches, Bulk, Flows, Logs, Schedules):
    """Calls one server, or several behind one address. Any number of threads may use it; each has its connection.

    url and key default to the variables TIERQ_URL and TIERQ_KEY. timeout, in seconds, is that of each try. A call is
    tried tries times after a lost reply, 429, 502, 503 and 504. A submit has an Idempotency-Key, so that a repeat never
    makes a second job. An answer with an integer of more digits than Python reads (4300 by default, see
    sys.set_int_max_str_digits) is a TierqError with the code INTEGER_TOO_LONG.
    """

    def submit(self, tier: str, type: str, payload: Any = None, *, idempotency_key: Optional[str] = None,
               **options: Any) -> str:
        """Submits a job, and returns its id.

        options are queue, delay_seconds, run_at (an RFC 3339 text), expires_in (seconds within which a worker must
        claim the job, or it ends EXPIRED), expires_at (the same as a text), max_retries, max_processing_seconds,
        callback_url, batch (the batchId of an open batch, see create_batch; it excludes unique), key (in a tier whose
        plan has lines the job waits in the line of this key; the lines share the worker time, and a key may have
        limits) and unique: a dict with key, while, on and maxWait. If another job holds the unique key, the id may be
        that job's, or that of the job that waits for it; with on "refuse" the error is a TierqError with the code
        UNIQUE_TAKEN and the holder's job_id. The error is OutcomeUnknown if the job may have been accepted; any other
        means that it was not.
        """
        body = job_of(type, payload, options)
        headers = {"Idempotency-Key": idempotency_key or str(uuid.uuid4())}
        path = "/%s/submit" % quote(tier.lower(), safe="")
        return self._call("submit", "POST", path, body, headers, changes=True,
                          take=_id_of)

    def poll(self, job_id: str) -> Poll:
        """Returns the state of a job. It raises a TierqError if its result cannot be read, see Client."""
        return self._poll(job_id, 0)

    def wait(self, job_id: str, timeout: Optional[float] = None) -> Poll:
        """Waits for the end of a job, and returns it when it is COMPLETED.

        The error is JobFailed, JobCancelled, JobExpired, or after timeout seconds a TimeoutError. The answer comes
        within milliseconds after the job's end.
        """
        end = None if timeout is None else time.monotonic() + timeout
        while True:
            left = HOLD if end is None else end - time.monotonic()
            if left <= 0:
                raise TimeoutError("job %s has not ended within %s seconds" % (job_id, timeout))
            asked = time.monotonic()
            job = self._poll(job_id, min(HOLD, max(left, 0.001)))
            if job.status == "FAILED":
                raise JobFailed(job)
            if job.status == "CANCELLED":
                raise JobCancelled(job)
            if job.status == "EXPIRED":
                raise JobExpired(job)
            if job.ended:
                return job
            if time.monotonic() - asked < min(left, 1.0):
                time.sleep(min(0.25, max(left, 0)))  # the server does not hold answers now

    def cancel(self, job_id: str) -> str:
        """Cancels a job, and returns its status: CANCELLED, or PROCESSING while its worker has yet to be told."""
        return self._call("cancel", "DELETE", "/api/jobs/" + quote(job_id, safe=""), None, {}, changes=True,
                          take=lambda said: said["status"])

    def _poll(self, job_id: str, hold: float) -> Poll:
        path = "/result/poll?jobId=" + quote(job_id, safe="")
        if hold:
            path += "&wait=%dms" % (hold * 1000)
        return self._call("poll", "GET", path, None, {}, hold=hold, take=lambda said: _poll_of(said["apiResponseData"]))

