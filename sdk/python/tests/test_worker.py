import threading
import time
import unittest

from tierq import Later, Permanent, RetryAfter, TierqError, Worker
from .case import WorkerCase


def double(payload, job):
    return {"width": payload["width"] * 2}


class WorkerTest(WorkerCase):
    def test_run(self):
        for n in range(300):
            self.fake.add(str(n), "RESIZE", {"width": n})
        stop = self.start({"RESIZE": double}, concurrency=50)
        for n in range(300):
            self.assertEqual(self.fake.reported(str(n)), {"completed": {"result": {"width": 2 * n}}})
        stop()
        self.assertLess(self.fake.counts["claim"] + self.fake.counts.get("report", 0), 200)

    def test_flow(self):
        self.fake.fault = lambda verb, n, body: 503 if verb == "inputs" and n == 1 else 0
        self.fake.flows = [{"inputs": [{"name": "a", "result": {"n": 1}}, {"name": "b", "result": None}]},
                           {"inputs": [{"name": "b", "result": "big"}]}, {"jobs": {"j/1": "job-1"}}]
        self.fake.add("1", "JOIN", {}, flowId="f")

        def join(payload, job):
            return [len(job.inputs()), job.input("b")["result"], job.add_to_flow({"j/1": {"type": "PART"}})]

        self.start({"JOIN": join})
        self.assertEqual(self.fake.reported("1"), {"completed": {"result": [2, "big", {"j/1": "job-1"}]}})
        self.assertEqual(self.fake.bodies, [
            ("inputs", {"lease": "lease-1"}), ("inputs", {"lease": "lease-1", "name": "b"}),
            ("POST /api/flows/f/jobs", {"lease": "lease-1", "jobs": {"j/1": {"type": "PART"}}})])

    def test_reports_travel_with_claims(self):
        for n in range(20):
            self.fake.add(str(n), "RESIZE", {"width": n})
        self.start({"RESIZE": double}, concurrency=1)
        self.fake.until("20 reports", lambda: len(self.fake.ends) == 20)
        self.assertEqual((self.fake.carried, self.fake.counts.get("report", 0)), (20, 0))

    def test_ends(self):
        def raises(error):
            def fn(payload, job):
                raise error
            return fn

        cases = {
            "DONE": (lambda p, j: [1], {"completed": {"result": [1]}}),
            "EMPTY": (lambda p, j: None, {"completed": {"result": None}}),
            "PERMANENT": (raises(Permanent("broken")), {"failed": {"error": {"message": "broken"}, "permanent": True}}),
            "RETRY": (raises(RetryAfter(1.5, "busy")),
                      {"failed": {"error": {"message": "busy"}, "retryAfterSeconds": 2}}),
            "LATER": (raises(Later(0.001)), {"released": {"delaySeconds": 1}}),
            "BECAUSE": (raises(Later(60, "closed")), {"released": {"delaySeconds": 60, "reason": "closed"}}),
        }
        self.start({**{k: v[0] for k, v in cases.items()}, "FAILS": double, "NO_JSON": lambda p, j: {1, 2}})
        for type in cases:
            self.fake.add(type, type, {})
        for type, (_, want) in cases.items():
            self.assertEqual(self.fake.reported(type), want, type)
        self.fake.add("fails", "FAILS", {})
        error = self.fake.reported("fails")["failed"]["error"]
        self.assertEqual((error["type"], error["message"]), ("KeyError", "'width'"))
        self.assertIn("Traceback", error["stack"])
        self.fake.add("set", "NO_JSON", {})
        self.assertTrue(self.fake.reported("set")["failed"]["permanent"])
        self.fake.add("typo", "RESISE", {})
        self.assertEqual(self.fake.reported("typo")["failed"]["error"]["type"], "UNKNOWN_JOB_TYPE")

    def test_heartbeats(self):
        self.fake.lease_ms = 2400
        self.fake.words["lease-lost"] = "LOST"
        causes = {}

        def wait(payload, job):
            try:
                job.wait(60)
            except Exception as e:
                causes[job.id] = type(e).__name__
                raise

        for id in ("a", "b", "c", "lost"):
            self.fake.add(id, "WAIT", {})
        self.start({"WAIT": wait})
        self.fake.until("heartbeats", lambda: self.fake.counts.get("heartbeat", 0) > 4)
        self.fake.words["lease-a"] = "CANCEL"
        self.assertEqual(self.fake.reported("a")["failed"]["error"]["type"], "Cancelled")
        self.assertEqual(causes, {"lost": "LeaseLost", "a": "Cancelled"})
        self.assertEqual((self.fake.most >= 3, list(self.fake.ends)), (True, ["lease-a"]))
        self.fake.fault = lambda verb, n, body: 503 if verb == "heartbeat" else 0
        self.assertEqual(self.fake.reported("b"), {"released": {}})
        self.assertEqual(self.fake.reported("c"), {"released": {}})
        self.assertEqual(causes["b"], "LeaseLost")

    def test_max_time(self):
        self.fake.add("long", "WAIT", {}, endsInMs=200)
        self.start({"WAIT": lambda payload, job: job.wait(60)})
        self.assertEqual(self.fake.reported("long")["failed"]["error"]["type"], "MAX_TIME_EXCEEDED")

    def test_checkpoint(self):
        self.fake.fault = lambda verb, n, body: 1 if verb == "heartbeat" and n == 1 else 0
        self.fake.add("j", "PAGES", {}, checkpoint={"page": 7})

        def pages(payload, job):
            with self.assertRaises(ValueError):
                job.save("x" * (16 << 10))
            for page in (8, 9):
                job.save({"page": page})
            return job.checkpoint

        self.start({"PAGES": pages})
        self.assertEqual(self.fake.reported("j"), {"completed": {"result": {"page": 7}}})
        self.assertEqual(self.fake.saved["lease-j"], [(1, {"page": 8}), (1, {"page": 8}), (2, {"page": 9})])

    def test_faults(self):
        """Answers are lost and calls are refused: each job runs once and is reported with its own result."""
        self.fake.fault = lambda verb, n, body: (0, 1, 503, 0, 429, 0, 0)[n % 7]
        runs = []
        for n in range(100):
            self.fake.add(str(n), "RESIZE", {"width": n})
        self.start({"RESIZE": lambda p, j: runs.append(j.id) or double(p, j)}, concurrency=20)
        for n in range(100):
            self.assertEqual(self.fake.reported(str(n)), {"completed": {"result": {"width": 2 * n}}})
        self.assertEqual(len(runs), 100)

    def test_refused_report(self):
        self.fake.fault = lambda verb, n, body: 413 if "too large" in body else 0
        for id in ("a", "large", "b"):
            self.fake.add(id, "ECHO", id)
        self.start({"ECHO": lambda p, j: "too large" if p == "large" else p})
        self.assertEqual(self.fake.reported("a"), {"completed": {"result": "a"}})
        self.assertEqual(self.fake.reported("b"), {"completed": {"result": "b"}})
        failed = self.fake.reported("large")["failed"]
        refused = {"message": "the server refused the report: by the test"}
        self.assertEqual(failed, {"error": refused, "permanent": True})

    def test_stop(self):
        running, release = threading.Semaphore(0), threading.Event()

        def slow(payload, job):
            running.release()
            release.wait(20)
            return 1

        def waits(payload, job):
            running.release()
            job.wait(60)

        self.fake.add("ends", "SLOW", {})
        self.fake.add("stays", "WAIT", {})
        stop = self.start({"SLOW": slow, "WAIT": waits}, drain=0.5)
        running.acquire()
        running.acquire()
        threading.Timer(0.1, release.set).start()
        stop()
        self.assertEqual(self.fake.reported("ends"), {"completed": {"result": 1}})
        self.assertEqual(self.fake.reported("stays"), {"released": {}})

    def test_stop_gives_back(self):
        """A worker stops while its claim waits: a job that the claim got meanwhile goes back."""
        stop = self.start({"WAIT": lambda p, j: j.wait(60)})
        self.fake.until("a claim waits", lambda: self.fake.counts.get("claim") == 1)

        def fault(verb, n, body):
            if verb == "claim" and n == 2:
                self.fake.add("j", "WAIT", {})
            return 0

        self.fake.fault = fault
        began = time.monotonic()
        stop()
        self.assertLess(time.monotonic() - began, 10)
        self.assertEqual(self.fake.reported("j"), {"released": {}})

    def test_terminate(self):
        self.fake.state = "terminate"
        worker = Worker(self.fake.url, ["pictures"], logger=self.logger)
        worker.handle("WAIT")(double)
        worker.run()
        self.assertEqual(self.fake.counts["claim"], 1)
        with self.assertRaises(RuntimeError):
            worker.run()

    def test_refused(self):
        self.fake.fault = lambda verb, n, body: 403
        worker = Worker(self.fake.url, ["pictures"], logger=self.logger)
        worker.handle("WAIT", double)
        with self.assertRaisesRegex(TierqError, "403 REFUSED: by the test"):
            worker.run()
        for options in ({"url": "localhost:8080"}, {"queues": []}, {"queues": "q"}, {"concurrency": 0}, {"lease": 1},
                        {"name": "a:b"}):
            with self.assertRaises(ValueError, msg=options):
                Worker(**{"url": self.fake.url, "queues": ["q"], **options})
        with self.assertRaises(ValueError):
            Worker(self.fake.url, ["q"]).run()


if __name__ == "__main__":
    unittest.main()
