import datetime
import unittest
import unittest.mock

from tierq import (
    BatchStuck, Client, FlowFailed, JobCancelled, JobExpired, JobFailed, OutcomeUnknown, TierqError, Unavailable,
)
from .fake import Fake


class ClientTest(unittest.TestCase):
    def setUp(self):
        self.fake = Fake(self)
        self.client = Client(self.fake.url, tries=4)
        self.addCleanup(self.client.close)
        patch = unittest.mock.patch("tierq.caller.pause", lambda failures, error: 0.001)
        patch.start()
        self.addCleanup(patch.stop)

    def test_submit_counts_once(self):
        self.fake.fault = lambda verb, n, body: (0, 1, 503, 0)[n % 4]
        ids = {self.client.submit("paid", "RESIZE", {"width": n}, queue="pictures") for n in range(20)}
        self.assertEqual((len(ids), len(self.fake.keys)), (20, 20))

    def test_submit_refused(self):
        self.fake.fault = lambda verb, n, body: 422
        with self.assertRaises(TierqError) as refused:
            self.client.submit("paid", "RESIZE")
        self.assertEqual((refused.exception.status, refused.exception.code, sum(self.fake.counts.values())),
                         (422, "REFUSED", 1))
        with self.assertRaises(TypeError):
            self.client.submit("paid", "RESIZE", delay=3)

    def test_unique(self):
        unique = {"key": "shop 7", "while": 60, "on": "refuse"}
        self.client.submit("paid", "RESIZE", {}, unique=unique)
        self.assertEqual(self.fake.bodies, [{"type": "RESIZE", "payload": {}, "unique": unique}])
        self.fake.fault = lambda verb, n, body: 409
        self.fake.refusal = {"errorCode": "UNIQUE_TAKEN", "jobId": "job-7"}
        with self.assertRaises(TierqError) as refused:
            self.client.submit("paid", "RESIZE", {}, unique=unique)
        self.assertEqual((refused.exception.code, refused.exception.job_id), ("UNIQUE_TAKEN", "job-7"))

    def test_key_of_a_line(self):
        self.client.submit("paid", "RESIZE", {}, key="acme")
        self.client.submit_many("paid", [{"type": "RESIZE", "key": "globex", "idempotency_key": "order-7"}])
        self.assertEqual(self.fake.bodies, [{"type": "RESIZE", "payload": {}, "key": "acme"},
                                            [{"type": "RESIZE", "key": "globex", "idempotencyKey": "order-7"}]])

    def test_submit_in_doubt(self):
        self.fake.fault = lambda verb, n, body: (0, 1, 503, 503, 503)[n]
        with self.assertRaises(OutcomeUnknown):
            self.client.submit("paid", "RESIZE", idempotency_key="order-7")
        self.assertEqual(list(self.fake.keys), ["order-7"])

    def test_logs(self):
        self.fake.fault = lambda verb, n, body: 503 if n == 1 else 0
        self.assertEqual(self.client.logs("job-0")["items"][0]["text"], "one")
        self.assertEqual(self.client.logs("job-0", after=7, level="WARN", wait=0.5)["after"], 1)
        self.assertEqual(self.fake.bodies,
                         ["/api/jobs/job-0/logs", "/api/jobs/job-0/logs?after=7&level=WARN&wait=500ms"])

    def test_follow_logs(self):
        self.fake.logged = [{"items": [{"seq": 1}, {"seq": 2}], "after": 2, "more": True, "ended": False},
                            {"items": [{"seq": 5}], "after": 5, "more": False, "ended": False},
                            {"items": [], "after": 5, "more": False, "ended": True}]
        self.fake.fault = lambda verb, n, body: (0, 0, 503, 0, 0)[n]
        self.assertEqual([line["seq"] for line in self.client.follow_logs("job-0", level="WARN")], [1, 2, 5])
        self.assertEqual([body.split("?")[1] for body in self.fake.bodies],
                         [after + "level=WARN&wait=25000ms" for after in ("", "after=2&", "after=5&")])

    def test_follow_logs_without_room(self):
        self.fake.fault = lambda verb, n, body: 503 if n <= 4 else 0
        self.assertEqual([line["text"] for line in self.client.follow_logs("job-0")], ["one"])
        self.assertEqual(self.fake.bodies, ["/api/jobs/job-0/logs"])

    def test_schedule(self):
        stored = {"name": "n ü", "cron": "@daily", "job": {"type": "REPORT"}, "version": 3, "next": [], "runs": []}
        self.fake.flows = [stored, stored, stored, stored, {"jobId": "job-1"}, {"items": ["2026-05-01T00:00:00Z"]},
                           {"items": [stored]}]
        c = self.client
        path = "/admin/schedules/n%20%C3%BC"
        c.put_schedule("n ü", c.schedule("n ü"), if_version=3)
        c.put_schedule("n ü", stored, if_version=0)
        c.pause_schedule("n ü", reason="full")
        self.assertEqual(c.run_schedule("n ü", idempotency_key="k"), "job-1")
        start = datetime.datetime(2026, 5, 1, tzinfo=datetime.timezone.utc)
        self.assertEqual(c.next_of_schedule("n ü", n=1, start=start), ["2026-05-01T00:00:00Z"])
        self.assertEqual(c.schedules(), [stored])
        put = {"cron": "@daily", "job": {"type": "REPORT"}}
        self.assertEqual(self.fake.bodies, [
            ("GET " + path, None), ("PUT " + path, put), ("PUT " + path, put),
            ("POST " + path + "/pause", {"reason": "full"}),
            ("POST " + path + "/run", None), ("GET " + path + "/next", None), ("GET /admin/schedules", None)])
        self.assertEqual([h for h in self.fake.ifs if h], ['"3"', "*"])
        with self.assertRaises(ValueError):
            c.next_of_schedule("n ü", start=datetime.datetime(2026, 5, 1))

    def test_schedule_in_doubt(self):
        self.fake.flows = [{"name": "n"}]
        self.fake.fault = lambda verb, n, body: 1
        with self.assertRaises(OutcomeUnknown):
            self.client.delete_schedule("n")
        with self.assertRaises(OutcomeUnknown):
            self.client.put_schedule("n", {"job": {}}, if_version=1)
        self.assertEqual(sum(self.fake.counts.values()), 2)
        with self.assertRaises(OutcomeUnknown):
            self.client.put_schedule("n", {"job": {}})  # may be repeated
        self.assertEqual(sum(self.fake.counts.values()), 6)

    def test_batch_ends(self):
        running = {"batchId": "b", "state": "RUNNING", "failed": 1, "cancelled": 0, "expired": 0}
        self.fake.flows = [running, {**running, "state": "FINISHED"}]
        self.assertEqual(self.client.wait_batch("b")["state"], "FINISHED")
        self.fake.flows = [running]
        with self.assertRaises(TimeoutError):
            self.client.wait_batch("b", 0.2)
        self.fake.flows = [{**running, "state": "STUCK"}]
        with self.assertRaisesRegex(BatchStuck, "1 failed"):
            self.client.wait_batch("b")
        self.fake.flows = [{"batchId": "b", "cancelled": 2, "asked": 1, "next": "c"},
                           {"batchId": "b", "cancelled": 3, "asked": 0, "next": None}]
        self.assertEqual(self.client.cancel_batch("b"), {"batchId": "b", "cancelled": 5, "asked": 1})
        self.fake.flows = [{"items": [1, 2], "next": "c"}, {"items": [3], "next": None}]
        self.assertEqual(list(self.client.batch_members("b", "FAILED")), [1, 2, 3])
        self.assertEqual(self.fake.queries[-4:], ["", "cursor=c", "status=FAILED", "status=FAILED&cursor=c"])

    def test_batch(self):
        self.fake.fault = lambda verb, n, body: 503 if verb == "POST /api/batches" and n == 1 else 0
        self.fake.flows = [{"batchId": "b", "state": "OPEN"}, {"batchId": "b", "state": "RUNNING"},
                           {"batchId": "b", "state": "FINISHED"}]
        made = self.client.create_batch("n", then={"type": "MAIL", "on": "succeeded"})
        self.client.submit("paid", "RESIZE", batch=made["batchId"])
        self.assertEqual(self.client.seal_batch("b")["state"], "RUNNING")
        self.assertEqual(self.client.batch("b")["state"], "FINISHED")
        self.assertEqual(self.fake.bodies[0][1]["then"], {"type": "MAIL", "on": "succeeded"})
        self.assertEqual(self.fake.bodies[1]["batch"], "b")
        self.assertEqual(self.fake.bodies[2][0], "POST /api/batches/b/seal")

    def test_flow(self):
        self.fake.fault = lambda verb, n, body: 503 if verb == "POST /api/flows" and n == 1 else 0
        self.fake.flows = [{"flowId": "f", "jobs": {"a": "job-a"}}, {"flowId": "f", "state": "RUNNING"},
                           {"flowId": "f", "state": "STUCK"}]
        jobs = {"a": {"type": "RESIZE"}, "b": {"after": ["a"], "onFailure": "run"}}
        self.assertEqual(self.client.submit_flow(jobs, name="n")["jobs"], {"a": "job-a"})
        with self.assertRaises(FlowFailed) as failed:
            self.client.wait_flow("f")
        self.assertEqual(failed.exception.flow["state"], "STUCK")
        self.fake.flows = [{"flowId": "f", "state": "COMPLETED"}]
        self.assertEqual(self.client.wait_flow("f")["state"], "COMPLETED")
        self.assertEqual(self.client.cancel_flow("f", reason="late"), "COMPLETED")
        self.assertEqual(self.fake.bodies[0], ("POST /api/flows", {"name": "n", "jobs": jobs}))
        self.assertEqual(self.fake.bodies[-1], ("POST /api/flows/f/cancel", {"reason": "late"}))
        self.fake.flows = [{"items": [{"flowId": "f"}], "next": None}]
        self.assertEqual(list(self.client.flows(state="STUCK", job_id="j")), [{"flowId": "f"}])
        self.assertEqual(self.fake.queries[-1], "state=STUCK&jobId=j")

    def test_unavailable(self):
        self.fake.fault = lambda verb, n, body: 503
        with self.assertRaises(Unavailable):
            self.client.submit("paid", "RESIZE")
        self.assertEqual(sum(self.fake.counts.values()), 4)
        with self.assertRaises(Unavailable):
            Client("http://127.0.0.1:1", tries=2).poll("job-0")

    def test_submit_many(self):
        jobs = [{"type": "NONE" if n == 7 else "RESIZE", "payload": {"n": n}} for n in range(1500)]
        results = self.client.submit_many("paid", jobs)
        self.assertEqual((len(results), len(set(map(str, results)))), (1500, 1500))
        self.assertEqual(results[7].code, "UNKNOWN_JOB_TYPE")
        self.assertEqual(self.fake.counts["POST /paid/submit/batch"], 2)

    def test_wait(self):
        self.fake.polls = [{"currentJobStatus": "PENDING"}, {"currentJobStatus": "COMPLETED", "result": {"width": 2}}]
        self.assertEqual(self.client.wait("job-0", 20).result, {"width": 2})
        self.fake.polls = [{"currentJobStatus": "FAILED", "failureCause": "HANDLER_ERROR", "lastError": "broken"}]
        with self.assertRaisesRegex(JobFailed, "HANDLER_ERROR: broken"):
            self.client.wait("job-0")
        self.fake.polls = [{"currentJobStatus": "CANCELLED"}]
        with self.assertRaises(JobCancelled):
            self.client.wait("job-0")
        self.fake.polls = [{"currentJobStatus": "EXPIRED"}]
        with self.assertRaises(JobExpired):
            self.client.wait("job-0")
        self.fake.polls = [{"currentJobStatus": "PENDING"}]
        with self.assertRaises(TimeoutError):
            self.client.wait("job-0", 0.3)
        self.assertEqual(self.client.cancel("job-0"), "CANCELLED")


if __name__ == "__main__":
    unittest.main()
