"""Sends the lines that handlers log."""

from __future__ import annotations

import json
import time
from typing import List, Optional, Tuple

from .errors import TierqError
from .connection import Connection, pause
from .job import Job
from .state import State, TELL_TIME
from .tell import Taken

LOG_EVERY = 1.0  # seconds that a line waits for others
MOST_LINES = 500  # in one call

Batch = List[Tuple[Job, Taken]]


class Logs:
    """Sends the lines of all jobs that a worker holds, one call at a time."""

    def __init__(self, state: State):
        self._state = state

    def run(self) -> None:
        """Sends lines until the worker is over."""
        s = self._state
        conn, failures = Connection(s.to), 0
        while True:
            batch = self._due()
            if batch is None:
                break
            error = self._send(conn, batch) if batch else None
            failures = failures + 1 if error else 0
            if error:
                time.sleep(min(pause(failures, error), LOG_EVERY))
            with s.changed:
                for job, _ in batch:
                    if job._told.waiting:
                        soon = error or job._told.closed or job._told.dropped
                        s.send_lines(0.0 if soon else LOG_EVERY)
        conn.close()

    def _due(self) -> Optional[Batch]:
        """Waits until lines are due, and returns those of one call; None at the end.

        The jobs whose reports wait for their lines come first.
        """
        s = self._state
        with s.changed:
            while not s.over:
                wait = s.lines_at - time.monotonic()
                if wait > 0:
                    s.changed.wait(min(wait, 60.0))
                    continue
                s.lines_at = float("inf")
                jobs = [job for job in s.held.values() if job._told.waiting]
                jobs.sort(key=lambda job: not job._told.closed)
                batch: Batch = []
                lines = 0
                for job in jobs:
                    told = job._told
                    if lines >= MOST_LINES or batch and told.alone:
                        s.send_lines(0.0)
                        continue
                    batch.append((job, told.take(MOST_LINES - lines)))
                    lines = MOST_LINES if told.alone else lines + batch[-1][1].lines
                    if batch[-1][1].kept < told.waiting:
                        s.send_lines(0.0)
                return batch
        return None

    def _send(self, conn: Connection, batch: Batch) -> Optional[TierqError]:
        """Makes a call; an error says that the same lines have to be sent again."""
        s = self._state
        entries = ",".join('{"lease":%s,%s}' % (json.dumps(job._lease), taken.text) for job, taken in batch)
        try:
            text = '{"worker":%s,"logs":[%s]}' % (json.dumps(s.name), entries)
            said = s.call(conn, "log", text, TELL_TIME).get("logs") or []
        except TierqError as e:
            if e.passing or e.status >= 500:
                return e
            self._refused(batch, e)
            return None
        again = None
        with s.changed:
            for i, (job, taken) in enumerate(batch):
                error = (said[i] if i < len(said) else {}).get("error") or {}
                status = error.get("status", 0)
                if status == 429 or status >= 500:
                    again = TierqError("log: %d %s" % (status, error.get("errorCode")), status=status)
                    continue
                job._told.alone = False
                if error.get("errorCode") == "LEASE_LOST":
                    job._told.forget()
                else:
                    job._told.taken(taken)
            s.changed.notify_all()
        return again

    def _refused(self, batch: Batch, e: TierqError) -> None:
        s = self._state
        with s.changed:
            if len(batch) > 1:
                for job, _ in batch:
                    job._told.alone = True
                s.send_lines(0.0)
                return
            job, taken = batch[0]
            job._told.alone = False
            if taken.kept:
                job._told.refused()
            else:
                job._told.taken(taken)
            s.changed.notify_all()
        s.log.warning("the server refuses lines of job %s: %s", job.id, e)
