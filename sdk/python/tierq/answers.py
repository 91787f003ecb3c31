"""Reads what a server answers. An answer may be late, lost, odd or hostile: nothing in it ends a thread."""

from __future__ import annotations

import json
from typing import Any, Callable, List, Optional

from .errors import TierqError, Unavailable
from .texts import digits_limit, text_of

MOST_MS = float(1 << 53)


class LongInteger:
    """Stands for an integer of more digits than this Python reads."""

    def __init__(self, digits: int):
        self.digits = digits

    def __str__(self) -> str:
        return ("an integer of %d digits: Python reads at most %d (PYTHONINTMAXSTRDIGITS or "
                "sys.set_int_max_str_digits changes it)" % (self.digits, digits_limit()))


class Answer:
    """The JSON of an answer, which is parsed once."""

    def __init__(self, text: bytes, verb: str):
        """The error is an Unavailable."""
        self.marked: List[LongInteger] = []  # integers that could not be read
        self._limit = digits_limit()
        try:
            self.value: Any = json.loads(text, parse_int=self._whole)
        except (ValueError, RecursionError) as e:
            raise Unavailable("%s: the answer is not understood: %s" % (verb, text_of(e, 200))) from e

    def _whole(self, text: str) -> Any:
        digits = len(text) - (text[0] == "-")
        if not self._limit or digits <= self._limit:
            return int(text)
        self.marked.append(LongInteger(digits))
        return self.marked[-1]


def long_integer_in(value: Any) -> Optional[LongInteger]:
    """Returns the first integer in a parsed value that could not be read."""
    todo = [value]
    while todo:
        v = todo.pop()
        if type(v) is LongInteger:
            return v
        if type(v) is dict:
            todo.extend(v.values())
        elif type(v) is list:
            todo.extend(v)
    return None


def too_long(verb: str, status: int, long: LongInteger, kind: type = TierqError) -> TierqError:
    """Returns the error of a call whose answer has such an integer. It is no error that passes."""
    return kind("%s: the answer has %s" % (verb, long), status=status, code="INTEGER_TOO_LONG", detail=str(long))


def taken(answer: Answer, verb: str, status: int, take: Callable[[Any], Any], kind: type = TierqError) -> Any:
    """Returns what take finds in an answer for user code. The error is an Unavailable, or that of too_long."""
    long = long_integer_in(answer.value) if answer.marked else None
    if long is not None:
        raise too_long(verb, status, long, kind)
    try:
        return take(answer.value)
    except (LookupError, TypeError, ValueError, AttributeError) as e:
        raise Unavailable("%s: the answer is not understood: it lacks %s" % (verb, text_of(e, 200))) from e


def ms(value: Any) -> Optional[float]:
    """Returns milliseconds as seconds; None for what is no number of them."""
    if type(value) not in (int, float) or not 0 <= value <= MOST_MS:
        return None
    return value / 1000


def held(answer: Any) -> float:
    """Returns for how many seconds the server held a request before it wrote the answer."""
    return ms(answer.get("heldMs")) or 0.0


def whole(value: Any, otherwise: int) -> int:
    """Returns a whole number of an answer."""
    return value if type(value) is int else otherwise


def text(value: Any, otherwise: Any = "") -> Any:
    """Returns a text of an answer."""
    return value if type(value) is str else otherwise


def entries(value: Any) -> List[Any]:
    """Returns a list of an answer; empty if it is none."""
    return value if type(value) is list else []


def error_of(verb: str, said: Any) -> Optional[TierqError]:
    """Returns the error in an entry of an answer; None if there is none. One that cannot be read passes."""
    if said is None:
        return None
    if type(said) is not dict:
        said = {}
    status = whole(said.get("status"), 500)
    code, detail = text(said.get("errorCode")), text(said.get("detail"))
    return TierqError("%s: %d %s: %s" % (verb, status, code, detail), status=status, code=code, detail=detail,
                      job_id=text(said.get("jobId"), None))
