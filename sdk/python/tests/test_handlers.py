"""What user code may do: it costs at most its own attempt, and is reported with a text that helps."""

import ctypes
import datetime
import decimal
import json
import logging
import sys
import threading
import unittest

from tierq import Later, MaxTime, Permanent, RetryAfter
from tierq.texts import clean, stack_of, text_of
from .case import WorkerCase
from .handlers import HANDLERS, INF, NAN, Exits, Items, NoText, Rows, chain, deep, error, failed, knot, later

def call(fn):
    return lambda payload, job: fn(payload, job) if fn.__code__.co_argcount == 2 else fn()


class HandlersTest(WorkerCase):
    def good(self, places):
        """Checks that all places of a worker are there: as many handlers run at the same time."""
        for n in range(places):
            self.fake.add("good-%d" % n, "MEET", {})
        for n in range(places):
            self.assertEqual(self.fake.reported("good-%d" % n), {"completed": {"result": 1}})

    def begin(self, handlers, places, **options):
        meet = threading.Barrier(places)
        self.start({**handlers, "MEET": lambda p, j: meet.wait(20) * 0 + 1}, concurrency=places, **options)

    def test_ends(self):
        self.begin({name: call(fn) for name, (fn, _) in HANDLERS.items()}, 3)
        for name in HANDLERS:
            self.fake.add(name, name, {})
        for name, (_, check) in HANDLERS.items():
            with self.subTest(name):
                said = self.fake.reported(name)
                text = json.dumps(said)[:300]
                self.assertTrue(check(said), text)
        self.good(3)

    def test_after_the_time(self):
        """A failure after the maximum processing time says so; what the handler asked for stands."""
        def waits(raised):
            def fn(payload, job):
                try:
                    job.wait(20)
                except MaxTime:
                    raise raised
            return fn

        cases = {
            "A": (waits(KeyError("mine")), error("'mine'", "MAX_TIME_EXCEEDED")),
            "B": (waits(RetryAfter(5, "busy")), error("busy", "MAX_TIME_EXCEEDED", retryAfterSeconds=5)),
            "C": (waits(Permanent("no")), failed("no", permanent=True)),
            "D": (waits(Later(5)), later(5)),
            "E": (lambda p, j: j.wait(10 ** 400),
                  error("the attempt ended after 0.2 s, its maximum processing time; raise it", "MAX_TIME_EXCEEDED")),
        }
        self.start({name: fn for name, (fn, _) in cases.items()})
        for name in cases:
            self.fake.add(name, name, {}, endsInMs=200)
        for name, (_, check) in cases.items():
            said = self.fake.reported(name)
            self.assertTrue(check(dict(said)), said)
        self.said("job E (E): the attempt ended after 0.2 s", "maxProcessingSeconds", "maxProcessingTimeMs")

    def test_calls(self):
        """Odd arguments of the job's methods raise in their own handler, or never."""
        big = getattr(sys, "set_int_max_str_digits", None)
        refused = {
            "nan": lambda j: j.save(NAN), "knot": lambda j: j.save(knot()), "twice": lambda j: j.save({1: 1, "1": 2}),
            "deep": lambda j: j.save(deep(32)), "large": lambda j: j.save("\u00fc" * 8200),
            "set": lambda j: j.save({1}),
            "items": lambda j: j.save(Items(a=1)), "rows": lambda j: j.save(Rows([1])),
            "wait nan": lambda j: j.wait(NAN), "wait none": lambda j: j.wait(None), "wait text": lambda j: j.wait("1"),
            "input": lambda j: j.input({1}), "flow": lambda j: j.add_to_flow(knot()),
            "no flow": lambda j: j.add_to_flow({}),
        }
        if big:
            refused["digits"] = lambda j: j.save(10 ** 5000)
        never = {
            "progress": lambda j: [
                j.progress(v, v, v) for v in (NAN, INF, -INF, -1, 1.5, 10 ** 400, "x", None, NoText(), [])],
            "note": lambda j: j.progress(1, 2, "\ud800" * 10 ** 6),
            "log": lambda j: [
                j.log.info(v, a=v, b=1) for v in (NAN, knot(), NoText(), Items(a=1), "\ud800", deep(99), {1}, None)],
            "exits": lambda j: j.log.warn(Exits(), a=Exits(), b=Rows([1])),
            "waits": lambda j: [
                j.wait(v) for v in (-1, 0, decimal.Decimal("0.01"), datetime.timedelta(milliseconds=1), -INF)],
            "save": lambda j: j.save({"\ud800": deep(30)}),
        }

        def refuses(payload, job):
            try:
                refused[payload](job)
            except BaseException as e:
                return type(e).__name__

        self.begin({"REFUSED": refuses, "NEVER": lambda p, j: never[p](j) and None}, 3)
        for name in refused:
            self.fake.add(name, "REFUSED", name, flowId=None if name == "no flow" else "f")
        for name in never:
            self.fake.add(name, "NEVER", name)
        for name in refused:
            said = self.fake.reported(name)["completed"]["result"]
            want = ("SystemExit",) if name == "rows" else ("ValueError", "TypeError", "RecursionError")
            self.assertIn(said, want, name)
        for name in never:
            self.assertEqual(self.fake.reported(name), {"completed": {"result": None}}, name)
        self.good(3)
        self.assertEqual(self.fake.saved, {"lease-save": [(1, {"\ufffd": deep(30)})]})
        self.assertEqual(self.fake.tells["lease-note"], [{"step": 1, "done": 1, "total": 2, "note": "\ufffd" * 66}])
        logged = [self.fake.logs["lease-log"][n + 1] for n in range(8)]
        self.assertEqual([line[1] for line in logged], [
            "nan", "[[...]]", "(NoText without a text)", "{'a': 1}", "\ufffd", str(deep(99)), "{1}", "None"])
        self.assertEqual([line[2] for line in logged], [
            {"b": 1}, {"b": 1}, {"a": "(NoText without a text)", "b": 1}, {"b": 1}, {"a": "\ufffd", "b": 1}, {"b": 1},
            {"a": "{1}", "b": 1}, {"a": None, "b": 1}])

    def test_own_logger(self):
        """The handlers of the program's log raise."""
        class Broken(logging.Handler):
            def handle(self, record):
                sys.exit(4)

        self.logger.addHandler(Broken())
        self.fake.fault = lambda verb, n, body: 503 if n == 1 else 0
        self.begin({"LOG": lambda p, j: j.log.info("one") or j.wait(0.5)}, 2)
        for n in range(4):
            self.fake.add(str(n), "LOG", {}, heartbeatEveryMs=200)
        for n in range(4):
            self.assertEqual(self.fake.reported(str(n)), {"completed": {"result": None}})
        self.good(2)

    def test_own_bugs(self):
        """An error of the library itself costs one attempt."""
        def breaks(payload, job):
            job._told = None  # its use after the handler raises

        self.begin({"BREAK": breaks}, 2)
        for n in range(4):
            self.fake.add(str(n), "BREAK", {})
        for n in range(4):
            self.assertEqual(self.fake.reported(str(n)), {"completed": {"result": None}})
        self.good(2)

    def test_thrown_into(self):
        """Other code throws exceptions into the threads of handlers, at any time."""
        threads, over = set(), threading.Event()

        def run(payload, job):
            threads.add(threading.get_ident())

        def throw():
            while not over.wait(0.002):
                for ident in list(threads):
                    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(ident), ctypes.py_object(SystemExit))

        self.fake.lease_ms = 600
        self.begin({"RUN": run}, 2)
        thrower = threading.Thread(target=throw, daemon=True)
        thrower.start()
        for n in range(200):
            self.fake.add(str(n), "RUN", {})
        self.fake.until("all are handed out", lambda: not self.fake.jobs)
        over.set()
        thrower.join()
        self.good(2)

    def test_never_ends(self):
        """The place of a handler that goes on stays taken; the others work, and the log says it once."""
        release = threading.Event()
        self.addCleanup(release.set)
        self.fake.words["lease-j"] = "LOST"
        self.fake.lease_ms = 600
        self.fake.add("j", "NEVER", {})
        self.begin({"NEVER": lambda p, j: release.wait(30)}, 2)
        self.said("job j (NEVER): the lease was lost, another worker may run the job: the server has taken the job "
                  "back")
        self.said("job j: the handler still runs although its attempt has ended; its slot stays taken")
        for n in range(3):
            self.fake.add(str(n), "GONE", {})
            self.assertEqual(self.fake.reported(str(n))["failed"]["error"]["type"], "UNKNOWN_JOB_TYPE")
        release.set()
        self.said("job j (NEVER): the server did not take its result: the attempt had ended before: its lease was lost")
        self.good(2)
        self.assertEqual(len([line for line in self.lines.said if "still runs" in line]), 1)

    def test_clean(self):
        for text, want in (("a", "a"), ("\ud800", "\ufffd"), ("\ud83d\ude00", "\U0001f600"),
                           ("\udc00\ud800x", "\ufffd\ufffdx"), ("\ud800\ud83d\ude00", "\ufffd\U0001f600")):
            self.assertEqual(clean(text), want)
        self.assertEqual(text_of("\u20ac" * 2000), "\u20ac" * 1365)

    def test_stack(self):
        """The stacks of causes are written, of a very long chain only the last one."""
        def stack(error):
            try:
                raise error
            except ValueError as e:
                return stack_of(e, e.__traceback__)

        self.assertEqual(stack(chain(3)).count("direct cause"), 3)
        self.assertNotIn("direct cause", stack(chain(200)))
        self.assertIn("in stack\n    raise error\nValueError: xxx", stack(ValueError("x" * 10 ** 6)).replace("^", ""))


if __name__ == "__main__":
    unittest.main()
