"""Sends the heartbeats of a worker."""

from __future__ import annotations

import json
import time
from typing import List, Optional, Tuple

from .errors import TierqError
from .connection import Connection, pause
from .job import Job
from .state import CALL_TIME, MOST_BYTES, State

MOST_BEATS = 1000

Batch = List[Tuple[Job, str, int, Optional[str]]]


class Beats:
    """Keeps the jobs of a worker: one call has all whose heartbeat is due, or will be soon."""

    def __init__(self, state: State):
        self._state = state

    def run(self) -> None:
        """Sends heartbeats until the worker is over."""
        s = self._state
        conn, failures = Connection(s.to), 0
        while True:
            batch = self._due()
            if batch is None:
                break
            sent = time.monotonic()
            entries = ",".join(entry for _, entry, _, _ in batch)
            text = '{"worker":%s,"leases":[%s]}' % (json.dumps(s.name), entries)
            timeout = max(min([CALL_TIME] + [job._every for job, _, _, _ in batch]), 1.0)
            error: Optional[TierqError] = None
            try:
                answer = s.call(conn, "heartbeat", text, timeout)
                pulses = answer["leases"]
            except TierqError as e:
                error, pulses = e, []
            with s.changed:
                for i, (job, _, save, told) in enumerate(batch):
                    if i < len(pulses):
                        job._hear(pulses[i], save, told, sent)
                    else:
                        job._beat_at = time.monotonic() + 0.1
                s.changed.notify_all()
            failures = failures + 1 if error else 0
            if error:
                s.log.warning("a heartbeat of %d jobs was not answered: %s", len(batch), error)
                time.sleep(min(pause(failures, error), 1.0))  # the leases do not wait for longer
        conn.close()

    def _due(self) -> Optional[Batch]:
        """Waits until a heartbeat is due, and returns its jobs, with all that will be due soon; None at the end."""
        s = self._state
        with s.changed:
            while not s.over:
                now = time.monotonic()
                wait = min([60.0] + [job._beat_at - now for job in s.held.values() if not job._lost])
                if wait > 0:
                    s.changed.wait(wait)
                    continue
                batch: Batch = []
                size = 0
                for job in s.held.values():
                    if job._lost or job._beat_at - now > job._every / 2:
                        continue
                    if len(batch) == MOST_BEATS or size > MOST_BYTES:
                        break
                    batch.append((job, *job._beat()))
                    size += len(batch[-1][1])
                return batch
        return None
