"""Claims jobs for a worker."""

from __future__ import annotations

import json
import os
import random
import re
import socket
import time
from typing import Any, Callable, Dict, Optional, Sequence, Tuple

from .errors import TierqError
from .connection import Connection, pause
from .job import Job
from .report import Report
from .reports import Reports
from .state import CALL_TIME, State

CLAIM_WAIT = 20  # seconds that the server holds a claim while there is no job
CLAIM_LIFE = 45  # seconds for which a claim is repeated with its id; the server remembers it for a minute
MOST_CLAIM = 100


class Claims:
    """Asks for as many jobs as there are free places, and gives each to begin."""

    def __init__(self, state: State, reports: Reports, begin: Callable[[Job], None], queues: Sequence[str],
                 tiers: Sequence[str], lease: Optional[int]):
        self._state, self._reports, self._begin = state, reports, begin
        self._queues, self._tiers, self._lease = list(queues), list(tiers), lease

    def run(self) -> None:
        """Asks for jobs until stop. The error is the server's refusal of the first claim."""
        s = self._state
        s.claiming = conn = Connection(s.to)
        start, taken = "%08x" % random.getrandbits(32), False
        number = 0
        try:
            while True:
                places = self._await_place()
                if not places:
                    return
                number += 1
                body: Dict[str, Any] = {"worker": s.name, "queues": self._queues, "max": min(places, MOST_CLAIM),
                                        "wait": CLAIM_WAIT, "claimId": "%s-%d" % (start, number), "info": self._info()}
                if self._tiers:
                    body["tiers"] = self._tiers
                if self._lease:
                    body["leaseSeconds"] = self._lease
                answer, sent = self._claim(conn, body, taken)
                if answer is None:
                    continue
                taken = True
                rest = answer.get("retryAfterMs", 0) / 1000
                if answer.get("state") == "quiet" and not rest:
                    rest = 1.0
                with s.changed:
                    s.free -= len(answer["jobs"])
                    s.hungry = not rest and not s.stopping
                    for claimed in answer["jobs"]:
                        job = Job(claimed, sent, s.changed, s.ask, s.logged)
                        s.held[job._lease] = job
                    s.changed.notify_all()
                for claimed in answer["jobs"]:
                    self._begin(s.held[claimed["lease"]])
                s.rest(min(rest, 60.0))
        finally:
            conn.close()

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

    def _claim(self, conn: Connection, body: Dict[str, Any], taken: bool) -> Tuple[Optional[Dict[str, Any]], float]:
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
                answer = s.call(conn, "claim", text, CLAIM_WAIT + CALL_TIME)
                self._reports.acknowledge(carried, answer.get("reported") or [])
                return answer, sent
            except TierqError as e:
                body["repeat"] = body.get("repeat", 0) + 1  # how often the claim was sent before
                # The reports go alone from here: if they are why the claim is refused, the next one is not.
                with_reports, carried = bool(carried), self._reports.put_back(carried)
                failures += 1
                if s.stopping:
                    self._give_back(body)
                    return None, sent
                final = not e.passing and e.status < 500
                if final and not taken and not with_reports and e.status != 404:
                    raise
                if not final or not with_reports:
                    s.log.warning("a claim failed, and is made again: %s", e)
                    s.rest(pause(failures, e))
                if time.monotonic() - first > CLAIM_LIFE:
                    return None, sent  # the next claim has another id

    def _give_back(self, body: Dict[str, Any]) -> None:
        """Repeats a claim whose answer the worker did not wait for, and releases the jobs that the claim has got."""
        s, conn = self._state, Connection(self._state.to)
        try:
            answer = s.call(conn, "claim", json.dumps({**body, "max": 1, "wait": 0}), CALL_TIME)
        except TierqError as e:
            s.log.warning("the last claim was not answered; if it got jobs, their leases have to end: %s", e)
            return
        finally:
            conn.close()
        for claimed in answer["jobs"]:
            job = Job(claimed, time.monotonic(), s.changed)
            job._done = True
            with s.changed:
                s.held[job._lease] = job
            self._reports.put_back([Report(job, json.dumps({"lease": job._lease, "released": {}}))])
