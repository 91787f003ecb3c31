"""Runs the jobs of a server in this program."""

from __future__ import annotations

import collections
import logging
import os
import random
import re
import signal
import socket
import threading
from typing import Any, Callable, Deque, Dict, List, Optional, Sequence

from .beats import Beats
from .claims import Claims
from .errors import Stopping
from .connection import Address
from .job import Job
from .logs import Logs
from .report import Report, run
from .reports import Reports
from .state import CALL_TIME, State
from .texts import name_of, text_of

GRACE = 5.0  # seconds for handlers that were told to stop, and for the answers to the last reports

Handler = Callable[[Any, Job], Any]


class Worker:
    """Claims jobs of some queues, runs their handlers in threads, and reports how each ended.

    It keeps the jobs that it holds by heartbeats, all in one call; reports travel with the next claim; every call is
    repeated until it is answered, and the server counts it once. A job may run more than once: use job.id as the key of
    its side effects.

    url and key default to the variables TIERQ_URL and TIERQ_KEY. concurrency is how many handlers run at once. tiers
    are the only ones whose jobs are claimed. lease, 5 to 3600 whole seconds, is how long a job stays this worker's
    without a heartbeat. By default it follows the tier: 5 s for PUBLIC, 6 s for UNPAID, 15 s for PAID. A handler whose
    C code holds the GIL for longer than that needs a longer lease: no heartbeat is sent meanwhile. name and version are
    for operators. drain is for how many seconds run waits for the running handlers when it ends.
    """

    def __init__(self, url: Optional[str] = None, queues: Sequence[str] = (), *, key: Optional[str] = None,
                 concurrency: int = 10, tiers: Sequence[str] = (), lease: Optional[int] = None, drain: float = 25.0,
                 name: Optional[str] = None, version: str = "", logger: Optional[logging.Logger] = None):
        if isinstance(queues, str) or not queues:
            raise ValueError("queues must name one queue or more")
        if not 1 <= concurrency <= 1000:
            raise ValueError("concurrency must be 1 to 1000")
        if lease is not None and not 5 <= lease <= 3600:
            raise ValueError("lease must be 5 to 3600 seconds")
        self.name = name or _own_name()
        if not re.fullmatch(r"[A-Za-z0-9._-]{1,64}", self.name):
            raise ValueError("the name must be 1 to 64 of A-Z a-z 0-9 . _ -")
        if version and not re.fullmatch(r"[ -~]{1,64}", version):
            raise ValueError("the version must be 1 to 64 visible ASCII characters")
        to = Address(url or os.environ.get("TIERQ_URL") or "http://127.0.0.1:8080", key or os.environ.get("TIERQ_KEY"))
        self._state = State(to, self.name, version, concurrency, logger or logging.getLogger("tierq"))
        self._reports, self._beats = Reports(self._state), Beats(self._state)
        self._logs = Logs(self._state)
        self._drain, self._begun = drain, False
        self._handlers: Dict[str, Handler] = {}
        self._claims = Claims(self._state, self._reports, self._begin, queues, tiers, lease, lambda: [*self._handlers])
        self._ready = threading.Condition()  # guards the jobs that no thread has taken; None ends a thread
        self._todo: Deque[Optional[Job]] = collections.deque()
        self._threads: List[threading.Thread] = []

    def handle(self, type: str, fn: Optional[Handler] = None) -> Any:
        """Makes fn the handler of a job type; without fn it is a decorator.

        fn gets the payload and the Job. What it returns, any JSON, is the job's result. An exception fails the attempt,
        and the tier decides whether there is another; Permanent, RetryAfter and Later ask for something else. So does
        SystemExit, or any other exception: it costs this attempt, and nothing else. A result that is no JSON (NaN, a
        cycle, a set, the keys 1 and "1" in one dict) fails the job for good; lone surrogates in it become U+FFFD. Jobs
        of types without a handler go back to their queue.
        """
        if fn is None:
            return lambda f: self.handle(type, f)
        if type in self._handlers:
            raise ValueError("the type %s has two handlers" % type)
        self._handlers[type] = fn
        return fn

    def run(self, *, signals: bool = True) -> None:
        """Claims and runs jobs until stop is called, or SIGTERM or SIGINT comes to the main thread.

        Then it claims nothing more, and waits for the running handlers for drain seconds. After that Job.check and
        Job.wait raise in them, and the job of a handler that raises goes back to its queue, at no cost. A handler that
        goes on keeps its job until the lease is over. The error is the server's refusal of the first claim; or of any
        claim, if for ten seconds the server has said nothing but that it does not know a queue.
        """
        if not self._handlers:
            raise ValueError("the worker has no handler")
        if self._begun:
            raise RuntimeError("the worker was run before")
        self._begun = True
        before: Dict[int, Any] = {}
        if signals and threading.current_thread() is threading.main_thread():
            for number in (signal.SIGTERM, signal.SIGINT):
                before[number] = signal.signal(number, lambda *_: self.stop())
        loops = [threading.Thread(target=t.run, daemon=True, name="tierq")
                 for t in (self._beats, self._reports, self._logs)]
        for t in loops:
            t.start()
        try:
            self._claims.run()
        finally:
            self._end()
            for t in loops:
                t.join(CALL_TIME)
            for number, handler in before.items():
                signal.signal(number, handler)

    def stop(self) -> None:
        """Ends run, see there. It may be called from any thread, and by a signal's handler."""
        self._state.stop()

    def _end(self) -> None:
        s = self._state
        with s.changed:
            s.stopping, s.hungry = True, False
            s.changed.notify_all()
        s.wait_for(self._drain, lambda: s.running() == 0)
        with s.changed:
            for job in s.held.values():
                job._end(Stopping)
            s.changed.notify_all()
        s.wait_for(GRACE, lambda: s.running() == 0)
        s.wait_for(GRACE, lambda: len(s.held) == s.running())
        if s.running():
            s.warn("handlers do not stop; their jobs go to other workers: %d", s.running())
        with s.changed:
            s.over = True
            s.changed.notify_all()
        with self._ready:
            self._todo.extend(None for _ in self._threads)
            self._ready.notify_all()

    def _begin(self, job: Job) -> None:
        s = self._state
        if len(self._threads) < s.running():
            thread = threading.Thread(target=self._work, daemon=True, name="tierq-job-%d" % len(self._threads))
            try:
                thread.start()
                self._threads.append(thread)
            except (RuntimeError, MemoryError) as e:  # the system has no room for another thread
                s.warn("a thread for a job does not start: %s", e)
                if not self._threads:
                    self._over(job, Report(job, {"released": {"delaySeconds": 1}}))
                    return
        with self._ready:
            self._todo.append(job)
            self._ready.notify()

    def _work(self) -> None:
        mine: List[Optional[Job]] = []
        while True:
            try:
                mine.clear()
                with self._ready:
                    while not self._todo:
                        self._ready.wait()
                    mine.append(self._todo[0])
                    self._todo.popleft()
                if mine[0] is None:
                    return
                self._attempt(mine[0])
            except BaseException:  # other code may throw one into this thread, at any time
                for job in mine:
                    if job is not None:
                        self._over(job, None)

    def _attempt(self, job: Job) -> None:
        """Runs a job. Whatever goes wrong, the job is reported and its place is free again."""
        report: Optional[Report] = None
        if job._done:
            return
        try:
            report = run(job, self._handlers.get(job.type))
            job._returned()
            self._state.tell(job)
        except BaseException as e:
            why = "an error of tierq's library: %s %s" % (name_of(type(e)), text_of(e, 1000))
            self._state.warn("job %s: %s", job.id, why)
            report = report or Report(job, {"failed": {"error": {"message": why}}})
        finally:
            self._over(job, report)

    def _over(self, job: Job, report: Optional[Report]) -> None:
        """Gives a job's place free, once, and has its report sent; without one its lease has to end."""
        s = self._state
        with s.changed:
            if job._done:
                return
            line = job._warning()
            job._done = True
            s.free += 1
            if job._lost or report is None:
                s.held.pop(job._lease, None)
            else:
                s.ended.append(report)
            s.changed.notify_all()
        if line:
            s.warn("%s", line)
        if job._lost:
            self._reports.too_late(job)


def _own_name() -> str:
    host = re.sub(r"[^A-Za-z0-9._-]", "-", socket.gethostname()[:40])
    return "%s-%d-%06x" % (host or "host", os.getpid(), random.getrandbits(24))
