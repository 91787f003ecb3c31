"""What the server may answer: the worker goes on when answers are good again, and starts each lease once."""

import json
import sys
import threading
import time
import unittest
import unittest.mock

from tierq import Client, OutcomeUnknown, TierqError, Worker
from .case import WorkerCase

LIMIT = getattr(sys, "get_int_max_str_digits", lambda: 4300)()
LONG = "1" * (LIMIT + 1)

ODD = [
    b"", b"{}", b"[]", b"null", b"1", b'"x"', b"<html>hello</html>", b'{"jobs":[', b'{"jobs":null}', b'{"jobs":{}}',
    b'{"leases":null}', b'{"leases":[]}', b'{"leases":[null,1,"x",{},[]]}', b'{"leases":[{"word":"NONE"}]}',
    b'{"leases":[{"word":"OK","leaseForMs":"x"}]}', b'{"leases":[{"word":["OK"],"leaseForMs":1e300}]}',
    b'{"reports":[]}', b'{"reports":"x"}', b'{"reports":[null]}', b'{"reports":[{"error":"x"}]}',
    b'{"reports":[{"error":{"status":"x","detail":{}}}]}', b'{"jobs":[],"reported":7,"retryAfterMs":"x"}',
    b'{"jobs":[],"retryAfterMs":-5,"state":{"a":1},"heldMs":"x"}', b"[" * 200_000, b"\xff\xfe",
    b'{"a":' + LONG.encode() + b"}",
    (500, b"{}"), (429, b'{"status":429,"errorCode":"RATE_LIMITED"}'), (302, b""), (204, b""), (503, b"x" * 5000),
    (500, b'{"errorCode":5,"detail":[]}'), (503, b'{"errorCode":"A","detail":{"a":1},"errors":7,"jobId":[]}'),
]

# Jobs that cannot be read, by what differs from a good one.
UNREAD = [{"lease": None}, {"lease": 5}, {"jobId": None}, {"jobId": ""}, {"type": None}, {"type": {}},
          {"endsInMs": "x"}, {"endsInMs": None}, {"endsInMs": -1}, {"endsInMs": 1e300}, {"endsInMs": True},
          {"leaseForMs": "x"}, {"leaseForMs": []}, {"heartbeatEveryMs": None}, {"heartbeatEveryMs": "1"}]


class AnswersTest(WorkerCase):
    def setUp(self):
        super().setUp()
        for where in ("claims", "reports", "beats", "logs"):
            patch = unittest.mock.patch("tierq.%s.pause" % where, lambda failures, error: 0.02)
            patch.start()
            self.addCleanup(patch.stop)

    def test_odd(self):
        """Each odd answer is once the next one to each kind of call; then answers are good, and every job runs once."""
        runs, seen, round = [], set(), []

        def odd(verb, n, body):
            if round and verb not in seen:
                seen.add(verb)
                return round[0]

        def run(payload, job):
            runs.append(job.id)
            job.log.info("one")
            job.progress(1, 2)
            job.save({"a": 1})
            return 1

        self.fake.odd = odd
        self.start({"RUN": run}, concurrency=2)
        for n, answer in enumerate(ODD):
            with self.subTest(str(answer)[:60]):
                before = sum(self.fake.counts.values())
                with self.fake.lock:
                    seen.clear()
                    round[:] = [answer]
                    for id in "ab":
                        self.fake.add("%s-%d" % (id, n), "RUN", {})
                for id in "ab":
                    self.assertEqual(self.fake.reported("%s-%d" % (id, n)), {"completed": {"result": 1}})
                self.assertLess(sum(self.fake.counts.values()) - before, 40)
                self.assertGreaterEqual(seen, {"heartbeat", "log"})
        self.assertEqual(len(runs), len(set(runs)))
        self.assertGreater(self.fake.counts["report"], len(ODD) // 2)

    def test_for_a_while(self):
        """While answers are odd, no call is repeated in a tight loop."""
        for where in ("claims", "reports", "beats", "logs"):
            unittest.mock.patch("tierq.%s.pause" % where, lambda failures, error: 0.2).start()
        self.addCleanup(unittest.mock.patch.stopall)
        for odd in (b"{}", b'{"jobs":[]}', b'{"leases":[{"word":"WHAT"}],"jobs":[]}', (302, b"")):
            with self.subTest(str(odd)):
                super().setUp()
                good = threading.Event()
                self.fake.odd = lambda verb, n, body: None if good.is_set() or verb == "claim" and n == 1 else odd
                self.fake.add("a", "RUN", {})
                self.start({"RUN": lambda p, j: j.save(1)}, concurrency=2)
                time.sleep(1.5)
                self.assertLess(max(self.fake.counts.values()), 25)
                good.set()
                self.assertEqual(self.fake.reported("a"), {"completed": {"result": None}})

    def test_unread_jobs(self):
        for n, differs in enumerate(UNREAD):
            self.fake.add("bad-%d" % n, "RUN", {})
            self.fake.jobs[-1].update(differs)
        self.fake.add("good", "RUN", {}, attempt="x", retryCount=None, queue=5, flowId=[], traceId=7)
        for n in (1, 2):
            self.fake.add("twice", "RUN", n)
        runs = []
        self.start({"RUN": lambda p, j: runs.append(j.id)}, concurrency=3)
        self.fake.reported("good")
        self.fake.reported("twice")
        self.fake.add("last", "RUN", {})
        self.fake.reported("last")
        self.assertEqual(runs, ["good", "twice", "last"])
        left = [line for line in self.lines.said if "left to the end of its lease" in line]
        self.assertEqual(len(left), len(UNREAD) + 1)

    def test_cut(self):
        """A body that ends early is no answer."""
        raw = self.fake.raw

        def cut(request, status, text):
            if self.fake.counts["claim"] == 1 and text.startswith(b'{"state"'):
                request.send_response(200)
                request.send_header("Content-Length", str(len(text) + 9))
                request.end_headers()
                request.wfile.write(text)
                request.close_connection = True
                return
            raw(request, status, text)

        self.fake.raw = cut
        self.fake.add("a", "RUN", {})
        self.start({"RUN": lambda p, j: 1})
        self.assertEqual(self.fake.reported("a"), {"completed": {"result": 1}})
        self.said("IncompleteRead")

    def test_unknown_queue(self):
        problem = {"status": 404, "errorCode": "UNKNOWN_QUEUE", "detail": "there is no queue pictures"}
        self.fake.odd = lambda verb, n, body: (404, json.dumps(problem).encode())
        worker = Worker(self.fake.url, ["main", "pictures"], logger=self.logger)
        worker.handle("RESIZE", lambda p, j: 1)
        began = time.monotonic()
        with unittest.mock.patch("tierq.claims.UNKNOWN_QUEUE", 1.0):
            with self.assertRaisesRegex(TierqError, "there is no queue pictures; declare the queue first: tierq queues "
                                                    "declare pictures --type RESIZE$") as e:
                worker.run()
        self.assertEqual((e.exception.status, time.monotonic() - began >= 1.0), (404, True))
        until = time.monotonic() + 2
        self.fake.odd = lambda verb, n, body: None if time.monotonic() > until else (404, json.dumps(problem).encode())
        self.fake.add("a", "RESIZE", {})
        self.start({"RESIZE": lambda p, j: 1})
        self.assertEqual(self.fake.reported("a"), {"completed": {"result": 1}})

    @unittest.skipIf(LIMIT == 0, "this Python reads integers of any length")
    def test_long_integers(self):
        """A number that Python does not read fails its own job, in a claim with others."""
        for id in ("a", "long", "b", "held", "c"):
            self.fake.add(id, "RUN", ["@"] if id == "long" else id, checkpoint={"n": "@"} if id == "held" else None)
        raw = self.fake.raw
        self.fake.raw = lambda request, status, text: raw(request, status, text.replace(b'"@"', b"-" + LONG.encode()))
        runs = []
        self.start({"RUN": lambda p, j: runs.append(p)}, concurrency=8)
        for id in ("long", "held"):
            failed = self.fake.reported(id)["failed"]
            self.assertTrue(failed["permanent"])
            begins = "payload: it has an integer of " if id == "long" else "checkpoint: it has an integer of "
            self.assertTrue(failed["error"]["message"].startswith(begins + "%d digits" % (LIMIT + 1)), failed)
        for id in "abc":
            self.assertEqual(self.fake.reported(id), {"completed": {"result": None}})
        self.assertEqual((sorted(runs), self.fake.counts["claim"] < 9), (["a", "b", "c"], True))

    @unittest.skipIf(LIMIT == 0, "this Python reads integers of any length")
    def test_long_integers_elsewhere(self):
        self.fake.odd = lambda verb, n, body: (
            b'{"inputs":[{"result":%s}]}' % LONG.encode() if verb == "inputs" else
            b'{"leases":[{"word":"OK","leaseForMs":%s}]}' % LONG.encode() if verb == "heartbeat" and n == 1 else
            b'{"apiResponseData":{"jobId":"j","currentJobStatus":"COMPLETED","result":%s}}' % LONG.encode()
            if verb.startswith("GET") else b'{"jobId":%s}' % LONG.encode() if verb.startswith("DELETE") else None)
        said = []

        def reads(payload, job):
            for call in (job.inputs, lambda: job.input("a")):
                try:
                    call()
                except TierqError as e:
                    said.append(str(e))
            job.save(1)

        self.fake.add("a", "READS", {}, flowId="f")
        self.start({"READS": reads})
        self.assertEqual(self.fake.reported("a"), {"completed": {"result": None}})
        client = Client(self.fake.url)
        self.addCleanup(client.close)
        for call in (client.poll, client.wait):
            with self.assertRaises(TierqError) as e:
                call("j")
            said.append(str(e.exception))
        self.assertEqual((e.exception.code, e.exception.passing), ("INTEGER_TOO_LONG", False))
        with self.assertRaises(OutcomeUnknown):
            client.cancel("j")
        for text in said:
            self.assertIn("an integer of %d digits" % (LIMIT + 1), text)
        self.assertEqual((len(said), self.fake.counts["inputs"], self.fake.counts["GET /result/poll"]), (4, 2, 2))


if __name__ == "__main__":
    unittest.main()
