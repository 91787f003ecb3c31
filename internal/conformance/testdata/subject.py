"""A worker whose handlers misbehave as internal/conformance asks."""

import datetime
import decimal
import logging
import math
import os
import sys
import threading
import time

import tierq

starts, lock = {}, threading.Lock()
logging.basicConfig(stream=sys.stdout, level=logging.INFO)
worker = tierq.Worker(queues=["conformance"], concurrency=4, drain=1.0)


def say(line):
    with lock:
        sys.stdout.write(line + "\n")
        sys.stdout.flush()


def behaviour(name):
    """Registers a behaviour; each start is counted and written."""

    def register(fn):
        def handler(payload, job):
            starts[job.id] = starts.get(job.id, 0) + 1
            say("START %s %d" % (job.id, job.attempt))
            return fn(payload, job)

        worker.handle(name, handler)
        return fn

    return register


def cycle():
    c = {}
    c["self"] = c
    return c


def nested(levels):
    v = 1
    for _ in range(levels):
        v = [v]
    return v


class HostileDict(dict):
    def items(self):
        raise RuntimeError("no text for this")


class HostileText(str):
    def __str__(self):
        raise RuntimeError("no text")

    def encode(self, *args):
        raise RuntimeError("no bytes")


class Hostile:
    def __str__(self):
        raise RuntimeError("no text")

    __repr__ = __format__ = __float__ = __int__ = __bool__ = __len__ = __str__

    def __lt__(self, other):
        raise RuntimeError("no order")

    __gt__ = __le__ = __ge__ = __neg__ = __eq__ = __lt__
    __hash__ = None


# What several behaviours hand over.
VALUES = {
    "NAN": lambda: {"n": math.nan},
    "INFINITE": lambda: [math.inf],
    "CYCLE": cycle,
    "SET": lambda: {1, 2},
    "BYTES": lambda: b"x",
    "OBJECT": object,
    "HOSTILE": Hostile,
    "FUNCTION": lambda: say,
    "BIG_INTEGER": lambda: 10 ** 5000,
    "MARSHALLER_FAILS": lambda: HostileDict(a=1),
    "NAME_TWICE": lambda: {1: "a", "1": "b"},
    "KEY_TUPLE": lambda: {(1, 2): "a"},
    "KEY_NAN": lambda: {math.nan: "a"},
    "SURROGATES": lambda: {"a\ud800b": ["c\udfffd"]},
    "DEEP": lambda: nested(100_000),
    "LEVELS": lambda: nested(33),
    "HUGE": lambda: "x" * 20_000,
    "GENERATOR": lambda: (x for x in "ab"),
}
RETURNS = {**VALUES, "JSON": lambda: {"a": [1, None, "é"]}, "TUPLE": lambda: (1, 2), "NOTHING": lambda: None}


class TextThrows(Exception):
    def __str__(self):
        raise RuntimeError("no text")

    __repr__ = __str__


class TextIsNumber(Exception):
    def __str__(self):
        return 42


class TextExits(Exception):
    def __str__(self):
        raise SystemExit(3)


class TextIsHostile(Exception):
    def __str__(self):
        return HostileText("x")


class Meta(type):
    @property
    def __name__(cls):
        raise RuntimeError("no name")


class NoName(Exception, metaclass=Meta):
    pass


class NameIsNumber(Exception, metaclass=type("M", (type,), {"__name__": property(lambda cls: 42)})):
    pass


class OwnBase(BaseException):
    pass


def caused():
    e = ValueError("boom")
    e.__cause__ = TextThrows()
    return e


def circular():
    e, f = ValueError("boom"), ValueError("other")
    e.__cause__, f.__cause__ = f, e
    return e


def recursion():
    return recursion() + 1


LONG_NAME = type("N" * 100_000, (Exception,), {})
THROWS = {
    "ERROR": lambda: ValueError("boom"),
    "EMPTY": lambda: ValueError(),
    "HUGE": lambda: ValueError("é" * 3_000_000),
    "SURROGATES": lambda: ValueError("a\ud800b"),
    "NUL": lambda: ValueError("a\0b"),
    "TEXT_THROWS": TextThrows,
    "TEXT_IS_NUMBER": TextIsNumber,
    "TEXT_EXITS": TextExits,
    "TEXT_IS_HOSTILE": TextIsHostile,
    "NAME_THROWS": lambda: NoName("boom"),
    "NAME_IS_NUMBER": lambda: NameIsNumber("boom"),
    "HUGE_NAME": lambda: LONG_NAME("boom"),
    "SYSTEM_EXIT": lambda: SystemExit(3),
    "KEYBOARD_INTERRUPT": KeyboardInterrupt,
    "GENERATOR_EXIT": GeneratorExit,
    "BASE": lambda: OwnBase("boom"),
    "STOP_ITERATION": lambda: StopIteration("boom"),
    "MEMORY": lambda: MemoryError("boom"),
    "RECURSION": recursion,
    "CAUSE_HOSTILE": caused,
    "CAUSE_CIRCULAR": circular,
    "ARGS_HOSTILE": lambda: ValueError(Hostile()),
    "NO_ERROR": lambda: 42,
    "CLASS": lambda: ValueError,
    "CLASS_WANTS_ARGS": lambda: tierq.RetryAfter,
    "STOPPED": lambda: tierq.Cancelled("boom"),
}
if sys.version_info >= (3, 11):
    THROWS["GROUP"] = lambda: ExceptionGroup("boom", [ValueError("one"), TextThrows()])

PERMANENTS = {
    "TEXT": lambda: tierq.Permanent("bad"),
    "NOTHING": lambda: tierq.Permanent(),
    "NONE": lambda: tierq.Permanent(None),
    "ERROR": lambda: tierq.Permanent(ValueError("bad")),
    "HOSTILE": lambda: tierq.Permanent(Hostile()),
    "HUGE": lambda: tierq.Permanent("é" * 3_000_000),
    "CLASS": lambda: tierq.Permanent,
}
SPANS = {
    "FRACTION": 1.2, "ZERO": 0, "NEGATIVE": -5, "INFINITE": math.inf, "LEAST": -math.inf, "NAN": math.nan,
    "NONE": None, "TEXT": "soon", "OBJECT": object(), "LIST": [], "HUGE_INTEGER": 10 ** 400, "HOSTILE": Hostile(),
    "TIMEDELTA": datetime.timedelta(minutes=1, seconds=30), "LONG_TIMEDELTA": datetime.timedelta.max,
    "NEGATIVE_TIMEDELTA": datetime.timedelta(seconds=-5), "COMPLEX": 1j, "DECIMAL_NAN": decimal.Decimal("sNaN"),
}
RETRIES = {
    "NOTHING": lambda: tierq.RetryAfter(5),
    "MESSAGE_NONE": lambda: tierq.RetryAfter(5, None),
    "MESSAGE_HOSTILE": lambda: tierq.RetryAfter(5, Hostile()),
}
LATERS = {
    "REASON": lambda: tierq.Later(5, "not yet"),
    "REASON_HUGE": lambda: tierq.Later(5, "é" * 100_000),
    "REASON_SURROGATES": lambda: tierq.Later(5, "a\ud800b"),
    "REASON_NUMBER": lambda: tierq.Later(5, 42),
    "REASON_NONE": lambda: tierq.Later(5, None),
    "REASON_HOSTILE": lambda: tierq.Later(5, Hostile()),
}
PROGRESSES = {
    "NAN": (math.nan, math.nan, "note"), "INFINITE": (math.inf, -math.inf), "NEGATIVE": (-5, -1),
    "FRACTION": (1.5, 2.5), "HUGE": (10 ** 400, 2 ** 60), "TEXT": ("x", {}, 42), "NONE": (None, None, None),
    "HOSTILE": (Hostile(), Hostile(), Hostile()), "NOTE_HUGE": (1, 2, "é" * 5000),
    "NOTE_SURROGATES": (1, 2, "a\ud800b"),
    "DECIMAL": (decimal.Decimal("NaN"), decimal.Decimal("1e500")),
}
LINES = {
    "CYCLE": lambda job: job.log.info("attrs", c=cycle()),
    "NAN": lambda job: job.log.info("attrs", n=math.nan),
    "SET": lambda job: job.log.info("attrs", s={1, 2}),
    "HOSTILE": lambda job: job.log.info("attrs", h=Hostile()),
    "HOSTILE_DICT": lambda job: job.log.info("attrs", h=HostileDict(a=1)),
    "SURROGATES": lambda job: job.log.warn("a\ud800b", **{"k\ud800": "c\ud800"}),
    "HUGE": lambda job: job.log.error("é" * 500_000, more="x" * 500_000),
    "TEXT_HOSTILE": lambda job: job.log.info(Hostile()),
    "TEXT_NONE": lambda job: job.log.info(None),
    "TEXT_PERCENT": lambda job: job.log.info("100 % of %s %d"),
    "DEEP": lambda job: job.log.info("attrs", d=nested(100_000)),
    "BIG_INTEGER": lambda job: job.log.info("attrs", n=10 ** 5000),
    "NAME_TWICE": lambda job: job.log.info("attrs", d={1: "a", "1": "b"}),
}
WAITS = {
    "NAN": math.nan, "NEGATIVE": -5, "NONE": None, "TEXT": "soon", "HUGE": 1e300, "INFINITE": math.inf,
    "HUGE_INTEGER": 10 ** 400, "HOSTILE": Hostile(),
}
FLOWS = {
    "INPUTS": lambda job: job.inputs(),
    "INPUT_NONE": lambda job: job.input(None),
    "INPUT_OBJECT": lambda job: job.input(object()),
    "INPUT_ODD": lambda job: job.input("a\ud800b"),
    "ADD_CYCLE": lambda job: job.add_to_flow(cycle()),
    "ADD_NAN": lambda job: job.add_to_flow({"a/b": {"type": "X", "payload": math.nan}}),
    "ADD_NOTHING": lambda job: job.add_to_flow(None),
    "ADD_NAME_TWICE": lambda job: job.add_to_flow({"a/b": {"type": "X", "payload": {1: 1, "1": 2}}}),
    "ADD_SURROGATES": lambda job: job.add_to_flow({"a/\ud800": {"type": "X"}}),
}


def caught(fn, *args):
    try:
        fn(*args)
    except Exception as e:
        return {"raised": True, "text": "%s: %s" % (type(e).__name__, e)}
    return {"raised": False, "text": ""}


@behaviour("GOOD")
def good(payload, job):
    n = starts[job.id]
    time.sleep(payload.get("seconds", 0))
    return {"good": payload["n"], "starts": n}


@behaviour("ECHO")
def echo(payload, job):
    return payload


@behaviour("RETURN")
def returned(payload, job):
    return RETURNS[payload["kind"]]()


@behaviour("THROW")
def thrown(payload, job):
    raise THROWS[payload["kind"]]()


@behaviour("PERMANENT")
def permanent(payload, job):
    raise PERMANENTS[payload["kind"]]()


@behaviour("RETRY_AFTER")
def retry_after(payload, job):
    kind = payload["kind"]
    raise RETRIES[kind]() if kind in RETRIES else tierq.RetryAfter(SPANS.get(kind, payload.get("seconds")), "busy")


@behaviour("LATER")
def later(payload, job):
    kind = payload["kind"]
    raise LATERS[kind]() if kind in LATERS else tierq.Later(SPANS.get(kind, payload.get("seconds")))


@behaviour("SAVE")
def save(payload, job):
    kind = payload["kind"]
    value = VALUES[kind]() if kind in VALUES else {"step": 1}
    said = caught(job.save, value)
    if kind != "REFUSED":
        job.save({"last": True})
    return said


@behaviour("PROGRESS")
def progress(payload, job):
    job.progress(*PROGRESSES[payload["kind"]])
    return {"kind": payload["kind"]}


@behaviour("LOG")
def log(payload, job):
    LINES[payload["kind"]](job)
    return {"kind": payload["kind"]}


@behaviour("WAIT")
def wait(payload, job):
    begin = time.monotonic()
    said = caught(job.wait, WAITS[payload["kind"]])
    return {"raised": said["raised"], "waited": time.monotonic() - begin > 0.8}


@behaviour("FLOW")
def flow(payload, job):
    return {"raised": caught(FLOWS[payload["kind"]], job)["raised"]}


@behaviour("TELL")
def tell(payload, job):
    end = time.monotonic() + payload["seconds"]
    while time.monotonic() < end:
        job.progress(int(1000 * (end - time.monotonic())) + 1, 0, "steps")
        time.sleep(0.05)


@behaviour("HOLD")
def hold(payload, job):
    job.wait(payload["seconds"])
    return {"held": True}


def await_end(job):
    try:
        job.wait(3600)
    except tierq.Stopped as e:
        return e


@behaviour("LIFE")
def life(payload, job):
    begin = time.monotonic()
    e = await_end(job)
    return {"lived": int(1000 * (time.monotonic() - begin)), "ended": int(1000 * time.time()),
            "cause": "%s: %s" % (type(e).__name__, e)}


@behaviour("OVERTIME")
def overtime(payload, job):
    e = await_end(job)
    kind = payload["kind"]
    asked = {"PERMANENT": tierq.Permanent("gave up"), "LATER": tierq.Later(7), "CAUSE": e}
    raise asked.get(kind, ValueError("gave up"))


@behaviour("BLOCK")
def block(payload, job):
    end = time.monotonic() + payload["seconds"]
    while time.monotonic() < end:
        pass
    return {"blocked": True}


@behaviour("NEVER_END")
def never_end(payload, job):
    while True:
        time.sleep(1)


@behaviour("EXIT")
def leave(payload, job):
    os._exit(7)


try:
    worker.run()
    say("RUN ENDED")
except Exception as error:
    say("RUN FAILED: %s" % error)
    sys.exit(3)
