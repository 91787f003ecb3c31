"""What the handlers of jobs logged."""

from __future__ import annotations

import time
from typing import Any, Dict, Iterator, Optional
from urllib.parse import quote

from .caller import Caller, HOLD, having, query_of
from .errors import TierqError


class Logs(Caller):
    """The calls of a client about the logs of jobs."""

    def logs(self, job_id: str, *, after: Optional[int] = None, attempt: Optional[int] = None,
             level: Optional[str] = None, limit: Optional[int] = None, wait: float = 0) -> Dict[str, Any]:
        """Returns what a job's handlers logged, over all attempts: a dict with items, after, more and ended.

        An item has seq, attempt, at, level, text and attrs. A filter chooses lines behind the seq after, of an attempt,
        of a level (DEBUG, INFO, WARN or ERROR) or a higher one. wait, up to 60, is for how many seconds the server
        holds the answer until there are such lines or the job has ended. Ask next with the after of the answer.
        """
        asked = {"after": after, "attempt": attempt, "level": level, "limit": limit}
        return self._logs(job_id, asked, wait)

    def follow_logs(self, job_id: str, *, after: int = 0, attempt: Optional[int] = None, level: Optional[str] = None,
                    timeout: Optional[float] = None) -> Iterator[Dict[str, Any]]:
        """Yields the lines of a job's log, in order, until the job has ended.

        It asks for the lines behind the last one, so no interruption loses or repeats a line. After timeout seconds the
        error is a TimeoutError.
        """
        end = None if timeout is None else time.monotonic() + timeout
        held = True
        while True:
            left = HOLD if end is None else end - time.monotonic()
            if left <= 0:
                raise TimeoutError("job %s has not ended within %s seconds" % (job_id, timeout))
            asked = time.monotonic()
            try:
                page = self._logs(job_id, {"after": after or None, "attempt": attempt, "level": level},
                                  min(HOLD, max(left, 0.001)) if held else 0)
            except TierqError as e:
                if not held or e.status != 503:
                    raise
                held = False  # the server may have no room for requests that wait
                continue
            held = True
            yield from page["items"]
            after = max(after, page["after"])
            if page["ended"] and not page["more"]:
                return
            if not page["items"] and time.monotonic() - asked < min(left, 1.0):
                time.sleep(min(left, 1.0))  # the server does not hold answers now

    def _logs(self, job_id: str, asked: Dict[str, Any], wait: float) -> Dict[str, Any]:
        query = query_of({**asked, "wait": "%dms" % max(wait * 1000, 1) if wait else None})
        path = "/api/jobs/%s/logs%s" % (quote(job_id, safe=""), query)
        return self._call("logs", "GET", path, None, {}, hold=wait, take=having("items", "after", "more", "ended"))
