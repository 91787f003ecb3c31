"""Groups of jobs with one job at the end."""

from __future__ import annotations

import uuid
from typing import Any, Dict, Iterator, Optional, Sequence
from urllib.parse import quote

from .caller import Caller, having, query_of, until
from .errors import BatchStuck


class Batches(Caller):
    """The calls of a client about batches."""

    def create_batch(self, name: str, *, tier: Optional[str] = None, then: Optional[Dict[str, Any]] = None,
                     callback_url: Optional[str] = None, jobs: Optional[Sequence[Dict[str, Any]]] = None,
                     sealed: bool = False, idempotency_key: Optional[str] = None) -> Dict[str, Any]:
        """Makes a batch, and returns a dict with batchId, state and the counts. It is open, unless it is made sealed.

        then is the job that runs when all members have ended: a dict with type, payload, tier, queue, maxRetries and
        on (finished, or succeeded if it runs only when all are COMPLETED). Submits add members with the option batch.
        jobs are its first members, 1000 at most: dicts with the members of POST /jobs, but unique and batch. The server
        takes the batch with all of them, or not at all. Errors name the job, as jobs.<place>, and the answer has their
        ids as jobs, in their order.
        """
        headers = {"Idempotency-Key": idempotency_key or str(uuid.uuid4())}
        body: Dict[str, Any] = {"name": name, "tier": tier, "then": then, "callbackUrl": callback_url}
        if jobs is not None:
            body["jobs"] = list(jobs)
        if sealed:
            body["sealed"] = True
        return self._call("create batch", "POST", "/api/batches", body, headers, changes=True, take=having("batchId"))

    def batch(self, batch_id: str) -> Dict[str, Any]:
        """Returns a batch: a dict with batchId, name, state, round and the counts."""
        return self._call("batch", "GET", _path(batch_id), None, {}, take=having("state"))

    def batches(self) -> Iterator[Dict[str, Any]]:
        """Yields the caller's own batches, or with an operator's key all, the latest first."""
        return self._pages("batches", "/api/batches", {})

    def batch_members(self, batch_id: str, status: Optional[str] = None) -> Iterator[Dict[str, Any]]:
        """Yields the members of a batch: dicts with jobId, status, generation and endedAt.

        status chooses those that are LIVING, COMPLETED, FAILED, CANCELLED, EXPIRED or LOST (the server has the job no
        more).
        """
        return self._pages("batch members", _path(batch_id) + "/members", {"status": status})

    def seal_batch(self, batch_id: str) -> Dict[str, Any]:
        """Ends the adding of members, and returns the batch. A repeat changes nothing."""
        return self._call("seal batch", "POST", _path(batch_id) + "/seal", None, {}, changes=True)

    def wait_batch(self, batch_id: str, timeout: Optional[float] = None) -> Dict[str, Any]:
        """Waits until a batch is sealed and no member lives, and returns it.

        The error is BatchStuck if its last job waits for members that failed, or after timeout seconds a TimeoutError.
        """
        def done(batch: Dict[str, Any]) -> bool:
            if batch["state"] == "STUCK":
                raise BatchStuck(batch)
            return batch["state"] == "FINISHED"

        return until("batch " + batch_id, timeout, lambda: self.batch(batch_id), done)

    def cancel_batch(self, batch_id: str) -> Dict[str, Any]:
        """Seals a batch, and cancels its members that live. A repeat ends the others.

        It returns a dict with batchId, cancelled (members that waited and have ended) and asked (members that run, and
        are asked to stop).
        """
        done = {"batchId": batch_id, "cancelled": 0, "asked": 0}
        cursor = None
        while True:
            path = _path(batch_id) + "/cancel" + query_of({"cursor": cursor})
            page = self._call("cancel batch", "POST", path, None, {}, changes=True,
                              take=having("cancelled", "asked", "next"))
            done["cancelled"] += page["cancelled"]
            done["asked"] += page["asked"]
            cursor = page["next"]
            if not cursor:
                return done


def _path(batch_id: str) -> str:
    return "/api/batches/" + quote(batch_id, safe="")
