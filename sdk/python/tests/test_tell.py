import logging
import threading
import time
import unittest

from .case import WorkerCase


class NoText:
    def __str__(self):
        raise TypeError("no text")


class TellTest(WorkerCase):
    def test_away(self):
        """Lines that the server cannot store now, beside those of another job, are sent again."""
        self.fake.away = {"lease-a": 2}
        self.fake.add("a", "LOG", {})
        self.fake.add("b", "LOG", {})

        def log(payload, job):
            job.log.info("one")
            self.fake.until("the lines", lambda: self.fake.logs.get("lease-a") and self.fake.logs.get("lease-b"))

        self.start({"LOG": log})
        self.fake.reported("a")
        self.fake.reported("b")
        self.assertEqual(self.fake.logs, {"lease-" + j: {1: ("INFO", "one", None)} for j in "ab"})

    def test_before_the_report(self):
        """The last progress and all lines come before the report, over calls that fail."""
        self.fake.fault = lambda verb, n, body: (503, 1, 0)[min(n, 3) - 1] if verb == "log" else 0

        def pages(payload, job):
            job.progress(1, 9, "begins")
            job.log.info("one", n=1, big=float(2), error=KeyError("no page"))
            self.fake.until("the line was sent after a second", lambda: 1 in self.fake.logs.get("lease-j", ()))
            job.log.warn("\u00fc" * 4096, too="much")
            job.log.error("cut \ud800 here", a="\ud800")
            job.log.info("no JSON", nan=float("nan"))
            job.progress(9, 9, "x" * 199 + "\u00fc")
            return 1

        self.fake.add("j", "PAGES", {})
        self.fake.add("quiet", "QUIET", {})
        with self.assertLogs("tierq-own", "INFO") as own:
            self.start({"PAGES": pages, "QUIET": lambda p, j: 2}, logger=logging.getLogger("tierq-own"))
            self.assertEqual(self.fake.reported("j"), {"completed": {"result": 1}})
            self.assertEqual(self.fake.reported("quiet"), {"completed": {"result": 2}})
        self.assertEqual(self.fake.logs, {"lease-j": {
            1: ("INFO", "one", {"n": 1, "big": 2.0, "error": "'no page'"}), 2: ("WARN", "\u00fc" * 2048, None),
            3: ("ERROR", "cut \ufffd here", {"a": "\ufffd"}), 4: ("INFO", "no JSON", None)}})
        self.assertEqual(self.fake.tells["lease-j"][-1], {"step": 2, "done": 9, "total": 9, "note": "x" * 199})
        self.assertEqual(list(self.fake.tells), ["lease-j"])
        self.assertIn("job j: one", own.output[0])

    def test_progress(self):
        """Progress is sent within a second or so, by at most one heartbeat a second."""
        release = threading.Event()
        self.addCleanup(release.set)
        began = []

        def pages(payload, job):
            began.append(time.monotonic())
            while time.monotonic() < began[0] + 2.5:
                job.progress(int(1000 * (time.monotonic() - began[0])))
                time.sleep(0.002)
            job.progress(9999)
            release.wait(20)

        self.fake.add("j", "PAGES", {})
        self.start({"PAGES": pages})
        tells = self.fake.tells
        self.fake.until("the first", lambda: "lease-j" in tells)
        self.assertLess(time.monotonic() - began[0], 1.0)
        self.fake.until("the last", lambda: tells["lease-j"][-1]["done"] == 9999)
        self.assertLess(time.monotonic() - began[0], 2.5 + 1.5)
        self.assertLessEqual(self.fake.counts["heartbeat"], 5)
        release.set()
        self.fake.reported("j")

    def test_flood(self):
        """What does not fit into memory is lost and counted."""
        refuse = [True]
        self.fake.fault = lambda verb, n, body: 503 if verb == "log" and refuse[0] else 0

        def flood(payload, job):
            for n in range(5000):
                job.log.info(str(n))
            refuse[0] = False

        self.fake.add("j", "FLOOD", {})
        self.start({"FLOOD": flood})
        self.fake.reported("j")
        lines = self.fake.logs["lease-j"]
        self.assertEqual((len(lines), lines[1][1], lines[1000][1], lines[5000]), (1001, "0", "999", ("lost",)))

    def test_no_lines_taken(self):
        """A server that takes no lines holds up no end."""
        self.fake.fault = lambda verb, n, body: 503 if verb in ("log", "heartbeat") else 0

        def says(payload, job):
            job.progress(1, 2)
            job.log.info("one")
            return 1

        self.fake.add("j", "SAYS", {})
        self.start({"SAYS": says})
        self.assertEqual(self.fake.reported("j"), {"completed": {"result": 1}})
        self.assertGreater(self.fake.counts["log"], 1)
        self.assertEqual(self.fake.logs, {})

    def test_refused(self):
        """Lines that the server refuses are lost ones, and those of other jobs arrive."""
        self.fake.fault = lambda verb, n, body: 400 if verb == "log" and "deep one" in body else 0
        running = threading.Barrier(3)

        def says(payload, job):
            running.wait(20)
            job.log.info("deep one" if payload == "deep" else payload)

        for id in ("a", "deep", "b"):
            self.fake.add(id, "SAYS", id)
        self.start({"SAYS": says})
        for id in ("a", "deep", "b"):
            self.fake.reported(id)
        self.assertEqual(self.fake.logs, {"lease-a": {1: ("INFO", "a", None)}, "lease-b": {1: ("INFO", "b", None)},
                                          "lease-deep": {1: ("lost",)}})

    def test_lost(self):
        """A lost lease ends the lines, and no value fails the handler."""
        self.fake.words["lease-j"] = "LOST"
        failed = []

        def says(payload, job):
            try:
                job.log.info("one")
                self.fake.until("the answer to the first lines", lambda: job._told.closed)
                job.log.warning("two", a=NoText())
                job.log.error(NoText())
                job.progress("none", float("inf"), NoText())
            except BaseException as e:
                failed.append(e)
                raise

        self.fake.add("j", "SAYS", {})
        self.start({"SAYS": says})
        self.fake.until("the report", lambda: self.fake.carried + self.fake.counts.get("report", 0) == 1)
        self.assertEqual((failed, self.fake.logs, self.fake.tells, self.fake.counts["log"]),
                         ([], {"lease-j": {}}, {}, 1))


if __name__ == "__main__":
    unittest.main()
