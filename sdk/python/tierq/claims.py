"""Claims jobs for a worker."""

from __future__ import annotations

import collections
import json
import os
import random
import re
import socket
import sys
import time
from typing import Any, Callable, Deque, Dict, List, Optional, Sequence, Tuple

from .answers import Answer, entries, held, ms
from .connection import Connection, pause
from .errors import TierqError, Unavailable
from .job import Job
from .report import Report
from .reports import Reports
from .state import CALL_TIME, State
from .texts import shown, stack_of

CLAIM_WAIT = 20  # seconds that the server holds a claim while there is no job
CLAIM_LIFE = 45  # seconds for which a claim is repeated with its id; the server remembers it for a minute
MOST_CLAIM = 100
MOST_REST = 60.0  # seconds that an answer may ask the worker to rest
MOST_LEASES = 10_000  # that are known to be no new ones
UNKNOWN_QUEUE = 10.0  # seconds for which another process may yet declare the queue


class Claims:
    """Asks for as many jobs as there are free places, and gives each to begin."""

    def __init__(self, state: State, reports: Reports, begin: Callable[[Job], None], queues: Sequence[str],
                 tiers: Sequence[str], lease: Optional[int], types: Callable[[], Sequence[str]]):
        self._state, self._reports, self._begin, self._types = state, reports, begin, types
        self._queues, self._tiers, self._lease = list(queues), list(tiers), lease
        self._start, self._number = "%08x" % random.getrandbits(32), 0
        self._taken = False  # a claim was answered: the server takes this worker
        self._empty = 0  # answers in a row that came at once, and brought nothing
        self._unknown: Optional[float] = None  # since when the answers say only that a queue is unknown
        self._leases: Deque[str] = collections.deque(maxlen=MOST_LEASES)  # the last ones

    def run(self) -> None:
        """Asks for jobs until stop. The error is the server's refusal of the first claim, or of an unknown queue."""
        s = self._state
        s.claiming = conn = Connection(s.to)
        try:
            while True:
                places = self._await_place()
                if not places:
                    return
                try:
                    answer, sent = self._claim(conn, self._body(places))
                    if answer is not None:
                        s.rest(self._take(answer, sent, places))
                except TierqError:
                    raise
                except Exception as e:
                    s.warn("an error of tierq's library in its claims, which go on: %s", stack_of(e, sys.exc_info()[2]))
                    s.rest(1.0)
        finally:
            conn.close()

    def _body(self, places: int) -> Dict[str, Any]:
        self._number += 1
        body: Dict[str, Any] = {"worker": self._state.name, "queues": self._queues, "max": min(places, MOST_CLAIM),
                                "wait": CLAIM_WAIT, "claimId": "%s-%d" % (self._start, self._number),
                                "info": self._info()}
        if self._tiers:
            body["tiers"] = self._tiers
        if self._lease:
            body["leaseSeconds"] = self._lease
        return body

    def _take(self, answer: Answer, sent: float, places: int) -> float:
        """Begins the jobs of an answer, and returns for how many seconds to rest."""
        s, said = self._state, answer.value
        jobs = self._jobs(answer, sent + held(said), places)
        self._taken = True
        rest = ms(said.get("retryAfterMs")) or 0.0
        if said.get("state") == "quiet" and not rest:
            rest = 1.0
        at_once = not jobs and time.monotonic() - sent < 1.0
        self._empty = self._empty + 1 if at_once else 0
        if self._empty > 1 and not rest:
            rest = min(0.05 * 2 ** min(self._empty, 5), 1.0)  # the server does not hold claims now
        with s.changed:
            s.free -= len(jobs)
            s.hungry = not rest and not s.stopping
            for job in jobs:
                s.held[job._lease] = job
            s.changed.notify_all()
        for job in jobs:
            self._begin(job)
        return min(rest, MOST_REST)

    def _jobs(self, answer: Answer, sent: float, places: int) -> List[Job]:
        """Returns the jobs of an answer that can be run. The leases of others have to end."""
        s = self._state
        jobs: List[Job] = []
        for claimed in answer.value["jobs"]:
            try:
                if type(claimed) is not dict:
                    raise ValueError("it is no object")
                job = Job(claimed, sent, s.changed, s.ask, s.logged, bool(answer.marked))
                if job._lease in self._leases:
                    raise ValueError("its lease was there before")
                if len(jobs) == places:
                    raise ValueError("no place is free for it")
            except ValueError as e:
                name = claimed.get("jobId") if type(claimed) is dict else claimed
                s.warn("a claimed job is left to the end of its lease: %s: job %s", e, shown(name))
                continue
            self._leases.append(job._lease)
            jobs.append(job)
        return jobs

    def _info(self) -> Dict[str, Any]:
        s = self._state
        info: Dict[str, Any] = {"pid": os.getpid(), "language": "python", "slots": s.places, "running": s.running()}
        host = re.sub(r"[^ -~]", "-", socket.gethostname()[:64])
        if host:
            info["host"] = host
        if s.version:
            info["version"] = s.version
        return info

    def _await_place(self) -> int:
        """Waits for a free place, and returns how many there are; 0 after stop."""
        s = self._state
        with s.changed:
            while not s.stopping:
                s.hungry = True
                if s.free:
                    return s.free
                s.changed.wait(0.2)  # a signal's handler cannot notify
            s.hungry = False
            s.changed.notify_all()
            return 0

    def _claim(self, conn: Connection, body: Dict[str, Any]) -> Tuple[Optional[Answer], float]:
        """Makes a claim, with the reports that wait, and repeats it; None if it was given up."""
        s = self._state
        first, failures = time.monotonic(), 0
        carried = self._reports.take(True)
        while True:
            sent = time.monotonic()
            text = json.dumps(body)
            if carried:
                text = '%s,"reports":[%s]}' % (text[:-1], ",".join(r.text for r in carried))
            try:
                answer = s.read(conn, "claim", text, CLAIM_WAIT + CALL_TIME)
                if type(answer.value.get("jobs")) is not list:
                    raise Unavailable("claim: the answer has no jobs")
                self._unknown = None
                self._reports.acknowledge(carried, answer.value.get("reported"))
                return answer, sent
            except TierqError as e:
                body["repeat"] = body.get("repeat", 0) + 1  # how often the claim was sent before
                # The reports go alone from here: if they are why the claim is refused, the next one is not.
                with_reports, carried = bool(carried), self._reports.put_back(carried)
                failures += 1
                if s.stopping:
                    self._give_back(body)
                    return None, sent
                self._look_for_queue(e)
                if e.refused and not self._taken and not with_reports and e.status != 404:
                    raise
                if not e.refused or not with_reports:
                    s.warn("a claim failed, and is made again: %s", e)
                    s.rest(min(pause(failures, e), 1.0 if self._unknown else MOST_REST))
                if time.monotonic() - first > CLAIM_LIFE:
                    return None, sent  # the next claim has another id

    def _look_for_queue(self, e: TierqError) -> None:
        """Raises the error if claims were answered with nothing but an unknown queue for ten seconds."""
        if e.code != "UNKNOWN_QUEUE" or e.status != 404:
            self._unknown = None if e.status else self._unknown
            return
        now = time.monotonic()
        self._unknown = self._unknown or now
        if now - self._unknown >= UNKNOWN_QUEUE:
            name = next((q for q in self._queues if q in e.detail), self._queues[0])
            type = next(iter(self._types()), "TYPE")
            todo = "declare the queue first: tierq queues declare %s --type %s" % (name, type)
            raise TierqError("%s; %s" % (e, todo), status=e.status, code=e.code, detail="%s; %s" % (e.detail, todo))

    def _give_back(self, body: Dict[str, Any]) -> None:
        """Repeats a claim whose answer the worker did not wait for, and releases the jobs that the claim has got."""
        s, conn = self._state, Connection(self._state.to)
        try:
            answer = s.read(conn, "claim", json.dumps({**body, "max": 1, "wait": 0}), CALL_TIME)
        except TierqError as e:
            s.warn("the last claim was not answered; if it got jobs, their leases have to end: %s", e)
            return
        finally:
            conn.close()
        answer.value["jobs"] = entries(answer.value.get("jobs"))
        for job in self._jobs(answer, time.monotonic(), MOST_LEASES):
            job._done = True
            with s.changed:
                s.held[job._lease] = job
            self._reports.put_back([Report(job, {"released": {}})])
