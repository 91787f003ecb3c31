"""The report of an attempt, as the server wants it, whatever the handler did."""

from __future__ import annotations

import json
import sys
from typing import Any, Callable, Dict, Optional

from .errors import Later, LeaseLost, MaxTime, Permanent, RetryAfter, Stopping
from .job import Job
from .texts import MOST_TEXT, args_of, cut, json_of, name_of, stack_of, text_of, wait_of

MOST_REASON = 512  # bytes
MOST_RETRY = 86_400  # seconds
MOST_LATER = 31_536_000


class Report:
    """The end of an attempt that the server has not acknowledged."""

    def __init__(self, job: Job, entry: Dict[str, Any], result: Optional[str] = None):
        """entry has failed or released; without one the job is completed, with this JSON."""
        lease = json.dumps(job._lease)
        if result is not None:
            self.text = '{"lease":%s,"completed":{"result":%s}}' % (lease, result)
        else:
            self.text = '{"lease":%s,%s' % (lease, json.dumps(entry, separators=(",", ":"))[1:])
        self.job, self.entry, self.size = job, entry, len(self.text.encode())
        self.alone = False  # no claim carries it: a call with it has failed
        self.single = False  # it goes in a call of its own: a call with it was refused
        self.replaced = False  # it says only that the first one was refused

    def replacement(self, why: str) -> "Report":
        """Returns what stands in for a report that the server refuses: a failure.

        It is permanent if the report was, or if it had a result: each attempt would end with such a report.
        """
        failed = self.entry.get("failed") or {}
        said = failed.get("error", {}).get("message") or self.entry.get("released", {}).get("reason") or ""
        refused = "the server refused the report: " + why
        error = {"message": cut("%s (%s)" % (cut(said, MOST_TEXT // 2), refused) if said else refused, MOST_TEXT)}
        if "type" in failed.get("error", {}):
            error["type"] = failed["error"]["type"]
        entry: Dict[str, Any] = {"error": error}
        if not self.entry or failed.get("permanent"):
            entry["permanent"] = True
        other = Report(self.job, {"failed": entry})
        other.single = other.replaced = True
        return other


def run(job: Job, fn: Optional[Callable[[Any, Job], Any]]) -> Report:
    """Runs a handler, and returns the report of its end. No exception of the handler leaves it."""
    try:
        if job._unread:
            return Report(job, {"failed": {"error": {"message": job._unread}, "permanent": True}})
        if fn is None:
            error = {"message": "this worker has no handler for " + cut(job.type, 200), "type": "UNKNOWN_JOB_TYPE"}
            return Report(job, {"failed": {"error": error}})
        result = fn(job.payload, job)
    except BaseException as e:  # a handler must not end its thread
        return Report(job, _ended(job, e, sys.exc_info()[2]))
    try:
        return Report(job, {}, json_of(result))
    except BaseException as e:  # the result's own code runs
        return Report(job, {"failed": {"error": {"message": cut("result: " + _kind_and_text(e), MOST_TEXT)},
                                       "permanent": True}})


def _ended(job: Job, error: BaseException, trace: Any) -> Dict[str, Any]:
    """Returns the report of a handler that has raised."""
    kind, cause = type(error), job.cause
    if issubclass(kind, Later):
        return _later(error)
    if issubclass(kind, Permanent):
        return {"failed": {"error": _error(error, _said(error, "permanent"), Permanent), "permanent": True}}
    if cause in (Stopping, LeaseLost):
        return {"released": {}}  # the worker disturbed the handler, which must not cost a retry
    failed: Dict[str, Any] = {}
    if issubclass(kind, RetryAfter):
        said = _said(error, "retry after")
        wait, wrong = wait_of(_member(error, "seconds"), 0, MOST_RETRY)
        if wait is None:
            said = "%s (retry after: %s)" % (cut(said, MOST_TEXT - 600), wrong)
        else:
            failed["retryAfterSeconds"] = wait
        failed["error"] = _error(error, said, RetryAfter)
    else:
        failed["error"] = _error(error, text_of(error))
        stack = stack_of(error, trace)
        if stack:
            failed["error"]["stack"] = stack
    if cause is MaxTime:
        failed["error"]["type"] = "MAX_TIME_EXCEEDED"
    return {"failed": failed}


def _error(error: BaseException, text: str, ours: Optional[type] = None) -> Dict[str, str]:
    """Returns the error of a report; the name of a class of this library says nothing to a user."""
    return {"message": text} if type(error) is ours else {"message": text, "type": name_of(type(error))}


def _later(error: BaseException) -> Dict[str, Any]:
    wait, wrong = wait_of(_member(error, "seconds"), 1, MOST_LATER)
    if wait is None:
        return {"failed": {"error": {"message": "later: " + wrong}}}
    released: Dict[str, Any] = {"delaySeconds": wait}
    reason = _member(error, "reason")
    said = "" if reason is None else text_of(reason, MOST_REASON)
    if said:
        released["reason"] = said
    return {"released": released}


def _said(error: BaseException, what: str) -> str:
    """Returns the text of an error that a handler made for tierq, or says that it has none."""
    text, args = text_of(error), args_of(error)
    if not text or text == "None" and args[:1] == (None,):
        return what + ": the handler gave no error"
    return text


def _member(error: BaseException, name: str) -> Any:
    """Returns a member of an error, None if the error's own code does not give it."""
    try:
        return getattr(error, name)
    except BaseException:
        return None


def _kind_and_text(error: BaseException) -> str:
    """Returns why a result is no JSON: the encoder's errors speak for themselves, others need their type."""
    if type(error) in (TypeError, ValueError):
        return text_of(error)
    return "%s: %s" % (name_of(type(error)), text_of(error))
