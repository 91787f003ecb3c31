"""What handlers may do, and what is reported: a table, and the objects that it needs."""

import datetime
import decimal
import sys
import threading

from tierq import Later, Permanent, RetryAfter

NAN, INF = float("nan"), float("inf")


def bad(*args):
    raise TypeError("no such thing")


class NoText(Exception):
    __str__ = __repr__ = bad


class Exits(Exception):
    def __str__(self):
        sys.exit(1)


class Odd(type):
    __name__ = property(bad)


class Nameless(Exception, metaclass=Odd):
    pass


class Liar(Exception):
    __class__ = property(bad)
    args = __cause__ = __notes__ = __traceback__ = property(bad)


class NoSeconds(RetryAfter):
    def __init__(self):
        pass


class Subtle(str):
    __getitem__ = encode = __len__ = bad


class Said(Exception):
    def __str__(self):
        return Subtle("subtle")


class Items(dict):
    items = __iter__ = keys = bad


class Rows(list):
    def __iter__(self):
        sys.exit(2)


def raises(error):
    def fn(payload, job):
        raise error
    return fn


def cycle():
    a, b = ValueError("a"), ValueError("b")
    a.__cause__, b.__cause__ = b, a
    return a


def chain(n):
    first = error = ValueError("last")
    for i in range(n):
        error.__cause__ = ValueError(str(i))
        error = error.__cause__
    return first


def deep(n):
    value = []
    for _ in range(n):
        value = [value]
    return value


def knot():
    value = []
    value.append(value)
    return value


def failed(message, **more):
    return lambda said: said == {"failed": {"error": {"message": message}, **more}}


def error(begins, type, **more):
    """Checks a failure that the tier retries."""
    def check(said):
        e = said["failed"].pop("error")
        short = all(len(text.encode()) <= 4096 for text in e.values())
        return e["message"].startswith(begins) and e.get("type") == type and short and said == {"failed": more}
    return check


def result(why):
    def check(said):
        message = said["failed"]["error"]["message"]
        return said["failed"]["permanent"] and message.startswith("result: ") and why in message
    return check


def done(value):
    return lambda said: said == {"completed": {"result": value}}


def later(seconds, **more):
    return lambda said: said == {"released": {"delaySeconds": seconds, **more}}


def unsaid(what, got):
    """Checks a wait that cannot be read: the attempt fails, the tier decides when it is made again."""
    begins = "busy (retry after: " if what == "retry" else "later: "
    return lambda said: (set(said["failed"]) == {"error"} and said["failed"]["error"]["message"].startswith(
        begins + "wants a number of seconds, got " + got))


HOUR = datetime.timedelta(hours=1)
HANDLERS = {
    "text": (lambda: "a\ud800b", done("a\ufffdb")),
    "keys": (lambda: {"\udc00": ["\ud83d\ude00"]}, done({"\ufffd": ["\U0001f600"]})),
    "nan": (lambda: {"a": [NAN]}, result("not JSON compliant")),
    "knot": (knot, result("Circular")),
    "set": (lambda: {1, 2}, result("set is not JSON serializable")),
    "deep": (lambda: deep(100_000), result("RecursionError")),
    "twice": (lambda: {1: "a", "1": "b"}, result('the name "1" is there twice')),
    "same": (lambda: {"\ud800": 1, "\ud801": 2}, result("is there twice")),
    "items": (lambda: Items(a=1), result("no such thing")),
    "rows": (lambda: Rows([1]), result("SystemExit")),
    "tuple key": (lambda: {(1, 2): 3}, result("keys must be")),
    "no text": (raises(NoText()), error("(NoText without a text)", "NoText")),
    "exits": (raises(Exits()), error("(Exits without a text)", "Exits")),
    "nameless": (raises(Nameless("x")), error("x", "Nameless")),
    "no name": (raises(type("", (KeyError,), {})("x")), error("'x'", "KeyError")),
    "liar": (raises(Liar("x")), error("x", "Liar")),
    "subtle": (raises(Said()), error("subtle", "Said")),
    "huge": (raises(ValueError("\u00fc\ud800" * 5_000_000)), error("\u00fc\ufffd\u00fc", "ValueError")),
    "cycle": (raises(cycle()), error("a", "ValueError")),
    "chain": (raises(chain(20_000)), error("last", "ValueError")),
    "recursion": (lambda: raises_deep(), error("maximum recursion", "RecursionError")),
    "system exit": (lambda: sys.exit(3), error("3", "SystemExit")),
    "interrupt": (raises(KeyboardInterrupt()), error("", "KeyboardInterrupt")),
    "generator exit": (raises(GeneratorExit("g")), error("g", "GeneratorExit")),
    "permanent": (raises(Permanent()), failed("permanent: the handler gave no error", permanent=True)),
    "permanent none": (raises(Permanent(None)), failed("permanent: the handler gave no error", permanent=True)),
    "permanent text": (raises(Permanent(NoText())), failed("(Permanent without a text)", permanent=True)),
    "retry": (raises(RetryAfter(HOUR, "busy")), failed("busy", retryAfterSeconds=3600)),
    "retry none": (raises(RetryAfter(2, None)), failed("retry after: the handler gave no error", retryAfterSeconds=2)),
    "retry below": (raises(RetryAfter(-5, "busy")), failed("busy", retryAfterSeconds=0)),
    "retry inf": (raises(RetryAfter(INF, "busy")), failed("busy", retryAfterSeconds=86400)),
    "retry huge": (raises(RetryAfter(10 ** 400, "busy")), failed("busy", retryAfterSeconds=86400)),
    "retry decimal": (raises(RetryAfter(decimal.Decimal("1.5"), "busy")), failed("busy", retryAfterSeconds=2)),
    "no seconds": (raises(NoSeconds()),
                   error("retry after: the handler gave no error (retry after: wants", "NoSeconds")),
    "later": (raises(Later(HOUR, "x")), later(3600, reason="x")),
    "later below": (raises(Later(-1)), later(1)),
    "later inf": (raises(Later(INF)), later(31_536_000)),
    "later reason": (raises(Later(1, "\ud800" * 9000)), later(1, reason="\ufffd" * 170)),
    "later object": (raises(Later(1, NoText())), later(1, reason="(NoText without a text)")),
    "dies": (lambda: threading.current_thread().join(), error("cannot join current thread", "RuntimeError")),
}
for value, got in ((NAN, "nan"), (None, "None"), ("5", "'5'"), (True, "True"), ([], "list []"), (NoText(), "NoText "),
                   (decimal.Decimal("sNaN"), "Decimal sNaN")):
    HANDLERS["retry " + got] = (raises(RetryAfter(value, "busy")), unsaid("retry", got))
    HANDLERS["later " + got] = (raises(Later(value)), unsaid("later", got))


def raises_deep(*args):
    raises_deep()
