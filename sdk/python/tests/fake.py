"""A server of worker calls, and of submits and polls: it hands out jobs, and keeps what it is told."""

import http.server
import json
import threading
import time
import unittest


class Fake:
    def __init__(self, test: unittest.TestCase):
        self.lock = threading.RLock()
        self.jobs = []  # to be handed out
        self.claims = {}  # the leases of a claim, by its id
        self.out = {}  # the jobs that were handed out, by lease
        self.ends = {}  # the report that ended a lease
        self.counts = {}  # calls, by verb
        self.words = {}  # the answer to a lease's heartbeats; OK without one
        self.saved = {}  # checkpoints, by lease, with their numbers
        self.tells = {}  # progress, by lease
        self.logs = {}  # lines, by lease, with their numbers; "lost" stands for null
        self.carried = 0  # reports that came with claims
        self.most = 0  # leases of one heartbeat
        self.state, self.lease_ms = "run", 30_000
        self.keys = {}  # submitted jobs, by Idempotency-Key
        self.flows = []  # the answers about flows, batches and schedules, in the same way as polls
        self.away = {}  # how often the lines of a lease are refused for now
        self.queries, self.ifs = [], []  # of these calls: the queries, and the versions that they ask for
        self.logged = [{"items": [{"seq": 1, "text": "one"}], "after": 1, "more": False, "ended": True}]
        self.polls = []  # the answers to polls, in their order; the last one repeats
        # Decides what becomes of the nth call of a verb: 0, it is answered; 1, it is carried out and its answer is
        # lost; above, it is refused with this status.
        self.fault = lambda verb, n, body: 0
        # Gives the nth call of a verb, which is not carried out then, another answer: bytes, or a status and bytes.
        self.odd = lambda verb, n, body: None
        self.refuse = lambda entry: None  # the error in the answer to an entry of a heartbeat
        self.hold = 0.0  # seconds that a heartbeat is held
        self.beats = []  # the entries of all heartbeats
        self.wrong = []
        self.refusal = {}  # more members of a refusal
        self.bodies = []  # of submits and batches
        self.copies = set()  # of claims: their ids and repeats
        fake = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version, disable_nagle_algorithm = "HTTP/1.1", True

            def do_POST(self):
                fake.serve(self)

            do_GET = do_PUT = do_DELETE = do_POST

            def log_message(self, *args):
                pass

        class Server(http.server.ThreadingHTTPServer):
            daemon_threads = True

            def handle_error(self, request, client_address):
                pass  # a worker that has gone

        self.http = Server(("127.0.0.1", 0), Handler)
        self.url = "http://127.0.0.1:%d" % self.http.server_port
        threading.Thread(target=self.http.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        test.addCleanup(self.http.server_close)
        test.addCleanup(self.http.shutdown)
        test.addCleanup(lambda: test.assertEqual(self.wrong, []))

    def add(self, id, type, payload, **more):
        """Queues a job whose lease is its id."""
        job = {"jobId": id, "type": type, "queue": "pictures", "tier": "PAID", "payload": payload, "attempt": 1,
               "retryCount": 0, "maxRetries": 5, "generation": 1, "checkpoint": None, "traceId": None,
               "traceparent": None, "lease": "lease-" + id, "leaseForMs": self.lease_ms,
               "heartbeatEveryMs": self.lease_ms // 3, "endsInMs": 600_000}
        job.update(more)
        with self.lock:
            self.jobs.append(job)

    def serve(self, request):
        body = request.rfile.read(int(request.headers.get("Content-Length") or 0)).decode()
        path = request.path.split("?")[0]
        verb = path.rsplit("/", 1)[-1] if path.startswith("/api/worker/") else request.command + " " + path
        with self.lock:
            self.counts[verb] = self.counts.get(verb, 0) + 1
            if verb == "claim":
                self.numbered(json.loads(body))
            fault = self.fault(verb, self.counts[verb], body)
            odd = self.odd(verb, self.counts[verb], body)
        if odd is not None:
            return self.raw(request, *(odd if isinstance(odd, tuple) else (200, odd)))
        if fault > 1:
            said = {"status": fault, "errorCode": "REFUSED", "detail": "by the test", **self.refusal}
            return self.answer(request, fault, said)
        serve = {"claim": self.claim, "heartbeat": self.heartbeat, "report": self.report,
                 "log": self.log}.get(verb)
        if serve is not None:
            status, said = 200, serve(json.loads(body))
        else:
            status, said = self.client(request, verb, body)
        if fault == 1:
            request.close_connection = True
            return None
        return self.answer(request, status, said)

    def answer(self, request, status, said):
        self.raw(request, status, json.dumps(said).encode())

    def raw(self, request, status, text):
        request.send_response(status)
        request.send_header("Content-Length", str(len(text)))
        request.end_headers()
        request.wfile.write(text)

    def numbered(self, claim):
        """Checks that a claim says how often it was sent before. A copy may arrive after a later one."""
        copy = claim["claimId"], claim.get("repeat", 0)
        if copy in self.copies:
            self.wrong.append("claim %s says repeat %d again" % copy)
        self.copies.add(copy)

    def claim(self, body):
        with self.lock:
            self.carried += len(body.get("reports", []))
            reported = self.end(body.get("reports", []))
            jobs = [self.out[lease] for lease in self.claims.get(body["claimId"], []) if lease not in self.ends]
        began = time.monotonic()
        end = began + body["wait"]
        while not jobs:
            with self.lock:
                while self.jobs and len(jobs) < body["max"]:
                    job = self.jobs.pop(0)
                    self.out[job["lease"]] = job
                    self.claims.setdefault(body["claimId"], []).append(job["lease"])
                    jobs.append(job)
                if jobs or time.monotonic() > end or self.state == "terminate":
                    break
            time.sleep(0.002)
        return {"state": self.state, "retryAfterMs": 0, "reported": reported, "jobs": jobs,
                "heldMs": int((time.monotonic() - began) * 1000)}

    def end(self, reports):
        """Takes reports. The first one of a lease counts, and a repeat gets the same answer."""
        answers = []
        for entry in reports:
            lease = entry["lease"]
            if self.words.get(lease) == "LOST":
                answers.append({"error": {"status": 409, "errorCode": "LEASE_LOST"}})
                continue
            if self.ends.get(lease, entry) != entry:
                self.wrong.append("another report for one lease: %s, %s" % (self.ends[lease], entry))
            self.ends[lease] = entry
            answers.append({"outcome": "COMPLETED"})
        return answers

    def report(self, body):
        with self.lock:
            return {"reports": self.end(body["reports"])}

    def heartbeat(self, body):
        time.sleep(self.hold)
        with self.lock:
            self.beats.append(body["leases"])
            self.most = max(self.most, len(body["leases"]))
            pulses = []
            for entry in body["leases"]:
                if "progress" in entry:
                    self.tells.setdefault(entry["lease"], []).append(entry["progress"])
                error = self.refuse(entry)
                if "save" in entry and not error:
                    self.saved.setdefault(entry["lease"], []).append((entry["save"], entry["checkpoint"]))
                pulses.append({"word": self.words.get(entry["lease"], "OK"), "leaseForMs": self.lease_ms})
                if error:
                    pulses[-1]["error"] = error
            return {"state": self.state, "leases": pulses, "heldMs": int(self.hold * 1000)}

    def log(self, body):
        """Keeps the lines of logs; a repeat adds none twice. After the report of a lease there must be no lines."""
        with self.lock:
            answers = []
            for entry in body["logs"]:
                lease, kept = entry["lease"], self.logs.setdefault(entry["lease"], {})
                if self.words.get(lease) == "LOST":
                    answers.append({"error": {"status": 409, "errorCode": "LEASE_LOST"}})
                    continue
                if self.away.get(lease):
                    self.away[lease] -= 1
                    answers.append({"error": {"status": 503, "errorCode": "SYSTEM_UNHEALTHY"}})
                    continue
                if lease in self.ends:
                    self.wrong.append("lines of %s after its report" % lease)
                for number, line in enumerate(entry["lines"], entry["from"]):
                    if line is not None and line["ageMs"] < 0:
                        self.wrong.append("a line is %d ms old" % line["ageMs"])
                    said = ("lost",) if line is None else (line["level"], line["text"], line.get("attrs"))
                    kept.setdefault(number, said)
                answers.append({"outcome": "OK"})
            return {"logs": answers}

    def client(self, request, verb, body):
        with self.lock:
            if verb == "inputs" or any(of in verb for of in ("/api/flows", "/api/batches", "/admin/schedules")):
                self.queries.append(request.path.partition("?")[2])
                self.ifs.append(request.headers["If-Match"] or request.headers["If-None-Match"])
                self.bodies.append((verb, json.loads(body or "null")))
                said = self.flows.pop(0) if len(self.flows) > 1 else self.flows[0]
                return 201 if verb == "POST /api/flows" else 200, said
            if verb.endswith(("/submit", "/submit/batch")):
                self.bodies.append(json.loads(body))
            if verb.endswith("/submit"):
                key = request.headers["Idempotency-Key"]
                id = self.keys.setdefault(key, "job-%d" % len(self.keys))
                return 202, {"apiResponseData": {"jobId": id, "currentJobStatus": "PENDING"}}
            if verb.endswith("/submit/batch"):
                answers = []
                for entry in json.loads(body):
                    if entry["type"] == "NONE":
                        answers.append({"errorCode": "UNKNOWN_JOB_TYPE", "detail": "there is no such type"})
                    else:
                        id = self.keys.setdefault(entry["idempotencyKey"], "job-%d" % len(self.keys))
                        answers.append({"jobId": id})
                return 202, {"apiResponseData": answers}
            if verb.endswith("/logs"):
                self.bodies.append(request.path)
                return 200, self.logged.pop(0) if len(self.logged) > 1 else self.logged[0]
            if verb == "GET /result/poll":
                said = self.polls.pop(0) if len(self.polls) > 1 else self.polls[0]
                return 200, {"apiResponseData": {"jobId": "job-0", "jobTier": "PAID", "type": "RESIZE", **said}}
            return 200, {"jobId": "job-0", "status": "CANCELLED"}

    def reported(self, id):
        """Waits for the report of a job, and returns it without its lease."""
        self.until("the report of " + id, lambda: "lease-" + id in self.ends)
        return {k: v for k, v in self.ends["lease-" + id].items() if k != "lease"}

    def until(self, what, holds):
        end = time.monotonic() + 20
        while True:
            with self.lock:
                if holds():
                    return
            if time.monotonic() > end:
                raise AssertionError("not within 20 s: %s; %s" % (what, self.counts))
            time.sleep(0.002)
