"""Sends the reports of a worker."""

from __future__ import annotations

import json
import time
from typing import Any, Dict, List, Optional

from .errors import TierqError
from .connection import Connection, pause
from .report import Report
from .state import CALL_TIME, MOST_BYTES, State

MOST_REPORTS = 1000


class Reports:
    """The reports that wait, and the calls that carry them if no claim does."""

    def __init__(self, state: State):
        self._state = state

    def take(self, with_claim: bool) -> List[Report]:
        """Takes the oldest reports that one call may carry; a claim carries reports that were in no call yet."""
        s = self._state
        taken: List[Report] = []
        left: List[Report] = []
        size = 0
        with s.changed:
            for r in s.ended:
                full = len(taken) == MOST_REPORTS or bool(taken) and (
                    size + len(r.text) > MOST_BYTES or r.single or taken[0].single)
                if full or with_claim and r.alone or not with_claim and s.hungry and not r.alone:
                    left.append(r)
                else:
                    taken.append(r)
                    size += len(r.text)
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
        s = self._state
        conn, failures = Connection(s.to), 0
        while True:
            batch = self.take(False)
            if not batch:
                with s.changed:
                    if s.over:
                        break
                    if not any(r.alone or not s.hungry for r in s.ended):
                        s.changed.wait(0.5)
                continue
            text = '{"worker":%s,"reports":[%s]}' % (json.dumps(s.name), ",".join(r.text for r in batch))
            try:
                answer = s.call(conn, "report", text, CALL_TIME)
                error = self.acknowledge(batch, answer["reports"])
            except TierqError as e:
                error = e
                if e.passing or e.status >= 500:
                    self.put_back(batch)
                elif len(batch) > 1:
                    for r in batch:
                        r.single = True
                    self.put_back(batch)
                    error = None
                else:
                    self._replace(batch[0], e.detail)
                    error = None
            failures = failures + 1 if error else 0
            if error:
                if s.over:
                    break
                s.log.warning("reports were not answered, and are sent again: %s", error)
                time.sleep(pause(failures, error))
        conn.close()

    def acknowledge(self, batch: List[Report], answers: List[Dict[str, Any]]) -> Optional[TierqError]:
        """Lets go of the jobs whose reports were answered; the error says why some were not carried out."""
        error: Optional[TierqError] = None
        for i, r in enumerate(batch):
            said: Any = {"status": 503, "detail": "the answer lacks reports"}
            if i < len(answers):
                said = answers[i].get("error")
            if said is None or said.get("errorCode") == "LEASE_LOST":
                if said is not None:
                    self._state.log.info("job %s is not this worker's any more: its report counts nothing", r.job.id)
                self._release(r)
                continue
            e = TierqError("report: %s" % said, status=said.get("status", 500), detail=said.get("detail") or "")
            if e.passing or e.status >= 500:
                error = e
                self.put_back([r])
            else:
                self._replace(r, e.detail)
        return error

    def _release(self, r: Report) -> None:
        s = self._state
        with s.changed:
            s.held.pop(r.job._lease, None)
            s.changed.notify_all()

    def _replace(self, r: Report, why: str) -> None:
        """Reports a permanent failure in place of a report that the server refuses.

        Each attempt would end with such a report, of too large a result for example. If the server refuses the second
        report too, the lease runs out.
        """
        self._state.log.error("the server refuses the report of job %s: %s", r.job.id, why)
        if r.replaced:
            self._release(r)
            return
        failed = {"error": {"message": ("the server refused the report: " + why)[:4096]}, "permanent": True}
        other = Report(r.job, json.dumps({"lease": r.job._lease, "failed": failed}))
        other.single = other.replaced = True
        self.put_back([other])
