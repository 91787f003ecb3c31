"""One connection to a server, which stays open between calls."""

from __future__ import annotations

import http.client
import json
import random
import re
import selectors
import socket
import ssl
import time
from typing import Any, Dict, Optional, Tuple
from urllib.parse import urlsplit

from .errors import TierqError, Unavailable
from .texts import text_of

# An answer's bytes: a claim has up to 16 MiB of payloads, and as much of checkpoints.
MOST_ANSWER = 64 << 20
PART = 1 << 16  # of them that have to come within a timeout


class Address:
    """Where a server is, and the key that is shown to it."""

    def __init__(self, url: str, key: Optional[str]):
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError("the server's address is not http://host or https://host")
        self.host, self.port, self.tls = parts.hostname, parts.port, parts.scheme == "https"
        self.prefix = parts.path.rstrip("/")
        self.headers = {"Content-Type": "application/json", "User-Agent": "tierq-python"}
        if key and not re.fullmatch(r"[!-~]+", key):
            raise ValueError("the key must be visible ASCII characters, without spaces and line ends")
        if key:
            self.headers["Authorization"] = "Bearer " + key


class Connection:
    """Calls a server, for one thread at a time."""

    def __init__(self, to: Address):
        self._to = to
        self._conn: Optional[http.client.HTTPConnection] = None
        self._aborted = False

    def call(self, method: str, path: str, body: Optional[bytes], timeout: float,
             headers: Optional[Dict[str, str]] = None) -> Tuple[int, Any, bytes]:
        """Makes one call, and returns the answer's status, headers and body. The error is an Unavailable."""
        try:
            return self._try(method, path, body, timeout, headers)
        except (OSError, http.client.HTTPException) as e:
            self.close()
            raise Unavailable("%s %s: %s" % (method, path, e or type(e).__name__)) from e

    def _try(self, method: str, path: str, body: Optional[bytes], timeout: float,
             headers: Optional[Dict[str, str]]) -> Tuple[int, Any, bytes]:
        if self._conn is None:
            to = self._to
            if to.tls:
                context = ssl.create_default_context()
                self._conn = http.client.HTTPSConnection(to.host, to.port, timeout=timeout, context=context)
            else:
                self._conn = http.client.HTTPConnection(to.host, to.port, timeout=timeout)
        conn = self._conn
        if conn.sock is not None and _dropped(conn.sock):
            conn.close()
        if conn.sock is None:
            conn.timeout = min(timeout, 10.0)
            conn.connect()
            conn.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if self._aborted:
            raise ConnectionAbortedError("aborted")
        conn.sock.settimeout(timeout)
        sock, sent = conn.sock, time.monotonic()
        conn.request(method, self._to.prefix + path, body, {**self._to.headers, **(headers or {})})
        answer = conn.getresponse()
        return answer.status, answer.headers, _whole(sock, answer, sent, timeout)

    def abort(self) -> None:
        """Ends the call that another thread makes, and refuses all later ones."""
        self._aborted = True
        conn = self._conn
        sock = conn.sock if conn is not None else None
        if sock is not None:
            try:
                sock.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass  # it was closed before

    def close(self) -> None:
        if self._conn is not None:
            self._conn.close()
            self._conn = None


def _whole(sock: socket.socket, answer: http.client.HTTPResponse, sent: float, timeout: float) -> bytes:
    """Reads an answer's body, of which a part must come within each timeout.

    The error is an OSError or HTTPException, also if the body ends early.
    """
    parts, size, length = [], 0, answer.length
    while length is None or size < length:
        left = sent + timeout * (1 + size // PART) - time.monotonic()
        if left <= 0:
            raise socket.timeout("the answer did not end in time")
        sock.settimeout(left)
        part = answer.read1(PART if length is None else min(PART, length - size))
        if not part:
            break
        parts.append(part)
        size += len(part)
        if size > MOST_ANSWER:
            raise http.client.HTTPException("the answer has more than %d bytes" % MOST_ANSWER)
    if length is not None and size < length:
        raise http.client.IncompleteRead(b"", length - size)
    answer.close()
    return b"".join(parts)


def _dropped(sock: socket.socket) -> bool:
    """Says whether the server has closed a connection on which no answer is due."""
    with selectors.DefaultSelector() as selector:
        selector.register(sock, selectors.EVENT_READ)
        return bool(selector.select(0))


def refusal(verb: str, status: int, headers: Any, body: bytes, kind: type = TierqError) -> TierqError:
    """Returns the error that an answer is."""
    code, detail, job_id, errors = "", "the answer is not tierq's", None, None
    try:
        said = json.loads(body, parse_int=str)
        if type(said) is dict and type(said.get("errorCode")) is str:
            code, detail, job_id = said["errorCode"], text_of(said.get("detail") or ""), said.get("jobId")
            errors = said.get("errors") if type(said.get("errors")) is list else None
    except (ValueError, RecursionError):
        pass
    try:
        after = float(min(max(int(headers.get("Retry-After", "0")), 0), 3600))
    except ValueError:
        after = 0.0
    return kind("%s: %d %s: %s" % (verb, status, code, detail), status=status, code=code, detail=detail,
                job_id=job_id if type(job_id) is str else None, errors=errors, retry_after=after)


def pause(failures: int, error: TierqError) -> float:
    """Returns the wait after some failures in a row: 0.1 s, doubling to 5 s, of which a random half is left out."""
    bound = min(0.1 * 2 ** min(failures - 1, 10), 5.0)
    return min(bound / 2 + random.uniform(0, bound / 2) + error.retry_after, 60.0)
