"""The errors of calls, and what a handler raises."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Dict, List, Optional

if TYPE_CHECKING:
    from .client import Poll


class TierqError(Exception):
    """A call was refused, or not answered.

    status is that of the answer, 0 if there was none; code is the server's errorCode, and errors its list of wrong
    fields. A refusal means that nothing was done, except OutcomeUnknown. job_id names the job, if one is concerned.
    """

    def __init__(self, text: str, *, status: int = 0, code: str = "", detail: str = "", job_id: Optional[str] = None,
                 errors: Optional[List[Any]] = None, retry_after: float = 0.0):
        super().__init__(text)
        self.status, self.code, self.detail, self.job_id = status, code, detail, job_id
        self.errors, self.retry_after = errors or [], retry_after

    @property
    def passing(self) -> bool:
        """Whether the same call may succeed later."""
        return self.status in (0, 408, 429) or self.status >= 500 and self.status not in (500, 501)

    @property
    def refused(self) -> bool:
        """Whether the server refuses the call for what it says: the same call fails again."""
        return 400 <= self.status < 500 and not self.passing


class Unavailable(TierqError):
    """The server did not answer, or cannot do this now."""


class OutcomeUnknown(TierqError):
    """The call may or may not have been carried out. For a submit: submit again with the same idempotency_key."""


class JobFailed(TierqError):
    """The job ended FAILED; job is its last state."""

    def __init__(self, job: "Poll"):
        super().__init__("job %s failed: %s: %s" % (job.job_id, job.failure_cause, job.last_error), job_id=job.job_id)
        self.job = job


class JobCancelled(TierqError):
    """The job ended CANCELLED; job is its last state."""

    def __init__(self, job: "Poll"):
        super().__init__("job %s was cancelled" % job.job_id, job_id=job.job_id)
        self.job = job


class JobExpired(TierqError):
    """The job ended EXPIRED: no worker claimed it in time; job is its last state."""

    def __init__(self, job: "Poll"):
        super().__init__("job %s expired: no worker claimed it in time" % job.job_id, job_id=job.job_id)
        self.job = job


class FlowFailed(TierqError):
    """The flow did not complete, or is STUCK; flow is its last state."""

    def __init__(self, flow: Dict[str, Any]):
        super().__init__("flow %s is %s" % (flow["flowId"], flow["state"]))
        self.flow = flow


class BatchStuck(TierqError):
    """The job at the end of the batch waits for members that failed, expired or were cancelled; batch is its state."""

    def __init__(self, batch: Dict[str, Any]):
        super().__init__("batch %s is STUCK: %d failed, %d cancelled, %d expired" % (
            batch["batchId"], batch["failed"], batch["cancelled"], batch["expired"]))
        self.batch = batch


class Permanent(Exception):
    """Raised by a handler: the job becomes a dead letter at once, whatever retries are left."""


class RetryAfter(Exception):
    """Raised by a handler: the attempt fails, which costs a retry, and the next one is at least seconds away.

    seconds is a number or a timedelta, at most a day. With anything else the tier decides when the next attempt is.
    """

    def __init__(self, seconds: float, message: str = ""):
        super().__init__(message)
        self.seconds = seconds


class Later(Exception):
    """Raised by a handler: the job goes back for seconds, without spending a retry.

    seconds is a number or a timedelta, from one second to 365 days. With anything else the attempt fails.
    """

    def __init__(self, seconds: float, reason: str = ""):
        super().__init__(reason)
        self.seconds, self.reason = seconds, reason


class Stopped(Exception):
    """Raised by Job.check and Job.save when the handler should end. Its kinds say why."""


class LeaseLost(Stopped):
    """Another worker may hold the job."""


class Cancelled(Stopped):
    """A user cancelled the job."""


class MaxTime(Stopped):
    """The maximum processing time is over: the attempt counts as MAX_TIME_EXCEEDED, whatever the handler raises."""


class Stopping(Stopped):
    """The worker stops: the job goes back to its queue, no retry spent."""
