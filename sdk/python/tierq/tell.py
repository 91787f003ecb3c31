"""What a handler tells of its job beside the result: how far it is, and lines of a log."""

from __future__ import annotations

import json
import time
from typing import Any, Dict, List, NamedTuple, Optional, Tuple

from .texts import depth_of, json_of, text_of

MOST_NOTE = 200  # bytes
MOST_LINE = 4 << 10  # bytes of the text and of the attributes of a line
MOST_DEPTH = 29  # levels of the attributes: a server takes 32 with those around them
MOST_NUMBER = 998_000  # of a line
MOST_WAITING = 1000  # lines of a job
MOST_WAITING_BYTES = 512 << 10
MOST_AGE = 3_600_000  # ms
MOST_AMOUNT = (1 << 53) - 1


class Line(NamedTuple):
    """A line that waits to be sent."""

    members: str  # its JSON without the age and the last brace
    size: int
    at: float


class Taken(NamedTuple):
    """Lines in a call."""

    text: str  # the members from and lines
    lines: int
    kept: int  # lines that waited
    lost: int  # lines that did not fit


class Told:
    """What one handler has told and the server lacks. The worker's condition guards it."""

    def __init__(self) -> None:
        self.progress: Optional[str] = None  # the JSON of the last one
        self.dropped = 0  # lines behind those that wait, which did not fit
        self.closed = False  # the handler has returned, or the lease is lost
        self.alone = False  # the lines go in a call of their own: a call with them was refused
        self._lines: List[Line] = []
        self._size = 0
        self._first = 1  # the number of the first line that waits
        self._steps = 0

    @property
    def waiting(self) -> int:
        return len(self._lines) + self.dropped

    @property
    def empty(self) -> bool:
        """Whether the server has everything."""
        return self.progress is None and self.waiting == 0

    def progressed(self, done: int, total: int, note: str) -> bool:
        """Takes how far the handler is, and returns whether no other progress waited."""
        if self.closed:
            return False
        self._steps += 1
        said: Dict[str, Any] = {"step": self._steps, "done": done}
        if total:
            said["total"] = total
        if note:
            said["note"] = note
        first, self.progress = self.progress is None, json.dumps(said, separators=(",", ":"))
        return first

    def logged(self, level: str, text: str, attrs: str) -> bool:
        """Takes a line, and returns whether it is the first that waits."""
        if self.closed or self._first + self.waiting > MOST_NUMBER:
            return False
        first, size = self.waiting == 0, len(text.encode()) + len(attrs.encode())
        if self.dropped or len(self._lines) == MOST_WAITING or self._size + size > MOST_WAITING_BYTES:
            self.dropped += 1
            return first
        members = '{"level":"%s","text":%s' % (level, json.dumps(text))
        if attrs:
            members += ',"attrs":' + attrs
        self._lines.append(Line(members, size, time.monotonic()))
        self._size += size
        return first

    def take(self, most: int) -> Taken:
        """Returns lines for a call. Lost lines are one null, under the last one's number."""
        lines = self._lines[:most]
        if not lines:
            return Taken('"from":%d,"lines":[null]' % (self._first + self.dropped - 1), 1, 0, self.dropped)
        now = time.monotonic()
        texts = ['%s,"ageMs":%d}' % (line.members, min((now - line.at) * 1000, MOST_AGE)) for line in lines]
        return Taken('"from":%d,"lines":[%s]' % (self._first, ",".join(texts)), len(lines), len(lines), 0)

    def taken(self, t: Taken) -> None:
        """Takes off lines that the server has, or does not take."""
        self._first += t.kept + t.lost
        self.dropped = max(self.dropped - t.lost, 0)
        self._size -= sum(line.size for line in self._lines[:t.kept])
        del self._lines[:t.kept]

    def refused(self) -> None:
        """The server understands none of the lines: they become lost ones."""
        self.dropped += len(self._lines)
        self._lines, self._size = [], 0

    def forget(self) -> None:
        """The lease is lost: there is nobody to tell."""
        self.closed, self.progress = True, None
        self.dropped = self._size = 0
        self._lines = []


def amount(n: Any) -> int:
    """Returns a whole number, 0 or more, that every JSON reader takes exactly; 0 for what is no number."""
    try:
        return min(max(int(n), 0), MOST_AMOUNT)
    except OverflowError:  # infinite
        return MOST_AMOUNT if n > 0 else 0
    except BaseException:  # the value's own code must not fail the handler
        return 0


def attrs_of(attrs: Dict[str, Any], size: int) -> str:
    """Returns the attributes of a line as a JSON object, without those that are no JSON; "" if they do not fit."""
    said: Dict[str, str] = {}
    for name, value in attrs.items():
        try:
            member = json_of(value, default=text_of)
            if depth_of(member) < MOST_DEPTH:
                said[json_of(name)] = member
        except BaseException:  # the value's own code must not fail the handler
            pass
    text = "{%s}" % ",".join("%s:%s" % pair for pair in said.items())
    return text if said and len(text.encode()) <= size else ""


def line_of(text: Any, attrs: Dict[str, Any]) -> Tuple[str, str]:
    """Returns the text and the attributes of a line, as they fit."""
    said = text_of(text, MOST_LINE)
    return said, attrs_of(attrs, MOST_LINE - len(said.encode()))
