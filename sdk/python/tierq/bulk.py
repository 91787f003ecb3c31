"""Submits many jobs in few calls."""

from __future__ import annotations

import json
import uuid
from typing import Any, Dict, List, Optional, Sequence, Union
from urllib.parse import quote

from .caller import Caller
from .errors import OutcomeUnknown, TierqError, Unavailable
from .texts import text_of

MOST_ENTRIES = 1000  # of a call
MOST_BYTES = 15 << 20  # of a call: the server takes 16 MiB

OPTIONS = {
    "queue": "queue", "delay_seconds": "delaySeconds", "run_at": "runAt", "expires_in": "expiresIn",
    "expires_at": "expiresAt",
    "max_retries": "maxRetries",
    "max_processing_seconds": "maxProcessingSeconds", "callback_url": "callbackUrl",
    "unique": "unique", "key": "key", "batch": "batch",
}

# What a submit alone would be answered; others are 400.
STATUSES = {
    "FORBIDDEN": 403, "UNKNOWN_TIER": 404, "NOT_FOUND": 404, "BATCH_SEALED": 409, "UNIQUE_TAKEN": 409,
    "INVALID_STATE_TRANSITION": 409, "PAYLOAD_TOO_LARGE": 413, "INVALID_PAYLOAD": 422, "UNKNOWN_JOB_TYPE": 422,
    "UNKNOWN_QUEUE": 422, "IDEMPOTENCY_MISMATCH": 422, "RATE_LIMITED": 429, "INTERNAL": 500, "QUEUE_FULL": 503,
    "SYSTEM_UNHEALTHY": 503, "PAUSED": 503, "OUTCOME_UNKNOWN": 504,
}


class Entry:
    """A job that is submitted with others."""

    def __init__(self, text: bytes):
        self.text = text
        self.id: Optional[str] = None
        self.error: Optional[TierqError] = None
        self.again = True  # it is not answered yet, or refused for now
        self.crowded = False  # the last call with it was refused as a whole, for a rate
        self.unknown = False  # a try may have been carried out
        self.job_id: Optional[str] = None  # that a try has named

    def fail(self, e: TierqError) -> None:
        """Takes why a try failed."""
        self.unknown = self.unknown or isinstance(e, OutcomeUnknown) or e.status >= 500 and e.status not in (501, 503)
        self.error, self.again, self.job_id = e, e.passing, e.job_id or self.job_id

    @property
    def answer(self) -> Union[str, TierqError]:
        e = self.error
        if self.id is not None or e is None:
            return self.id or ""
        kind = OutcomeUnknown if self.unknown else Unavailable if e.passing else TierqError
        return kind(str(e), status=e.status, code=e.code, detail=e.detail, job_id=self.job_id, errors=e.errors,
                    retry_after=e.retry_after)


class Bulk(Caller):
    """The call of a client that submits many jobs."""

    def submit_many(self, tier: str, jobs: Sequence[Dict[str, Any]]) -> List[Union[str, TierqError]]:
        """Submits many jobs, up to 1000 or 15 MiB a call, and returns for each its id or its error, in order.

        A job is a dict with type, payload, idempotency_key and the options of submit. Each is accepted or refused by
        itself. One that is refused for now (429, 503), or whose answer is lost, is sent again as submit does, with the
        same key. Its error is that of a submit alone: OutcomeUnknown if the job may have been accepted, a TierqError
        with the code INVALID_REQUEST if it is no JSON.
        """
        todo, most = [_entry(job) for job in jobs], MOST_ENTRIES
        for made in range(1, self._tries + 1):
            left = [entry for entry in todo if entry.again]
            if not left:
                break
            if made > 1:
                after = max(entry.error.retry_after for entry in left if entry.error is not None)
                self._rest(made, TierqError("", retry_after=after))
            for chunk in _chunks(left, most):
                self._submit(tier, chunk)
            if any(entry.crowded for entry in left):
                most = max(most // 4, 1)  # a rate limit refuses calls with more jobs than it has room for
        return [entry.answer for entry in todo]

    def _submit(self, tier: str, chunk: List[Entry]) -> None:
        """Sends entries once. If the call is refused for what it says, it is made again for each half of them."""
        path = "/%s/submit/batch" % quote(tier.lower(), safe="")
        try:
            answers = self._call("submit", "POST", path, b"[%s]" % b",".join(entry.text for entry in chunk), {},
                                 changes=True, tries=1, take=lambda said: _answers(said, len(chunk)))
        except TierqError as e:
            if e.status in (400, 413) and len(chunk) > 1:
                half = len(chunk) // 2
                self._submit(tier, chunk[:half])
                self._submit(tier, chunk[half:])
                return
            for entry in chunk:
                entry.fail(e)
                entry.crowded = e.status == 429
            return
        for entry, said in zip(chunk, answers):
            entry.crowded = False
            if said.get("errorCode"):
                entry.fail(_error(said))
            else:
                entry.id, entry.again = said["jobId"], False


def job_of(type: str, payload: Any, options: Dict[str, Any]) -> Dict[str, Any]:
    """Returns the body of a submit."""
    body: Dict[str, Any] = {"type": type}
    if payload is not None:
        body["payload"] = payload
    for name, value in options.items():
        if name not in OPTIONS:
            raise TypeError("a submit has no option %s" % name)
        if value is not None:
            body[OPTIONS[name]] = value
    return body


def _entry(job: Dict[str, Any]) -> Entry:
    options = {k: v for k, v in job.items() if k not in ("type", "payload", "idempotency_key")}
    body = job_of(job["type"], job.get("payload"), options)
    body["idempotencyKey"] = job.get("idempotency_key") or str(uuid.uuid4())
    try:
        return Entry(json.dumps(body, allow_nan=False).encode())
    except (TypeError, ValueError, RecursionError) as e:
        entry = Entry(b"")
        entry.fail(TierqError("submit: the job is no JSON: " + text_of(e), status=400, code="INVALID_REQUEST",
                              detail=text_of(e)))
        return entry


def _chunks(entries: List[Entry], most: int) -> List[List[Entry]]:
    """Divides entries into those of one call each."""
    chunks: List[List[Entry]] = []
    size = 0
    for entry in entries:
        size += len(entry.text) + 1
        if not chunks or len(chunks[-1]) == most or size > MOST_BYTES:
            chunks.append([])
            size = len(entry.text) + 1
        chunks[-1].append(entry)
    return chunks


def _answers(said: Any, count: int) -> List[Dict[str, Any]]:
    """Returns the answers to entries; the error is a ValueError if they are not one for each."""
    answers = said["apiResponseData"]
    if type(answers) is not list or len(answers) != count:
        raise ValueError("an answer for each of %d jobs" % count)
    for one in answers:
        if type(one) is not dict or type(one.get("errorCode") or one.get("jobId")) is not str:
            raise ValueError("a jobId or an errorCode of each job")
    return answers


def _error(said: Dict[str, Any]) -> TierqError:
    code, after = said["errorCode"], said.get("retryAfter")
    return TierqError("submit: %s: %s" % (code, said.get("detail")), status=STATUSES.get(code, 400), code=code,
                      detail=said.get("detail") or "", job_id=said.get("jobId"), errors=said.get("errors"),
                      retry_after=float(min(max(after, 0), 3600)) if type(after) is int else 0.0)
