"""Makes the calls of a client: each is tried until it is answered, or its tries are used up."""

from __future__ import annotations

import json
import os
import threading
import time
from typing import Any, Callable, Dict, Iterator, Optional
from urllib.parse import urlencode

from .answers import Answer, taken
from .connection import Address, Connection, pause, refusal
from .errors import OutcomeUnknown, TierqError, Unavailable

HOLD = 25  # seconds that the server is asked to hold an answer


class Caller:
    """Calls one server, or several behind one address."""

    def __init__(self, url: Optional[str] = None, *, key: Optional[str] = None, timeout: float = 30.0, tries: int = 6):
        self._to = Address(url or os.environ.get("TIERQ_URL") or "http://127.0.0.1:8080",
                           key or os.environ.get("TIERQ_KEY"))
        self._timeout, self._tries = timeout, max(tries, 1)
        self._own = threading.local()

    def close(self) -> None:
        """Closes this thread's connection. The client stays usable."""
        conn = getattr(self._own, "conn", None)
        if conn is not None:
            conn.close()

    def _call(self, verb: str, method: str, path: str, body: Any, headers: Dict[str, str], *, changes: bool = False,
              once: bool = False, hold: float = 0.0, take: Optional[Callable[[Any], Any]] = None,
              tries: Optional[int] = None) -> Any:
        """Makes a call, and returns what take finds in the answer, which is None if it has no JSON.

        body is a value, or bytes of JSON. changes: the call changes something. once: a repeat would be misunderstood,
        so after a lost answer there is no other try. hold: for how many seconds the server may hold its answer. tries:
        other ones than the client's.
        """
        if not hasattr(self._own, "conn"):
            self._own.conn = Connection(self._to)
        text = body if body is None or type(body) is bytes else json.dumps(body, allow_nan=False).encode()
        unknown, job_id, tries = False, None, tries or self._tries
        for made in range(1, tries + 1):
            try:
                status, got, said = self._own.conn.call(method, path, text, self._timeout + hold, headers)
                if status < 300:
                    answer = Answer(b"null" if status == 204 else said, verb)
                    return taken(answer, verb, status, take or _same, OutcomeUnknown if changes else TierqError)
                e = refusal(verb, status, got, said)
            except Unavailable as away:
                e = away
            unknown = unknown or changes and (e.status == 0 or e.status >= 500 and e.status not in (501, 503))
            job_id = e.job_id or job_id
            if not e.passing or made == tries or once and unknown:
                raise _error(e, unknown, job_id)
            self._rest(made + 1, e)
        raise AssertionError("not reached")

    def _rest(self, failures: int, e: TierqError) -> None:
        time.sleep(pause(failures, e))

    def _pages(self, verb: str, path: str, asked: Dict[str, Any]) -> Iterator[Dict[str, Any]]:
        """Yields the items of a list, page by page."""
        cursor = None
        while True:
            items, after = self._call(verb, "GET", path + query_of({**asked, "cursor": cursor}), None, {},
                                      take=lambda page: (list(page["items"]), page["next"]))
            yield from items
            if not after or after == cursor:
                return
            cursor = after


def having(*names: str) -> Callable[[Any], Any]:
    """Returns a function that returns an answer which has these members; the error is a LookupError or TypeError."""
    def take(answer: Any) -> Any:
        for name in names:
            answer[name]
        return answer

    return take


def _same(answer: Any) -> Any:
    return answer


def _error(e: TierqError, unknown: bool, job_id: Optional[str]) -> TierqError:
    """Returns the error of a call: what an earlier try may have done is not undone by the refusal of this one."""
    kind = OutcomeUnknown if unknown else Unavailable if e.passing else TierqError
    return kind(str(e), status=e.status, code=e.code, detail=e.detail, job_id=job_id, errors=e.errors,
                retry_after=e.retry_after)


def query_of(asked: Dict[str, Any]) -> str:
    """Returns the query of an address; what is None is left out."""
    query = urlencode({k: v for k, v in asked.items() if v is not None})
    return query and "?" + query


def until(what: str, timeout: Optional[float], look: Callable[[], Dict[str, Any]],
          done: Callable[[Dict[str, Any]], bool]) -> Dict[str, Any]:
    """Asks for a state again and again, every two seconds at most, until done accepts it."""
    end = None if timeout is None else time.monotonic() + timeout
    rest = 0.1
    while True:
        state = look()
        if done(state):
            return state
        left = rest if end is None else end - time.monotonic()
        if left <= 0:
            raise TimeoutError("%s has not ended within %s seconds" % (what, timeout))
        time.sleep(min(rest, left))
        rest = min(2 * rest, 2.0)
