"""The job that a handler runs."""

from __future__ import annotations

import threading
import time
from typing import Any, Callable, Dict, List, Optional
from urllib.parse import quote

from .answers import long_integer_in, text, whole
from .lease import Lease
from .tell import MOST_NOTE, amount
from .texts import depth_of, json_of, seconds_of, text_of

# The greatest size of a checkpoint, in bytes of JSON, and its levels.
MAX_CHECKPOINT = 16 << 10
MOST_DEPTH = 32


class JobLog:
    """The log of a job, which users read; the worker's logger gets its lines, too.

    The lines are sent about a second later, and before the job's report. A line never waits for the server, and fails
    no attempt: what does not fit is lost, and the log says how many lines. A text is cut at 4 KiB. Its attributes, any
    JSON, are left out if they do not fit beside it; another value is replaced by its text, and one that cannot be
    written is left out.
    """

    def __init__(self, logged: Callable[[str, Any, Dict[str, Any]], None]):
        self._logged = logged

    def info(self, text: Any, /, **attrs: Any) -> None:
        self._logged("INFO", text, attrs)

    def warn(self, text: Any, /, **attrs: Any) -> None:
        self._logged("WARN", text, attrs)

    def error(self, text: Any, /, **attrs: Any) -> None:
        self._logged("ERROR", text, attrs)

    warning = warn


class Job(Lease):
    """A job that a worker holds. Handlers read it, call stopped, wait, check, save and progress, and log."""

    def __init__(self, claimed: Dict[str, Any], sent: float, changed: threading.Condition, ask: Any = None,
                 logged: Any = None, marked: bool = False):
        """marked: the answer has integers that this Python does not read. The other arguments are those of Lease."""
        super().__init__(claimed, sent, changed)
        self.queue: str = text(claimed.get("queue"))
        self.tier: str = text(claimed.get("tier"))
        self.payload: Any = claimed.get("payload")
        self.attempt: int = whole(claimed.get("attempt"), 1)  # from 1
        self.retry_count: int = whole(claimed.get("retryCount"), 0)  # retries that were spent
        self.max_retries: int = whole(claimed.get("maxRetries"), 0)
        self.generation: int = whole(claimed.get("generation"), 1)  # from 1; a requeue of an ended job begins another
        self.checkpoint: Any = claimed.get("checkpoint")  # the last one of an earlier attempt; None = none
        self.trace_id: Optional[str] = text(claimed.get("traceId"), None)
        self.traceparent: Optional[str] = text(claimed.get("traceparent"), None)
        self.flow_id: Optional[str] = text(claimed.get("flowId"), None)  # the flow whose job it is

        self._unread = ""  # why no handler can have the job
        for name in ("payload", "checkpoint") if marked else ():
            long = long_integer_in(claimed.get(name))
            if long is not None and not self._unread:
                self._unread = "%s: it has %s" % (name, long)
        self._ask = ask  # makes a call about the job until it is answered
        self.log = JobLog(lambda *line: logged(self, *line))

    def wait(self, seconds: float) -> None:
        """Waits, and raises the cause as soon as the handler should end.

        seconds is a number or a timedelta; one below 0 waits for nothing. The error is a TypeError or ValueError for
        what is no number.
        """
        self._wait(seconds_of(seconds))

    def save(self, progress: Any) -> None:
        """Stores the progress, any JSON of at most 16 KiB and 32 levels, in place of the checkpoint before.

        When it returns, a later attempt of the same generation finds the value in checkpoint, whatever becomes of this
        process. Lone surrogates become U+FFFD. It raises the cause if the handler should end first, a TypeError or
        ValueError for what is no JSON or too large, and a TierqError if the server refuses the value. After such an
        error nothing was stored, and the attempt goes on.
        """
        said = json_of(progress)
        if len(said.encode()) > MAX_CHECKPOINT:
            raise ValueError("a checkpoint has at most %d bytes" % MAX_CHECKPOINT)
        if depth_of(said) > MOST_DEPTH:
            raise ValueError("a checkpoint has at most %d levels" % MOST_DEPTH)
        with self._changed:
            self._saves += 1
            number, self._progress, self._beat_at = self._saves, said, time.monotonic()
            self._changed.notify_all()
            while self._stored < number:
                if self._refusal is not None and self._refused >= number:
                    raise self._refusal
                self.check()
                self._changed.wait(0.2)

    def progress(self, done: int, total: int = 0, note: str = "") -> None:
        """Says how far the handler is: done of total, in units of its own, and a note of at most 200 bytes.

        total 0: the handler does not know. The worker sends the last one within about a second, and all who ask for the
        job see it. It never waits for the server, and fails no attempt: numbers become whole ones from 0 to 2^53-1.
        """
        said = amount(done), amount(total), "" if note is None else text_of(note, MOST_NOTE)
        with self._changed:
            if self._told.progressed(*said):
                self._changed.notify_all()

    def inputs(self) -> List[Dict[str, Any]]:
        """Returns what the jobs that it waited for in its flow left behind, by name.

        An input is a dict with name, jobId, status, result, failureCause, lastError and tooLarge: results above 1 KiB
        are left out here, and input has them.
        """
        return self._ask(self, "/api/worker/inputs", {"lease": self._lease}, lambda said: list(said["inputs"]))

    def input(self, name: str) -> Dict[str, Any]:
        """Returns what one job that it waited for left behind, whole; a TierqError with status 404 if there is none."""
        asked = {"lease": self._lease, "name": name}
        return self._ask(self, "/api/worker/inputs", asked, lambda said: said["inputs"][0])

    def add_to_flow(self, jobs: Dict[str, Dict[str, Any]]) -> Dict[str, str]:
        """Adds jobs to its flow, all or none, and returns their ids by name.

        A job is a dict with the members of POST /jobs, after and onFailure. Each name begins with the job's own name
        and a slash; a job of the flow that is after "<own name>/*" waits for all of them. The same jobs may be added
        again. The worker's key must be allowed to submit.
        """
        if not self.flow_id:
            raise ValueError("the job is of no flow")
        path = "/api/flows/%s/jobs" % quote(self.flow_id, safe="")
        return self._ask(self, path, {"lease": self._lease, "jobs": jobs}, lambda said: dict(said["jobs"]))
