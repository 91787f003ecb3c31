"""Sends the heartbeats of a worker."""

from __future__ import annotations

import json
import time
from typing import Any, List, Optional, Tuple

from .answers import entries, held
from .connection import Connection, pause
from .errors import TierqError, Unavailable
from .job import Job
from .lease import Beat
from .state import CALL_TIME, MOST_BYTES, State

MOST_BEATS = 1000
TELL_EVERY = 1.0  # seconds between two heartbeats that are sent because of progress

Batch = List[Tuple[Job, Beat]]


class Beats:
    """Keeps the jobs of a worker: one call has all whose heartbeat is due, or will be soon.

    A heartbeat carries checkpoints and progress along. If the server refuses the whole call, the next one has bare
    leases, and what was carried goes in calls of its own, one by one.
    """

    def __init__(self, state: State):
        self._state = state
        self._conn = Connection(state.to)
        self._failures = 0
        self._told_at = float("-inf")  # when a heartbeat last carried progress

    def run(self) -> None:
        """Sends heartbeats until the worker is over."""
        self._state.loop("heartbeats", self._step)
        self._conn.close()

    def _step(self) -> bool:
        s = self._state
        with s.changed:
            if s.over:
                return False
            lines = [line for line in [job._warning() for job in s.held.values() if not job._done] if line]
            batch = self._due()
            if not batch and not lines:
                wait = self._wake_at() - time.monotonic()
                s.changed.wait(min(max(wait, 0.001), 60.0))
                return True
        for line in lines:
            s.warn("%s", line)
        if batch:
            self._send(batch)
        return True

    def _due(self) -> Batch:
        """Returns the entries of one call, empty if none is due."""
        now = time.monotonic()
        jobs = [job for job in self._state.held.values() if not job._lost]
        batch: Batch = []
        if any(self._due_at(job) <= now for job in jobs):
            size = 0
            for job in jobs:
                if len(batch) == MOST_BEATS or size > MOST_BYTES:
                    break
                carries = job._waits and not job._alone
                if job._beat_at - now <= job._every / 2 or carries:
                    batch.append((job, job._beat(carries, carries)))
                    size += len(batch[-1][1].text.encode())
        else:
            for job in jobs:
                if self._alone_at(job) <= now:
                    saves = job._progress is not None
                    batch.append((job, job._beat(saves, not saves)))
                    break
        if any(beat.told is not None for _, beat in batch):
            self._told_at = now
        return batch

    def _due_at(self, job: Job) -> float:
        """Returns when a job's heartbeat is due; its progress makes it due earlier, at most once a second for all."""
        if job._alone or job._told.progress is None:
            return job._beat_at
        return min(job._beat_at, self._tell_at(job))

    def _alone_at(self, job: Job) -> float:
        """Returns when a call is due that has only what this job's heartbeat carries."""
        if not job._alone or not job._waits:
            return float("inf")
        return max(job._again_at, float("-inf") if job._progress is not None else self._tell_at(job))

    def _tell_at(self, job: Job) -> float:
        return job._again_at if job._told.closed else max(job._again_at, self._told_at + TELL_EVERY)

    def _wake_at(self) -> float:
        jobs = self._state.held.values()
        times = [min(self._due_at(job), self._alone_at(job)) for job in jobs if not job._lost]
        return min(times + [job._warn_at for job in jobs if not job._done], default=float("inf"))

    def _send(self, batch: Batch) -> None:
        s = self._state
        text = '{"worker":%s,"leases":[%s]}' % (json.dumps(s.name), ",".join(beat.text for _, beat in batch))
        timeout = max(min([CALL_TIME] + [job._every for job, _ in batch]), 1.0)
        sent = time.monotonic()
        error: Optional[TierqError] = None
        pulses: List[Any] = []
        try:
            answer = s.call(self._conn, "heartbeat", text, timeout)
            sent, pulses = sent + held(answer), entries(answer.get("leases"))
        except TierqError as e:
            error = e
        with s.changed:
            if error is None:
                error = self._heard(batch, pulses, sent)
            elif not error.refused or not self._apart(batch, error):
                for job, _ in batch:
                    job._beat_at = time.monotonic() + 0.1
            else:
                error = None  # the next call is another one
            s.changed.notify_all()
        self._failures = self._failures + 1 if error else 0
        if error:
            s.warn("a heartbeat of %d jobs was not answered: %s", len(batch), error)
            time.sleep(min(pause(self._failures, error), 1.0))  # the leases do not wait for longer

    def _heard(self, batch: Batch, pulses: List[Any], sent: float) -> Optional[TierqError]:
        """Takes the answers to a heartbeat, whose times count from sent."""
        error = None
        for i, (job, beat) in enumerate(batch):
            if i >= len(pulses) or not job._hear(pulses[i], beat, sent):
                job._beat_at = time.monotonic() + 0.1
                error = Unavailable("the answer about job %s is not understood" % job.id)
        return error

    def _apart(self, batch: Batch, error: TierqError) -> bool:
        """Takes the refusal of a whole call; False if the call carried only leases."""
        carriers = [(job, beat) for job, beat in batch if beat.save or beat.told is not None]
        if len(batch) == 1 and carriers and batch[0][0]._alone:
            job, beat = batch[0]
            job._refuse(beat, error)
            return True
        for job, _ in carriers:
            job._alone = True
        if carriers:
            for job, _ in batch:
                job._beat_at = time.monotonic()
        return bool(carriers)
