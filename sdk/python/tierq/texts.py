"""Turns values of user code into texts and JSON that a server takes, whatever the values do."""

from __future__ import annotations

import datetime
import json
import re
import sys
import traceback
from typing import Any, Dict, List, Optional, Tuple

MOST_TEXT = 4096  # bytes of each text of a report
MOST_NAME = 200
MOST_CHAIN = 50  # causes of an error whose stacks are written

_NAME, _MRO = type.__dict__["__name__"], type.__dict__["__mro__"]  # a metaclass may hide them
_CAUSE, _CONTEXT = BaseException.__dict__["__cause__"], BaseException.__dict__["__context__"]
_ARGS = BaseException.__dict__["args"]
_STRING = re.compile(r'"(?:[^"\\]|\\.)*"')


def clean(text: str) -> str:
    """Returns a text that is valid as UTF-8: each lone surrogate becomes U+FFFD."""
    try:
        text.encode()
        return text
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def cut(text: str, size: int) -> str:
    """Returns the beginning of a text, valid, of at most this many bytes."""
    return clean(text[:size]).encode()[:size].decode("utf-8", "ignore")


def text_of(value: Any, size: int = MOST_TEXT) -> str:
    """Returns the text of any value, or says what it is. It never raises."""
    try:
        return cut(str.__str__(str(value)), size)  # str may return an object of a subclass
    except BaseException:  # user code runs in str
        return "(%s without a text)" % name_of(type(value))


def shown(value: Any) -> str:
    """Returns a value as a message quotes it. It never raises."""
    if value is None or type(value) in (bool, int, float, str):
        try:
            return cut(repr(value), 100)
        except ValueError:  # an int of too many digits
            pass
    return "%s %s" % (name_of(type(value)), text_of(value, 100))


def name_of(cls: type) -> str:
    """Returns the name of a class, or of the nearest base that has one. It never raises."""
    try:
        for c in _MRO.__get__(cls):
            name = cut(str.__str__(_NAME.__get__(c)), MOST_NAME)
            if name.strip():
                return name
    except BaseException:  # a metaclass may do anything
        pass
    return "object"


def args_of(error: BaseException) -> Tuple[Any, ...]:
    """Returns what an exception was made of, also if its class hides args."""
    return _ARGS.__get__(error)


def stack_of(error: BaseException, trace: Any) -> str:
    """Returns the end of an error's traceback. It never raises."""
    try:
        if len(text_of(error)) < MOST_TEXT / 4:
            lines = traceback.format_exception(type(error), error, trace, chain=_chained(error) <= MOST_CHAIN)
            return _tail("".join(lines))
    except BaseException:  # the error's own code runs in it
        pass
    try:
        frames = "".join(traceback.format_tb(trace))
        return _tail("%s%s: %s" % (frames, name_of(type(error)), text_of(error, MOST_TEXT // 4)))
    except BaseException:
        return ""


def _chained(error: BaseException) -> int:
    """Counts the causes of an error, up to one more than are written."""
    todo, seen = [error], {id(error)}
    while todo and len(seen) <= MOST_CHAIN:
        e = todo.pop()
        for other in (_CAUSE.__get__(e), _CONTEXT.__get__(e)):
            if other is not None and id(other) not in seen:
                seen.add(id(other))
                todo.append(other)
    return len(seen)


def _tail(text: str) -> str:
    return clean(text[-MOST_TEXT:]).encode()[-MOST_TEXT:].decode("utf-8", "ignore")


def json_of(value: Any, default: Any = None) -> str:
    """Returns the JSON of a value, as strict readers take it.

    It raises a TypeError or ValueError for what is no JSON: NaN, a cycle, a name twice (of the keys 1 and "1"), an
    object of another kind; or whatever the value's own code raises.
    """
    text = clean(json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"), default=default))
    if "{" in text:
        json.loads(text, object_pairs_hook=_once, parse_int=len, parse_float=len)
    return text


def _once(pairs: List[Tuple[str, Any]]) -> None:
    names: Dict[str, bool] = {}
    for name, _ in pairs:
        if name in names:
            raise ValueError("the name %s is there twice" % json.dumps(name[:100]))
        names[name] = True


def depth_of(text: str) -> int:
    """Returns how many levels a JSON text has."""
    depth = most = 0
    for c in _STRING.sub("", text):
        if c in "[{":
            depth += 1
            most = max(most, depth)
        elif c in "]}":
            depth -= 1
    return most


def seconds_of(value: Any) -> float:
    """Returns a number of seconds, a timedelta too; the error is a TypeError or ValueError."""
    kind = type(value)
    if issubclass(kind, datetime.timedelta):
        return datetime.timedelta.total_seconds(value)
    if kind is bool or not (hasattr(kind, "__float__") or hasattr(kind, "__index__")):
        raise TypeError("wants a number of seconds, got " + shown(value))
    try:
        n = float(value)
    except OverflowError:  # a whole number beyond all floats
        n = float("inf") if value > 0 else float("-inf")
    if n != n:
        raise ValueError("wants a number of seconds, got " + shown(value))
    return n


def wait_of(value: Any, least: int, most: int) -> Tuple[Optional[int], str]:
    """Returns whole seconds within bounds, rounded up; or None, and what is wrong. It never raises."""
    try:
        n = min(max(seconds_of(value), float(least)), float(most))
        return int(-(-n // 1)), ""
    except BaseException:  # the value's own code may run
        return None, "wants a number of seconds, got " + shown(value)


def digits_limit() -> int:
    """Returns how many digits an integer may have that Python reads from a text; 0 = any number."""
    limit = getattr(sys, "get_int_max_str_digits", None)
    return limit() if limit is not None else 4300  # older ones need minutes for very long numbers
