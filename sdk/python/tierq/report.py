"""The report of an attempt, as the server wants it."""

from __future__ import annotations

import json
from typing import Any, Dict, Optional

from .errors import Later, LeaseLost, Permanent, RetryAfter, Stopping
from .job import Job


class Report:
    """The end of an attempt that the server has not acknowledged."""

    def __init__(self, job: Job, text: str):
        self.job, self.text = job, text
        self.alone = False  # no claim carries it: a call with it has failed
        self.single = False  # it goes in a call of its own: a call with it was refused
        self.replaced = False  # it says only that the first one was refused


def entry_of(job: Job, result: Any, error: Optional[BaseException], stack: str) -> str:
    """Returns the report of a handler's end."""
    cause = job.cause
    if error is None:
        try:
            text = json.dumps(result, separators=(",", ":"))
            return '{"lease":%s,"completed":{"result":%s}}' % (json.dumps(job._lease), text)
        except (TypeError, ValueError, RecursionError) as e:
            error = Permanent("result: %s" % e)
    entry: Dict[str, Any] = {"lease": job._lease}
    if isinstance(error, Later):
        entry["released"] = {"delaySeconds": max(_seconds(error.seconds), 1)}
        if error.reason:
            entry["released"]["reason"] = error.reason[:4096]
    elif isinstance(error, Permanent):
        entry["failed"] = {"error": _failure(error, ""), "permanent": True}
    elif cause in (Stopping, LeaseLost):
        entry["released"] = {}  # the worker disturbed the handler, which must not cost a retry
    elif isinstance(error, RetryAfter):
        entry["failed"] = {"error": _failure(error, ""), "retryAfterSeconds": max(_seconds(error.seconds), 0)}
    elif isinstance(error, UnknownType):
        entry["failed"] = {"error": {"message": str(error), "type": "UNKNOWN_JOB_TYPE"}}
    else:
        entry["failed"] = {"error": _failure(error, stack)}
    return json.dumps(entry, separators=(",", ":"))


class UnknownType(Exception):
    """This worker has no handler for a job's type."""


def _seconds(n: float) -> int:
    """Rounds up: a wait is never shorter than a handler asked for."""
    return int(-(-n // 1))


def _failure(error: BaseException, stack: str) -> Dict[str, str]:
    said = {"message": str(error)[:4096]}
    if type(error) not in (RetryAfter, Permanent):
        said["type"] = type(error).__name__[:200]
    if stack:
        said["stack"] = stack[-4096:]
    return said
