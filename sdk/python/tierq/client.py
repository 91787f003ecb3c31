"""Submits jobs to a server, and follows them."""

from __future__ import annotations

import time
import uuid
from dataclasses import dataclass
from typing import Any, Dict, List, Optional, Sequence, Union
from urllib.parse import quote

from .batches import Batches
from .caller import HOLD
from .errors import JobCancelled, JobExpired, JobFailed, OutcomeUnknown, TierqError
from .flows import Flows
from .joblogs import Logs
from .schedules import Schedules

MOST_BATCH = 1000


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


def _poll_of(d: Dict[str, Any]) -> Poll:
    return Poll(d["jobId"], d["currentJobStatus"], d.get("jobTier", ""), d.get("type", ""), d.get("retryCount", 0),
                d.get("maxRetries", 0), d.get("arrivedAt"), d.get("firstTriedAt"), d.get("completedAt"), d.get("runAt"),
                d.get("position"), d.get("etaSeconds"), d.get("result"), d.get("failureCause"), d.get("lastError"),
                d.get("traceId"), d.get("expiresAt"), d.get("progress"))


class Client(Batches, Flows, Logs, Schedules):
    """Calls one server, or several behind one address. Any number of threads may use it; each has its connection.

    url and key default to the variables TIERQ_URL and TIERQ_KEY. timeout, in seconds, is that of each try. A call is
    tried tries times after a lost reply, 429, 502, 503 and 504. A submit has an Idempotency-Key, so that a repeat never
    makes a second job.
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
        body = _job(type, payload, options)
        headers = {"Idempotency-Key": idempotency_key or str(uuid.uuid4())}
        path = "/%s/submit" % quote(tier.lower(), safe="")
        answer = self._call("submit", "POST", path, body, headers, changes=True)
        return answer["apiResponseData"]["jobId"]

    def submit_many(self, tier: str, jobs: Sequence[Dict[str, Any]]) -> List[Union[str, TierqError]]:
        """Submits many jobs, 1000 a call, and returns for each its id or the error that refused it.

        A job is a dict with type, payload, idempotency_key and the options of submit.
        """
        results: List[Union[str, TierqError]] = []
        for first in range(0, len(jobs), MOST_BATCH):
            entries = []
            for job in jobs[first:first + MOST_BATCH]:
                options = {k: v for k, v in job.items() if k not in ("type", "payload", "idempotency_key")}
                entry = _job(job["type"], job.get("payload"), options)
                entry["idempotencyKey"] = job.get("idempotency_key") or str(uuid.uuid4())
                entries.append(entry)
            path = "/%s/submit/batch" % quote(tier.lower(), safe="")
            try:
                answer = self._call("submit", "POST", path, entries, {}, changes=True)
            except TierqError as e:
                results += [e] * len(entries)
                continue
            results += [_entry(d) for d in answer["apiResponseData"]]
        return results

    def poll(self, job_id: str) -> Poll:
        """Returns the state of a job."""
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
        return self._call("cancel", "DELETE", "/api/jobs/" + quote(job_id, safe=""), None, {}, changes=True)["status"]

    def _poll(self, job_id: str, hold: float) -> Poll:
        path = "/result/poll?jobId=" + quote(job_id, safe="")
        if hold:
            path += "&wait=%dms" % (hold * 1000)
        return _poll_of(self._call("poll", "GET", path, None, {}, hold=hold)["apiResponseData"])


OPTIONS = {
    "queue": "queue", "delay_seconds": "delaySeconds", "run_at": "runAt", "expires_in": "expiresIn",
    "expires_at": "expiresAt",
    "max_retries": "maxRetries",
    "max_processing_seconds": "maxProcessingSeconds", "callback_url": "callbackUrl",
    "unique": "unique", "key": "key", "batch": "batch",
}


def _job(type: str, payload: Any, options: Dict[str, Any]) -> Dict[str, Any]:
    body: Dict[str, Any] = {"type": type}
    if payload is not None:
        body["payload"] = payload
    for name, value in options.items():
        if name not in OPTIONS:
            raise TypeError("a submit has no option %s" % name)
        if value is not None:
            body[OPTIONS[name]] = value
    return body


def _entry(d: Dict[str, Any]) -> Union[str, TierqError]:
    code = d.get("errorCode")
    if not code:
        return d["jobId"]
    kind = OutcomeUnknown if code == "OUTCOME_UNKNOWN" else TierqError
    return kind("submit: %s: %s" % (code, d.get("detail")), code=code, detail=d.get("detail") or "",
                job_id=d.get("jobId"), errors=d.get("errors"))
