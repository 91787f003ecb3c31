"""Heartbeats: what they carry, whose lease they keep, and from when times count."""

import threading
import time
import unittest

from tierq import Cancelled, LeaseLost, MaxTime, TierqError
from .case import WorkerCase

REFUSAL = {"status": 400, "errorCode": "INVALID_REQUEST", "detail": "checkpoint: this one"}


class BeatsTest(WorkerCase):
    def test_times_after_a_held_claim(self):
        """Times count from when the server wrote the answer, not from when the claim was sent."""
        took = []

        def waits(payload, job):
            began = time.monotonic()
            try:
                job.wait(20)
            except MaxTime:
                took.append(time.monotonic() - began)
                raise

        self.start({"WAIT": waits})
        self.fake.until("a claim waits", lambda: self.fake.counts.get("claim"))
        time.sleep(1.2)
        self.fake.add("j", "WAIT", {}, endsInMs=1000, leaseForMs=1000, heartbeatEveryMs=300)
        self.assertEqual(self.fake.reported("j")["failed"]["error"]["type"], "MAX_TIME_EXCEEDED")
        self.assertTrue(0.4 < took[0] < 1.6, took)

    def test_times_after_a_held_heartbeat(self):
        self.fake.lease_ms, self.fake.hold = 1600, 0.9
        self.fake.add("j", "WAIT", {}, heartbeatEveryMs=300)
        self.start({"WAIT": lambda p, j: j.wait(2.5)})
        self.assertEqual(self.fake.reported("j"), {"completed": {"result": None}})

    def test_a_refused_entry(self):
        """A checkpoint that the server refuses fails its own save; the lease and the others go on."""
        self.fake.refuse = lambda entry: REFUSAL if entry.get("checkpoint") == "bad" or "progress" in entry and (
            entry["progress"]["done"] == 7) else None
        self.saves()

    def test_a_refused_heartbeat(self):
        """The same with a server that refuses the whole call: the next one has bare leases."""
        def odd(verb, n, body):
            if verb == "heartbeat" and ('"checkpoint":"bad"' in body or '"done":7' in body):
                return 400, b'{"status":400,"errorCode":"INVALID_REQUEST","detail":"checkpoint: this one"}'

        self.fake.odd = odd
        self.saves()

    def saves(self):
        self.fake.lease_ms = 3000
        said, both = {}, threading.Barrier(2)

        def save(payload, job):
            both.wait(20)
            for value in ("one", payload, "two"):
                job.progress(7 if value == "bad" else 1)
                try:
                    job.save(value)
                except TierqError as e:
                    said[job.id] = str(e)
            job.progress(8)
            job.wait(1.6)

        self.fake.add("a", "SAVE", "bad")
        self.fake.add("b", "SAVE", "good")
        self.start({"SAVE": save})
        for id in "ab":
            self.assertEqual(self.fake.reported(id), {"completed": {"result": None}})
        self.assertEqual(said, {"a": "heartbeat: 400 INVALID_REQUEST: checkpoint: this one"})
        self.assertEqual([v for _, v in self.fake.saved["lease-a"]], ["one", "two"])
        self.assertEqual([v for _, v in self.fake.saved["lease-b"]], ["one", "good", "two"])
        self.assertEqual([self.fake.tells["lease-" + id][-1]["done"] for id in "ab"], [8, 8])
        self.assertLess(self.fake.counts["heartbeat"], 30)

    def test_an_entry_for_later(self):
        """A checkpoint that cannot be stored now is sent again, after a while."""
        times = []

        def refuse(entry):
            if "save" in entry and len(times) < 2:
                times.append(time.monotonic())
                return {"status": 503, "errorCode": "SYSTEM_UNHEALTHY", "detail": "later"}

        self.fake.refuse = refuse
        self.fake.lease_ms = 3000
        self.fake.add("j", "SAVE", {})
        self.start({"SAVE": lambda p, j: j.save(5)})
        self.assertEqual(self.fake.reported("j"), {"completed": {"result": None}})
        self.assertEqual((self.fake.saved, times[1] - times[0] > 0.3), ({"lease-j": [(1, 5)]}, True))

    def test_a_lease_that_cannot_be_read(self):
        self.fake.words["lease-j"] = "LOST"
        self.fake.refuse = lambda entry: REFUSAL if entry["lease"] == "lease-j" else None
        self.fake.lease_ms = 600
        causes = []

        def wait(payload, job):
            try:
                job.save(1)
            except LeaseLost as e:
                causes.append(str(e))
                raise

        self.fake.add("j", "SAVE", {})
        self.start({"SAVE": wait})
        self.said("job j (SAVE): the server did not take its result: the attempt had ended before: its lease was lost")
        self.assertEqual(causes, ["the lease was lost, another worker may run the job: "
                                  "the server has taken the job back"])

    def test_no_heartbeat_is_answered(self):
        self.fake.lease_ms = 600
        self.fake.fault = lambda verb, n, body: 503 if verb == "heartbeat" else 0
        self.fake.add("j", "WAIT", {})
        self.start({"WAIT": lambda p, j: j._stop.wait(2)})
        self.said("job j (WAIT): the lease was lost, another worker may run the job: no heartbeat was answered in time")
        self.assertEqual(self.fake.reported("j"), {"completed": {"result": False}})

    def test_a_cancel_is_no_lost_lease(self):
        self.fake.lease_ms = 1500
        self.fake.words["lease-j"] = "CANCEL"
        self.fake.add("j", "WAIT", {}, endsInMs=900)
        self.start({"WAIT": lambda p, j: self.assertRaises(Cancelled, j.wait, 20) or time.sleep(1)})
        self.assertEqual(self.fake.reported("j"), {"completed": {"result": None}})
        self.assertLess(self.fake.counts["heartbeat"], 20)
        self.assertEqual(self.lines.said, [])

    def test_a_report_that_is_too_late(self):
        self.fake.add("j", "WAIT", {}, endsInMs=200)

        def wait(payload, job):
            with self.assertRaises(MaxTime):
                job.wait(20)
            self.fake.words["lease-j"] = "LOST"
            return 1

        self.start({"WAIT": wait})
        self.said("job j (WAIT): the attempt ended after 0.2 s, its maximum processing time; raise it with "
                  "maxProcessingSeconds of the queue or maxProcessingTimeMs of the tier")
        self.said("job j (WAIT): the server did not take its result: the attempt had ended before: its maximum "
                  "processing time was over")

    def test_the_first_cause_stays(self):
        """A lease that the server ends after the maximum processing time is no lost one."""
        self.fake.lease_ms = 1500
        self.fake.words["lease-j"] = "LOST"
        said = []

        def wait(payload, job):
            self.fake.until("the heartbeat", lambda: job._lost)
            said.append(job.cause)
            job.check()

        self.fake.add("j", "WAIT", {}, endsInMs=200)
        self.start({"WAIT": wait})
        self.said("job j (WAIT): the server did not take its result: the attempt had ended before: its maximum")
        self.assertEqual((said, [line for line in self.lines.said if "lease was lost" in line]), ([MaxTime], []))

    def test_refused_reports(self):
        """What stands in for a refused report keeps its meaning."""
        from tierq import Later, Permanent, RetryAfter

        def raises(error):
            def fn(payload, job):
                raise error
            return fn

        def odd(verb, n, body):
            if verb in ("claim", "report") and '"lease"' in body and "the server refused" not in body:
                return 400, b'{"status":400,"errorCode":"INVALID_REQUEST","detail":"too odd"}'

        self.fake.odd = odd
        refused = "the server refused the report: too odd"
        cases = {
            "A": (lambda p, j: 1, {"error": {"message": refused}, "permanent": True}),
            "B": (raises(KeyError("k")), {"error": {"message": "'k' (%s)" % refused, "type": "KeyError"}}),
            "C": (raises(RetryAfter(5, "busy")), {"error": {"message": "busy (%s)" % refused}}),
            "D": (raises(Permanent("no")), {"error": {"message": "no (%s)" % refused}, "permanent": True}),
            "E": (raises(Later(5, "soon")), {"error": {"message": "soon (%s)" % refused}}),
            "F": (raises(Later(5)), {"error": {"message": refused}}),
        }
        for name in cases:
            self.fake.add(name, name, {})
        self.start({name: fn for name, (fn, _) in cases.items()})
        for name, (_, want) in cases.items():
            self.assertEqual(self.fake.reported(name), {"failed": want})


if __name__ == "__main__":
    unittest.main()
