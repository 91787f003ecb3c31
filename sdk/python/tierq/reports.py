"""Sends the reports of a worker."""

from __future__ import annotations

import json
import time
from typing import Any, List, Optional

from .answers import entries, error_of
from .connection import Connection, pause
from .errors import LeaseLost, MaxTime, TierqError
from .job import Job
from .report import Report
from .state import CALL_TIME, MOST_BYTES, State

MOST_REPORTS = 1000


class Reports:
    """The reports that wait, and the calls that carry them if no claim does."""

    def __init__(self, state: State):
        self._state = state
        self._conn = Connection(state.to)
        self._failures = 0

    def take(self, with_claim: bool) -> List[Report]:
        """Takes the oldest reports that one call may carry; a claim carries reports that were in no call yet."""
        s = self._state
        taken: List[Report] = []
        left: List[Report] = []
        size = 0
        with s.changed:
            for r in s.ended:
                full = len(taken) == MOST_REPORTS or bool(taken) and (
                    size + r.size > MOST_BYTES or r.single or taken[0].single)
                if full or with_claim and r.alone or not with_claim and s.hungry and not r.alone:
                    left.append(r)
                else:
                    taken.append(r)
                    size += r.size
            s.ended = left
            if with_claim:
                s.hungry = False
                s.changed.notify_all()
        return taken

    def put_back(self, reports: List[Report]) -> List[Report]:
        """Keeps reports for another call, without a claim. It returns an empty list."""
        s = self._state
        with s.changed:
            for r in reports:
                r.alone = True
            s.ended[:0] = reports
            s.changed.notify_all()
        return []

    def run(self) -> None:
        """Sends the reports that no claim carries, until the worker is over."""
        self._state.loop("reports", self._step)
        self._conn.close()

    def _step(self) -> bool:
        s = self._state
        batch = self.take(False)
        if not batch:
            with s.changed:
                if s.over:
                    return False
                if not any(r.alone or not s.hungry for r in s.ended):
                    s.changed.wait(0.5)
            return True
        error = self._send(batch)
        self._failures = self._failures + 1 if error else 0
        if error:
            if s.over:
                return False
            s.warn("reports were not answered, and are sent again: %s", error)
            time.sleep(pause(self._failures, error))
        return True

    def _send(self, batch: List[Report]) -> Optional[TierqError]:
        """Makes a call; an error says that reports have to be sent again."""
        s = self._state
        text = '{"worker":%s,"reports":[%s]}' % (json.dumps(s.name), ",".join(r.text for r in batch))
        try:
            answer = s.call(self._conn, "report", text, CALL_TIME)
        except TierqError as e:
            if not e.refused:
                self.put_back(batch)
                return e
            if len(batch) == 1:
                self._replace(batch[0], e.detail)
            else:
                for r in batch:
                    r.single = True
                self.put_back(batch)
            return None
        return self.acknowledge(batch, answer.get("reports"))

    def acknowledge(self, batch: List[Report], said: Any) -> Optional[TierqError]:
        """Lets go of the jobs whose reports were answered; the error says why some were not carried out."""
        error: Optional[TierqError] = None
        answers = entries(said)
        for i, r in enumerate(batch):
            e = error_of("report", {"status": 503, "detail": "the answer lacks reports"})
            if i < len(answers) and type(answers[i]) is dict:
                e = error_of("report", answers[i].get("error"))
            if e is not None and e.code == "LEASE_LOST":
                self.too_late(r.job)
                e = None
            if e is None:
                self._release(r)
            elif not e.refused:
                error = e
                self.put_back([r])
            else:
                self._replace(r, e.detail)
        return error

    def too_late(self, job: Job) -> None:
        """Tells the worker's log that a job's result is lost, and why."""
        why = {MaxTime: ": its maximum processing time was over", LeaseLost: ": its lease was lost"}
        self._state.warn("job %s (%s): the server did not take its result: the attempt had ended before%s", job.id,
                         job.type, why.get(job._ended_by, ""))

    def _release(self, r: Report) -> None:
        s = self._state
        with s.changed:
            s.held.pop(r.job._lease, None)
            s.changed.notify_all()

    def _replace(self, r: Report, why: str) -> None:
        """Reports a failure in place of a report that the server refuses; if it refuses that too, the lease ends."""
        self._state.warn("the server refuses the report of job %s: %s", r.job.id, why)
        if r.replaced:
            self._release(r)
        else:
            self.put_back([r.replacement(why)])
