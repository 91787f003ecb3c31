"""Jobs at times."""

from __future__ import annotations

import datetime
import uuid
from typing import Any, Dict, List, Mapping, Optional, Union
from urllib.parse import quote

from .caller import Caller, query_of

MEMBERS = ("cron", "everySeconds", "timezone", "start", "end", "jitterSeconds", "overlap", "catchUp", "job")


class Schedules(Caller):
    """The calls of a client about schedules.

    A schedule is a dict. Its members that put_schedule stores are cron or everySeconds, timezone, start, end (RFC 3339
    texts), jitterSeconds, overlap (skip, allow, one or replace), catchUp (last, none or all) and job: a dict with type,
    tier, payload and the other members of a submit. The server adds name, owner, paused, lastOccurrence, next, version,
    createdAt and changedAt. A server with keys asks for a key of the role operator, and for changes admin.
    """

    def schedules(self) -> List[Dict[str, Any]]:
        """Returns all schedules by name, without payloads and runs."""
        return self._call("schedules", "GET", "/admin/schedules", None, {}, take=lambda said: list(said["items"]))

    def schedule(self, name: str) -> Dict[str, Any]:
        """Returns a schedule with its runs: the last occurrences, fired or missed, the latest first.

        A run has occurrence, through, status (FIRED or MISSED), jobId, living, asked, missed, reason, detail and at.
        """
        return self._call("schedule", "GET", _path(name), None, {})

    def put_schedule(self, name: str, schedule: Mapping[str, Any], *,
                     if_version: Optional[int] = None) -> Dict[str, Any]:
        """Stores a schedule in place of one of this name, and returns it.

        It takes what schedule has returned, too, and sends only the members that may be stored. A schedule that is
        stored as asked already keeps its version. With if_version it replaces this version only, 0 being none: if the
        server has another one, the error is a TierqError with status 412. After a lost answer the error is
        OutcomeUnknown then.
        """
        body = {k: v for k, v in schedule.items() if k in MEMBERS}
        return self._call("put schedule", "PUT", _path(name), body, _if(if_version), changes=True,
                          once=if_version is not None)

    def delete_schedule(self, name: str, *, if_version: Optional[int] = None) -> None:
        """Deletes a schedule; jobs that it has made go on. After a lost answer the error is OutcomeUnknown."""
        self._call("delete schedule", "DELETE", _path(name), None, _if(if_version), changes=True, once=True)

    def pause_schedule(self, name: str, *, reason: Optional[str] = None) -> Dict[str, Any]:
        """Makes a schedule make no jobs until it is resumed."""
        body = {} if reason is None else {"reason": reason}
        return self._call("pause schedule", "POST", _path(name) + "/pause", body, {}, changes=True)

    def resume_schedule(self, name: str) -> Dict[str, Any]:
        """Lets a paused schedule go on, with the next occurrence from now."""
        return self._call("resume schedule", "POST", _path(name) + "/resume", None, {}, changes=True)

    def run_schedule(self, name: str, *, idempotency_key: Optional[str] = None) -> str:
        """Makes a job of a schedule now, beside its occurrences, and returns its id.

        The same idempotency_key makes no second job.
        """
        headers = {"Idempotency-Key": idempotency_key or str(uuid.uuid4())}
        return self._call("run schedule", "POST", _path(name) + "/run", None, headers, changes=True,
                          take=lambda said: said["jobId"])

    def next_of_schedule(self, name: str, *, n: Optional[int] = None,
                         start: Union[datetime.datetime, str, None] = None) -> List[str]:
        """Returns the next n occurrences, 5 by default and 100 at most, after start or now.

        start is an RFC 3339 text, or a datetime with a time zone.
        """
        if isinstance(start, datetime.datetime):
            if start.tzinfo is None:
                raise ValueError("start has no time zone")
            start = start.isoformat()
        path = _path(name) + "/next" + query_of({"n": n, "from": start})
        return self._call("next of schedule", "GET", path, None, {}, take=lambda said: list(said["items"]))


def _path(name: str) -> str:
    return "/admin/schedules/" + quote(name, safe="")


def _if(version: Optional[int]) -> Dict[str, str]:
    """Returns the header with which the server changes only this version of a schedule; 0: there must be none."""
    if version is None:
        return {}
    return {"If-None-Match": "*"} if version == 0 else {"If-Match": '"%d"' % version}
