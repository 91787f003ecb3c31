"""The job that a handler runs."""

from __future__ import annotations

import json
import threading
import time
from typing import Any, Callable, Dict, List, Optional, Tuple, Type

from .errors import Cancelled, LeaseLost, MaxTime, Stopped, Stopping
from .tell import MOST_NOTE, Told, amount, cut

# The greatest size of a checkpoint, in bytes of JSON.
MAX_CHECKPOINT = 16 << 10


class JobLog:
    """The log of a job, which users read; the worker's logger gets its lines, too.

    The lines are sent about a second later, and before the job's report. A line never waits for the server, and fails
    no attempt: what does not fit is lost, and the log says how many lines. A text is cut at 4 KiB. Its attributes, any
    JSON, are left out if they do not fit beside it.
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


class Job:
    """A job that a worker holds. Handlers read it, call stopped, wait, check, save and progress, and log."""

    def __init__(self, claimed: Dict[str, Any], sent: float, changed: threading.Condition, ask: Any = None,
                 logged: Any = None):
        self.id: str = claimed["jobId"]  # the same in each attempt: the key of the job's side effects
        self.type: str = claimed["type"]
        self.queue: str = claimed.get("queue", "")
        self.tier: str = claimed.get("tier", "")
        self.payload: Any = claimed.get("payload")
        self.attempt: int = claimed.get("attempt", 1)  # from 1
        self.retry_count: int = claimed.get("retryCount", 0)  # retries that were spent
        self.max_retries: int = claimed.get("maxRetries", 0)
        self.generation: int = claimed.get("generation", 1)  # from 1; a requeue of an ended job begins another
        self.checkpoint: Any = claimed.get("checkpoint")  # the last one of an earlier attempt; None = none
        self.trace_id: Optional[str] = claimed.get("traceId")
        self.traceparent: Optional[str] = claimed.get("traceparent")
        self.flow_id: Optional[str] = claimed.get("flowId")  # the flow whose job it is

        self._lease: str = claimed["lease"]
        self._every: float = claimed["heartbeatEveryMs"] / 1000
        self._until = sent + claimed["leaseForMs"] / 1000  # the lease is surely held until then
        self._ends = sent + claimed["endsInMs"] / 1000
        self._beat_at = sent + self._every
        self._cause: Optional[Type[Stopped]] = None  # what a heartbeat or the worker's end has said
        self._stop = threading.Event()
        self._done = False  # the handler has returned
        self._lost = False  # the server says that the job is not this worker's any more
        self._ask = ask  # makes a call about the job until it is answered
        self._changed = changed  # the worker's; it guards what is below
        self._progress: Optional[str] = None  # a checkpoint that the server has not acknowledged
        self._saves = self._stored = 0
        self._told = Told()
        self.log = JobLog(lambda *line: logged(self, *line))

    @property
    def cause(self) -> Optional[Type[Stopped]]:
        """Why the handler should end: LeaseLost, Cancelled, MaxTime or Stopping; None while it should go on."""
        now = time.monotonic()
        if self._cause is not None:
            return self._cause
        return MaxTime if now >= self._ends else LeaseLost if now >= self._until else None

    @property
    def stopped(self) -> bool:
        """Whether the handler should end."""
        return self.cause is not None

    def check(self) -> None:
        """Raises the cause if the handler should end. A long handler calls it between its steps."""
        cause = self.cause
        if cause is not None:
            raise cause("the job should end: " + cause.__name__)

    def wait(self, seconds: float) -> None:
        """Waits, and raises the cause as soon as the handler should end."""
        end = time.monotonic() + seconds
        while True:
            self.check()
            now = time.monotonic()
            if now >= end:
                return
            self._stop.wait(max(min(end, self._until, self._ends) - now, 0.001))

    def save(self, progress: Any) -> None:
        """Stores the progress, any JSON of at most 16 KiB, in place of the checkpoint before.

        When it returns, a later attempt of the same generation finds the value in checkpoint, whatever becomes of this
        process. It raises the cause if the handler should end first.
        """
        text = json.dumps(progress, separators=(",", ":"))
        if len(text.encode()) > MAX_CHECKPOINT:
            raise ValueError("a checkpoint has at most %d bytes" % MAX_CHECKPOINT)
        with self._changed:
            self._saves += 1
            number, self._progress, self._beat_at = self._saves, text, time.monotonic()
            self._changed.notify_all()
            while self._stored < number:
                self.check()
                self._changed.wait(0.2)

    def progress(self, done: int, total: int = 0, note: str = "") -> None:
        """Says how far the handler is: done of total, in units of its own, and a note of at most 200 bytes.

        total 0: the handler does not know. The next heartbeat takes the last one along, and all who ask for the job
        see it. It never waits for the server, and fails no attempt.
        """
        said = amount(done), amount(total), cut("" if note is None else note, MOST_NOTE)
        with self._changed:
            self._told.progressed(*said)

    def inputs(self) -> List[Dict[str, Any]]:
        """Returns what the jobs that it waited for in its flow left behind, by name.

        An input is a dict with name, jobId, status, result, failureCause, lastError and tooLarge: results above 1 KiB
        are left out here, and input has them.
        """
        return self._ask(self, "/api/worker/inputs", {"lease": self._lease})["inputs"]

    def input(self, name: str) -> Dict[str, Any]:
        """Returns what one job that it waited for left behind, whole; a TierqError with status 404 if there is none."""
        return self._ask(self, "/api/worker/inputs", {"lease": self._lease, "name": name})["inputs"][0]

    def add_to_flow(self, jobs: Dict[str, Dict[str, Any]]) -> Dict[str, str]:
        """Adds jobs to its flow, all or none, and returns their ids by name.

        A job is a dict with the members of POST /jobs, after and onFailure. Each name begins with the job's own name
        and a slash; a job of the flow that is after "<own name>/*" waits for all of them. The same jobs may be added
        again. The worker's key must be allowed to submit.
        """
        if not self.flow_id:
            raise ValueError("the job is of no flow")
        return self._ask(self, "/api/flows/%s/jobs" % self.flow_id, {"lease": self._lease, "jobs": jobs})["jobs"]

    def _beat(self) -> Tuple[str, int, Optional[str]]:
        """Returns the entry of a heartbeat, the number of its checkpoint, and its progress."""
        save, told = 0 if self._progress is None else self._saves, self._told.progress
        entry = '{"lease":%s' % json.dumps(self._lease)
        if save:
            entry += ',"save":%d,"checkpoint":%s' % (save, self._progress)
        if told is not None:
            entry += ',"progress":' + told
        return entry + "}", save, told

    def _hear(self, pulse: Dict[str, Any], save: int, told: Optional[str], sent: float) -> None:
        """Takes the answer to a heartbeat."""
        if pulse["word"] == "LOST":
            # After the end of the handler this is the rule: the report has arrived before the heartbeat.
            self._beat_at = sent + 3600
            if not self._done:
                self._lost = True
                self._told.forget()
                self._end(LeaseLost)
            return
        self._until = sent + pulse.get("leaseForMs", 0) / 1000
        self._stored = max(self._stored, save)
        if self._stored == self._saves:
            self._progress = None
            self._beat_at = sent + self._every
        else:
            self._beat_at = sent  # a handler has saved again meanwhile
        if self._told.progress == told:
            self._told.progress = None
        elif self._told.closed and self._told.progress is not None:
            self._beat_at = sent  # the report waits for the last one
        if pulse["word"] == "CANCEL":
            self._end(Cancelled)

    def _end(self, cause: Type[Stopped]) -> None:
        if self._cause is None:
            self._cause = cause
            self._stop.set()
