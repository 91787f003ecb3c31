"""Sends the lines that handlers log."""

from __future__ import annotations

import json
import time
from typing import List, Optional, Tuple

from .answers import entries, error_of
from .connection import Connection, pause
from .errors import TierqError
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
        self._conn = Connection(state.to)
        self._failures = 0

    def run(self) -> None:
        """Sends lines until the worker is over."""
        self._state.loop("lines", self._step)
        self._conn.close()

    def _step(self) -> bool:
        s = self._state
        batch = self._due()
        if batch is None:
            return False
        error = self._send(batch) if batch else None
        self._failures = self._failures + 1 if error else 0
        if error:
            time.sleep(min(pause(self._failures, error), LOG_EVERY))
        with s.changed:
            for job, _ in batch:
                if job._told.waiting:
                    soon = error or job._told.closed or job._told.dropped
                    s.send_lines(0.0 if soon else LOG_EVERY)
        return True

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

    def _send(self, batch: Batch) -> Optional[TierqError]:
        """Makes a call; an error says that the same lines have to be sent again."""
        s = self._state
        logs = ",".join('{"lease":%s,%s}' % (json.dumps(job._lease), taken.text) for job, taken in batch)
        try:
            text = '{"worker":%s,"logs":[%s]}' % (json.dumps(s.name), logs)
            said = entries(s.call(self._conn, "log", text, TELL_TIME).get("logs"))
        except TierqError as e:
            if not e.refused:
                return e
            self._refused(batch, e)
            return None
        again: Optional[TierqError] = None
        with s.changed:
            for i, (job, taken) in enumerate(batch):
                answered = i < len(said) and type(said[i]) is dict
                error = error_of("log", said[i].get("error") if answered else {})
                if error is not None and not error.refused:
                    again = error
                    continue
                job._told.alone = False
                if error is not None and error.code == "LEASE_LOST":
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
        s.warn("the server refuses lines of job %s: %s", job.id, e)
