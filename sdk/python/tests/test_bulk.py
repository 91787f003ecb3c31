"""submit_many: calls below the server's bounds, an answer for each job in order, repeats as of single submits."""

import json
import unittest
import unittest.mock

from tierq import Client, OutcomeUnknown, TierqError, Unavailable
from .fake import Fake

PATH = "POST /paid/submit/batch"


class BulkTest(unittest.TestCase):
    def setUp(self):
        self.fake = Fake(self)
        self.client = Client(self.fake.url, tries=4)
        self.addCleanup(self.client.close)
        self.rests = []
        rest = lambda failures, error: self.rests.append(error.retry_after) or 0  # noqa: E731
        patch = unittest.mock.patch("tierq.caller.pause", rest)
        patch.start()
        self.addCleanup(patch.stop)
        self.sizes = []

    def bounds(self, verb, n, body):
        """Refuses what a server refuses: more than 16 MiB or 1000 entries."""
        self.sizes.append(len(json.loads(body)))
        return 413 if len(body) > 16 << 20 or self.sizes[-1] > 1000 else 0

    def answer(self, of):
        """Makes each entry's answer that of its payload."""
        def odd(verb, n, body):
            answers = [of(e["payload"], e["idempotencyKey"]) for e in json.loads(body)]
            return json.dumps({"apiResponseData": answers}).encode()

        self.fake.odd = odd

    def test_bytes(self):
        self.fake.fault = self.bounds
        results = self.client.submit_many("paid", [{"type": "RESIZE", "payload": "x" * 20_000} for _ in range(900)])
        self.assertEqual((len(set(results)), all(isinstance(r, str) for r in results)), (900, True))
        self.assertEqual(len(self.sizes), 2)

    def test_order(self):
        self.fake.fault = self.bounds
        sizes = [5 << 20, 11 << 20, 1, 15 << 20, 17 << 20, 2]
        jobs = [{"type": "RESIZE", "payload": "x" * n, "idempotency_key": str(n)} for n in sizes]
        results = self.client.submit_many("paid", jobs)
        self.assertEqual([getattr(r, "status", 0) for r in results], [0, 0, 0, 0, 413, 0])
        self.assertEqual([results[i] == self.fake.keys.get(str(n)) for i, n in enumerate(sizes)],
                         [True, True, True, True, False, True])

    def test_refused_for_now(self):
        calls = {}

        def of(payload, key):
            calls.setdefault(payload, []).append(key)
            code = {"full": "QUEUE_FULL", "rate": "RATE_LIMITED", "paused": "PAUSED", "doubt": "OUTCOME_UNKNOWN",
                    "wrong": "INVALID_PAYLOAD", "twice": "IDEMPOTENCY_MISMATCH"}.get(payload)
            if payload in ("full", "doubt") and len(calls[payload]) == 3:
                code = None
            if payload == "vague":
                code = "OUTCOME_UNKNOWN" if len(calls[payload]) == 1 else "SYSTEM_UNHEALTHY"
            said = {"jobId": "job of " + payload}
            if code:
                said = {"errorCode": code, "detail": "by the test", "retryAfter": 7}
            return {**said, "jobId": "job-7"} if code == "OUTCOME_UNKNOWN" else said

        self.answer(of)
        payloads = ["good", "full", "rate", "paused", "doubt", "wrong", "twice", "vague", "last"]
        results = self.client.submit_many("paid", [{"type": "T", "payload": p} for p in payloads])
        self.assertEqual([r if isinstance(r, str) else (type(r), r.code, r.passing) for r in results], [
            "job of good", "job of full", (Unavailable, "RATE_LIMITED", True), (Unavailable, "PAUSED", True),
            "job of doubt", (TierqError, "INVALID_PAYLOAD", False), (TierqError, "IDEMPOTENCY_MISMATCH", False),
            (OutcomeUnknown, "SYSTEM_UNHEALTHY", True), "job of last"])
        self.assertEqual(results[7].job_id, "job-7")
        self.assertEqual([(len(calls[p]), len(set(calls[p]))) for p in payloads],
                         [(1, 1), (3, 1), (4, 1), (4, 1), (3, 1), (1, 1), (1, 1), (4, 1), (1, 1)])
        self.assertEqual(self.rests, [7.0, 7.0, 7.0])

    def test_no_json(self):
        payloads = [1, float("nan"), {1, 2}, "last"]
        results = self.client.submit_many("paid", [{"type": "T", "payload": p} for p in payloads])
        self.assertEqual([getattr(r, "code", r) for r in results],
                         ["job-0", "INVALID_REQUEST", "INVALID_REQUEST", "job-1"])
        self.assertFalse(results[1].passing)
        with self.assertRaises(TypeError):
            self.client.submit_many("paid", [{"type": "T"}] * 1500 + [{"type": "T", "delay": 1}])
        with self.assertRaises(ValueError):
            self.client.submit("paid", "T", float("nan"))
        self.assertEqual(len(self.fake.keys), 2)

    def test_one_bad_entry(self):
        """A job that makes the server refuse the whole call costs no other one."""
        self.fake.fault = lambda verb, n, body: 400 if "\\ud800" in body else 0
        jobs = [{"type": "T", "payload": "\ud800" if n == 300 else n} for n in range(500)]
        results = self.client.submit_many("paid", jobs)
        self.assertEqual([n for n, r in enumerate(results) if not isinstance(r, str)], [300])
        self.assertEqual((results[300].status, len(self.fake.keys)), (400, 499))

    def test_crowded(self):
        """A rate limit refuses calls with more jobs than it has room for."""
        self.fake.fault = lambda verb, n, body: 429 if len(json.loads(body)) > 300 else 0
        results = self.client.submit_many("paid", [{"type": "T", "payload": n} for n in range(1000)])
        self.assertTrue(all(isinstance(r, str) for r in results))

    def test_lost_answers(self):
        self.fake.fault = lambda verb, n, body: (1, 0, 503, 0)[n % 4]
        results = self.client.submit_many("paid", [{"type": "T", "payload": n} for n in range(2500)])
        self.assertEqual((len(set(results)), len(self.fake.keys)), (2500, 2500))
        self.fake.fault = lambda verb, n, body: 1 if '"lost"' in body else 0
        jobs = [{"type": "T", "payload": n} for n in range(1000)] + [{"type": "T", "payload": "lost"}]
        results = self.client.submit_many("paid", jobs)
        self.assertEqual([(n, type(r)) for n, r in enumerate(results) if not isinstance(r, str)],
                         [(1000, OutcomeUnknown)])

    def test_odd_answers(self):
        for odd in (b"{}", b"[]", b"x", b'{"apiResponseData":[]}', b'{"apiResponseData":[{}]}',
                    b'{"apiResponseData":[{"jobId":5}]}', b'{"apiResponseData":{"jobId":5}}',
                    b'{"apiResponseData":[{"errorCode":["x"]}]}'):
            self.fake.odd = lambda verb, n, body: odd if n == 1 else None
            self.fake.counts.clear()
            self.assertIsInstance(self.client.submit_many("paid", [{"type": "T"}])[0], str, odd)
            for call in (lambda: self.client.submit("paid", "T"), lambda: self.client.cancel("j")):
                self.fake.odd = lambda verb, n, body: odd
                with self.assertRaises(OutcomeUnknown):
                    call()
            for call in (self.client.poll, self.client.wait, self.client.flow, self.client.wait_batch, self.client.logs,
                         self.client.next_of_schedule, lambda id: list(self.client.flows())):
                with self.assertRaises(Unavailable):
                    call("j")


if __name__ == "__main__":
    unittest.main()
