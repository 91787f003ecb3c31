"""Jobs that wait for each other."""

from __future__ import annotations

import uuid
from typing import Any, Dict, Iterator, Optional
from urllib.parse import quote

from .caller import Caller, having, until
from .errors import FlowFailed


class Flows(Caller):
    """The calls of a client about flows."""

    def submit_flow(self, jobs: Dict[str, Dict[str, Any]], *, name: Optional[str] = None,
                    idempotency_key: Optional[str] = None) -> Dict[str, Any]:
        """Submits jobs that wait for each other, all or none, and returns a dict with flowId and the ids by name.

        A job is a dict with the members of POST /jobs (without batch), after (the names of the jobs that it waits for)
        and onFailure (cancel, run or wait). delaySeconds and expiresIn count from its release. The errors are those of
        submit.
        """
        headers = {"Idempotency-Key": idempotency_key or str(uuid.uuid4())}
        body = {"name": name, "jobs": jobs}
        return self._call("submit flow", "POST", "/api/flows", body, headers, changes=True,
                          take=having("flowId", "jobs"))

    def flow(self, flow_id: str) -> Dict[str, Any]:
        """Returns a flow: a dict with flowId, name, state, counts and jobs."""
        return self._call("flow", "GET", _path(flow_id), None, {}, take=having("state"))

    def flows(self, *, state: Optional[str] = None, job_id: Optional[str] = None) -> Iterator[Dict[str, Any]]:
        """Yields the caller's own flows without their jobs, or with an operator's key all, the latest first.

        state chooses those that are RUNNING, STUCK, COMPLETED, FAILED or CANCELLED, job_id the flow of this job.
        """
        return self._pages("flows", "/api/flows", {"state": state, "jobId": job_id})

    def wait_flow(self, flow_id: str, timeout: Optional[float] = None) -> Dict[str, Any]:
        """Waits until all jobs of a flow are COMPLETED, and returns it.

        The error is FlowFailed if it ended otherwise or is STUCK, or after timeout seconds a TimeoutError.
        """
        def done(flow: Dict[str, Any]) -> bool:
            if flow["state"] not in ("COMPLETED", "RUNNING"):
                raise FlowFailed(flow)
            return flow["state"] == "COMPLETED"

        return until("flow " + flow_id, timeout, lambda: self.flow(flow_id), done)

    def cancel_flow(self, flow_id: str, *, reason: Optional[str] = None) -> str:
        """Cancels all jobs of a flow that have not ended, and returns its state. A repeat ends the others."""
        body = None if reason is None else {"reason": reason}
        return self._call("cancel flow", "POST", _path(flow_id) + "/cancel", body, {}, changes=True,
                          take=lambda said: said["state"])


def _path(flow_id: str) -> str:
    return "/api/flows/" + quote(flow_id, safe="")
