"""The lease of a job: until when it is held, why its handler should end, and what its heartbeats carry."""

from __future__ import annotations

import json
import threading
import time
from typing import Any, Dict, NamedTuple, Optional, Type

from .answers import error_of, ms, text
from .errors import Cancelled, LeaseLost, MaxTime, Stopped, TierqError
from .tell import Told

LEAST_EVERY = 0.1  # seconds between two heartbeats of a lease, whatever the server says
AGAIN = 1.0  # seconds until a checkpoint or progress is sent again that the server could not take
MOST_WAIT = 60.0  # seconds of one wait for an event: longer ones may be refused


class Beat(NamedTuple):
    """The entry of a lease in a heartbeat."""

    text: str
    save: int = 0  # the number of the checkpoint in it
    told: Optional[str] = None  # the progress in it


class Lease:
    """What a worker knows of a lease. Its condition, changed, guards what heartbeats change."""

    def __init__(self, claimed: Dict[str, Any], sent: float, changed: threading.Condition):
        """claimed is a job in an answer. Its times count from sent: when the claim was sent, and how long it was held.

        The error is a ValueError: the job cannot be read.
        """
        self.id: str = _text(claimed, "jobId")  # the same in each attempt: the key of the job's side effects
        self.type: str = _text(claimed, "type")
        self._lease: str = _text(claimed, "lease")
        self._every = max(_seconds(claimed, "heartbeatEveryMs"), LEAST_EVERY)
        self._until = sent + _seconds(claimed, "leaseForMs")  # the lease is surely held until then
        self._most = _seconds(claimed, "endsInMs")  # how long the attempt may take
        self._ends = sent + self._most
        self._next_beat(sent)
        self._again_at = 0.0  # what the server could not take is not sent again before
        self._cause: Optional[Type[Stopped]] = None  # what a heartbeat or the worker's end has said
        self._stop = threading.Event()
        self._done = False  # the handler has returned
        self._ended_by: Optional[Type[Stopped]] = None  # the cause at that time
        self._lost = False  # the server says that the job is not this worker's any more
        self._lost_at = 0.0
        self._said_end = self._said_still = False  # the worker's log has the line, or needs none
        self._changed = changed
        self._progress: Optional[str] = None  # a checkpoint that the server has not acknowledged
        self._saves = self._stored = self._refused = 0  # numbers of checkpoints
        self._refusal: Optional[TierqError] = None  # why the server did not take the checkpoint _refused
        self._alone = False  # what its heartbeats carry goes in calls of its own: a call with it was refused
        self._told = Told()

    @property
    def cause(self) -> Optional[Type[Stopped]]:
        """Why the handler should end: LeaseLost, Cancelled, MaxTime or Stopping; None while it should go on."""
        now = time.monotonic()
        if self._cause is not None:
            return self._cause
        return MaxTime if now >= self._ends else LeaseLost if now >= self._until else None

    @property
    def stopped(self) -> bool:
        """Whether the handler should end."""
        return self.cause is not None

    def check(self) -> None:
        """Raises the cause if the handler should end. A long handler calls it between its steps."""
        cause = self.cause
        if cause is not None:
            raise cause(self._why(cause))

    def _wait(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        while True:
            self.check()
            now = time.monotonic()
            if now >= end:
                return
            self._stop.wait(min(max(min(end, self._until, self._ends) - now, 0.001), MOST_WAIT))

    def _why(self, cause: Type[Stopped]) -> str:
        """Says why a handler should end, in words for its author."""
        if cause is MaxTime:
            return ("the attempt ended after %g s, its maximum processing time; raise it with maxProcessingSeconds of "
                    "the queue or maxProcessingTimeMs of the tier" % round(self._most, 1))
        if cause is LeaseLost:
            lost = "the server has taken the job back" if self._lost else "no heartbeat was answered in time"
            return "the lease was lost, another worker may run the job: " + lost
        return "the job was cancelled" if cause is Cancelled else "the worker stops"

    def _returned(self) -> None:
        """Notes how the handler has ended. Time that passes from now on is not the handler's."""
        self._ended_by = self.cause
        self._said_end = self._said_end or self._ended_by is None

    def _warning(self) -> Optional[str]:
        """Returns the line about this job that the worker's log lacks."""
        if not self._said_end and self.cause in (MaxTime, LeaseLost):
            self._said_end = True
            return "job %s (%s): %s" % (self.id, self.type, self._why(self.cause or MaxTime))
        if self._lost and not self._done and not self._said_still and time.monotonic() >= self._still_at:
            self._said_still = True
            return "job %s: the handler still runs although its attempt has ended; its slot stays taken" % self.id
        return None

    @property
    def _still_at(self) -> float:
        return self._lost_at + min(self._every, 2.0)

    @property
    def _warn_at(self) -> float:
        """When the next of these lines may be due."""
        if self._lost:
            return float("inf") if self._said_still else self._still_at
        if self._said_end or self._cause is not None:
            return float("inf")
        return min(self._ends, self._until)

    def _beat(self, save: bool, told: bool) -> Beat:
        """Returns an entry for a heartbeat, with the checkpoint and the progress if they wait and are wanted."""
        entry, number, progress = '{"lease":%s' % json.dumps(self._lease), 0, None
        if save and self._progress is not None:
            number = self._saves
            entry += ',"save":%d,"checkpoint":%s' % (number, self._progress)
        if told and self._told.progress is not None:
            progress = self._told.progress
            entry += ',"progress":' + progress
        return Beat(entry + "}", number, progress)

    def _hear(self, pulse: Any, beat: Beat, sent: float) -> bool:
        """Takes the answer to a heartbeat, whose times count from sent; it returns False if it cannot be read."""
        word = pulse.get("word") if type(pulse) is dict else None
        if word == "LOST":
            self._lose()
            return True
        leased = ms(pulse.get("leaseForMs")) if word in ("OK", "CANCEL") else None
        if leased is None:
            return False
        self._until = sent + leased
        self._next_beat(sent)
        error = error_of("heartbeat", pulse.get("error"))
        if error is None:
            self._took(beat)
        elif not error.refused:
            self._beat_at = self._again_at = time.monotonic() + min(self._every, AGAIN)
        elif beat.save and beat.told is not None:
            self._alone = True  # one by one, to see which of them is refused
        else:
            self._refuse(beat, error)
        if not self._waits:
            self._alone = False
        if word == "CANCEL":
            self._end(Cancelled)
        return True

    def _next_beat(self, sent: float) -> None:
        self._beat_at = min(sent, time.monotonic()) + self._every

    @property
    def _waits(self) -> bool:
        """Whether a checkpoint or progress waits to be sent."""
        return self._progress is not None or self._told.progress is not None

    def _took(self, beat: Beat) -> None:
        self._stored = max(self._stored, beat.save)
        if beat.save == self._saves:
            self._progress = None
        elif self._progress is not None and not self._alone:
            self._beat_at = time.monotonic()  # a handler has saved again meanwhile
        if beat.told is not None and self._told.progress == beat.told:
            self._told.progress = None

    def _refuse(self, beat: Beat, error: TierqError) -> None:
        """Gives up what a heartbeat carried: the call of save fails, progress is dropped."""
        if beat.save:
            self._refused, self._refusal = beat.save, error
            if beat.save == self._saves:
                self._progress = None
        elif self._told.progress == beat.told:
            self._told.progress = None
        if not self._waits:
            self._alone = False

    def _lose(self) -> None:
        # After the end of the handler this is the rule: the report has arrived before the heartbeat.
        self._beat_at = time.monotonic() + 3600
        if not self._done:
            self._lost, self._lost_at = True, time.monotonic()
            self._told.forget()
            self._end(LeaseLost)

    def _end(self, cause: Type[Stopped]) -> None:
        if self._cause is None:
            self._cause = self.cause or cause  # the first one stays
            self._stop.set()


def _text(claimed: Dict[str, Any], name: str) -> str:
    said = text(claimed.get(name))
    if not said:
        raise ValueError("its %s is no text" % name)
    return said


def _seconds(claimed: Dict[str, Any], name: str) -> float:
    seconds = ms(claimed.get(name))
    if seconds is None:
        raise ValueError("its %s is no number of milliseconds" % name)
    return seconds
