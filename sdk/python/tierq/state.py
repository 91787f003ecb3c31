"""What the threads of a worker share."""

from __future__ import annotations

import logging
import sys
import threading
import time
from typing import Any, Callable, Dict, List, Optional

from .answers import Answer, taken
from .connection import Address, Connection, pause, refusal
from .errors import Unavailable
from .job import Job
from .report import Report
from .tell import line_of
from .texts import json_of, stack_of

TELL_TIME = 2.0  # seconds for a call with lines, and for an end that waits for what its handler has told
CALL_TIME = 15.0  # seconds for a call's answer, beside the time that a claim asks the server to wait
MOST_BYTES = 4 << 20  # of the reports, or checkpoints, of one call


class State:
    """The jobs and reports of a worker. Its condition guards them, and is notified of every change."""

    def __init__(self, to: Address, name: str, version: str, places: int, log: logging.Logger):
        self.to, self.name, self.version, self.places, self.log = to, name, version, places, log
        self.changed = threading.Condition()
        self.free = places  # places without a running handler
        self.held: Dict[str, Job] = {}  # by lease, until the server has answered their report
        self.ended: List[Report] = []  # reports that no call carries yet
        self.lines_at = float("inf")  # when lines of handlers are due to be sent
        self.hungry = False  # the claimer makes a claim as soon as a place is free, and takes reports along
        self.stopping = False  # nothing is claimed any more
        self.over = False  # the threads end
        self.claiming: Optional[Connection] = None

    def stop(self) -> None:
        """Ends the claims. A signal's handler may call it: it takes no lock."""
        self.stopping = True
        claiming = self.claiming
        if claiming is not None:
            claiming.abort()

    def call(self, conn: Connection, verb: str, body: str, timeout: float) -> Dict[str, Any]:
        """Makes a call, and returns its answer, a dict. The error is a TierqError."""
        return self.read(conn, verb, body, timeout).value

    def read(self, conn: Connection, verb: str, body: str, timeout: float) -> Answer:
        """Makes a call, and returns its answer, whose value is a dict. The error is a TierqError."""
        status, headers, text = conn.call("POST", "/api/worker/" + verb, body.encode(), timeout)
        if status != 200:
            raise refusal(verb, status, headers, text)
        answer = Answer(text, verb)
        if type(answer.value) is not dict:
            raise Unavailable("%s: the answer is no JSON object" % verb)
        if answer.value.get("state") == "terminate":
            self.stop()
        return answer

    def ask(self, job: Job, path: str, body: Dict[str, Any], take: Callable[[Any], Any]) -> Any:
        """Makes a call about a job, which may be repeated, until it is answered or the handler should end.

        It returns what take finds in the answer. What is wrong with the handler's arguments is raised at once.
        """
        text, verb = json_of(body).encode(), path.rsplit("/", 1)[-1]
        conn, failures = Connection(self.to), 0
        try:
            while True:
                job.check()
                failures += 1
                try:
                    status, headers, said = conn.call("POST", path, text, CALL_TIME)
                    if status == 200:
                        return taken(Answer(said, verb), verb, status, take)
                    error = refusal(verb, status, headers, said)
                except Unavailable as e:
                    error = e
                if not error.passing:
                    raise error
                job.wait(pause(failures, error))
        finally:
            conn.close()

    def logged(self, job: Job, level: str, text: Any, attrs: Dict[str, Any]) -> None:
        """Takes a line of a handler, for the job's log and this worker's. It never raises."""
        said, more = line_of(text, attrs)
        with self.changed:
            if job._told.logged(level, said, more):
                self.send_lines(1.0)
        self._log(getattr(logging, level), "job %s: %s %s", job.id, said, more)

    def warn(self, text: str, *args: Any) -> None:
        """Writes a line into the worker's log. It never raises: the program's handlers of log lines may."""
        self._log(logging.WARNING, text, *args)

    def _log(self, level: int, text: str, *args: Any) -> None:
        try:
            self.log.log(level, text, *args)
        except BaseException:  # user code runs in it, which must cost neither a handler nor a thread
            pass

    def loop(self, name: str, step: Callable[[], bool]) -> None:
        """Calls step until it returns False. An error of the library itself costs a second, never the thread."""
        while True:
            try:
                if not step():
                    return
            except BaseException as e:
                stack = stack_of(e, sys.exc_info()[2])
                self.warn("an error of tierq's library in its %s, which go on: %s", name, stack)
                time.sleep(1.0)
                if self.over:
                    return

    def send_lines(self, seconds: float) -> None:
        """Has the lines that wait sent within some seconds."""
        with self.changed:
            at = time.monotonic() + seconds
            if at < self.lines_at:
                self.lines_at = at
                self.changed.notify_all()

    def tell(self, job: Job) -> None:
        """Waits until the server has what a handler has told, two seconds at most."""
        with self.changed:
            told = job._told
            told.closed = True
            if told.empty:
                return
            if told.progress is not None:
                job._beat_at = time.monotonic()
            if told.waiting:
                self.send_lines(0.0)
            self.changed.notify_all()
            end = time.monotonic() + TELL_TIME
            while not told.empty and time.monotonic() < end:
                self.changed.wait(max(end - time.monotonic(), 0))

    def rest(self, seconds: float) -> None:
        """Waits, at most until stop."""
        end = time.monotonic() + seconds
        while not self.stopping and time.monotonic() < end:
            time.sleep(min(0.1, max(end - time.monotonic(), 0)))

    def wait_for(self, seconds: float, done: Callable[[], bool]) -> None:
        """Waits until done says so, at most this long."""
        end = time.monotonic() + seconds
        with self.changed:
            while not done() and time.monotonic() < end:
                self.changed.wait(0.05)

    def running(self) -> int:
        return self.places - self.free
