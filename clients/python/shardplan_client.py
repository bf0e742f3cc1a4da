"""A client of the Shardplan API in one file, with the standard library only: copy it beside your own code.

    from shardplan_client import Shardplan
    service = Shardplan("https://plans.example.org", token="plan_…")
    plan = service.plan({"model": "llama-3-8b", "workload": {"tokens": 15_000_000_000, "sequence_length": 8192}})
    print(plan["recommendation"]["usd"])

A call is repeated where that is safe: after a dropped connection, 429 and 502 to 504, for as long as `patience_seconds`
says. Creating a plan carries an idempotency key, so a repeated call never makes a second plan.
"""

from __future__ import annotations

import http.client
import json
import random
import time
import urllib.parse
import uuid
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

JSON = Mapping[str, Any]
FINAL = frozenset({"succeeded", "infeasible", "failed", "cancelled"})
AGAIN = frozenset({429, 502, 503, 504})
FIRST_PAUSE_SECONDS = 0.25
LONGEST_PAUSE_SECONDS = 10.0
ERROR = 400


class ShardplanError(Exception):
    """An answer of 400 or above: `status`, `code` to branch on, and `faults` as [{"pointer", "code", "detail"}]."""

    def __init__(self, status: int, problem: JSON) -> None:
        self.status = status
        self.problem = problem
        self.code = str(problem.get("type", "")).rpartition(":")[2]
        self.faults: list[dict[str, str]] = list(problem.get("errors", []))
        lines = [f"{fault['pointer']}: {fault['detail']}" for fault in self.faults]
        super().__init__("\n".join([f"{status} {problem.get('title', '')}: {problem.get('detail', '')}", *lines]))


class Shardplan:
    """One service and one token. A connection is kept open: give each thread a client of its own."""

    def __init__(
        self, address: str, token: str, *, timeout_seconds: float = 90.0, patience_seconds: float = 120.0
    ) -> None:
        parts = urllib.parse.urlsplit(address)
        kinds = {"http": http.client.HTTPConnection, "https": http.client.HTTPSConnection}
        if parts.scheme not in kinds or not parts.hostname:
            raise ValueError(f"{address!r} is no http(s) address")
        self._connection = kinds[parts.scheme](parts.hostname, parts.port, timeout=timeout_seconds)
        self._base = parts.path.rstrip("/") + "/api/v1"
        self._token = token
        self._patience = patience_seconds

    def close(self) -> None:
        """Give the connection back; the next call opens another."""
        self._connection.close()

    def __enter__(self) -> Shardplan:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def estimate(self, request: JSON) -> dict[str, Any]:
        """Memory, time and cost of one configuration."""
        return self._json("POST", "/estimates/", request)

    def estimates(self, requests: Iterable[JSON]) -> list[dict[str, Any]]:
        """The same for many, in order; a bad one has an `error` in its place and spoils no other."""
        results: list[dict[str, Any]] = self._json("POST", "/estimates/bulk/", list(requests))["results"]
        return results

    def largest(self, request: JSON, maximise: str) -> dict[str, Any]:
        """The largest `micro_batch_size` or `sequence_length` that fits."""
        return self._json("POST", "/estimates/max/", {**request, "maximise": maximise})

    def plan_create(self, request: JSON, *, key: str | None = None, wait_seconds: int = 0) -> dict[str, Any]:
        """Queue a plan; the same key and request give the first plan again."""
        headers = {"Idempotency-Key": key or str(uuid.uuid4()), "Prefer": f"wait={wait_seconds}"}
        return self._json("POST", "/plans/", request, headers)

    def plan(self, request: JSON, *, key: str | None = None, timeout_seconds: float = 3600.0) -> dict[str, Any]:
        """Queue a plan and wait for its end. Raises TimeoutError; the plan then goes on without you."""
        made = self.plan_create(request, key=key, wait_seconds=30)
        return made if made["status"] in FINAL else self.plan_wait(made["id"], timeout_seconds)

    def plan_wait(self, plan_id: str, timeout_seconds: float = 3600.0) -> dict[str, Any]:
        """Look at a plan until it has ended."""
        deadline, pause = time.monotonic() + timeout_seconds, FIRST_PAUSE_SECONDS
        while (found := self.plan_get(plan_id))["status"] not in FINAL:
            if time.monotonic() + pause > deadline:
                raise TimeoutError(f"plan {plan_id} is still {found['status']} after {timeout_seconds:g} s")
            time.sleep(pause)
            pause = min(pause * 1.5, LONGEST_PAUSE_SECONDS)
        return found

    def plan_get(self, plan_id: str) -> dict[str, Any]:
        """A plan as it is now."""
        return self._json("GET", f"/plans/{plan_id}/")

    def plan_cancel(self, plan_id: str) -> dict[str, Any]:
        """Cancel a plan that has not ended; one that has raises ShardplanError with code `plan_final`."""
        return self._json("DELETE", f"/plans/{plan_id}/")

    def plan_rerun(self, plan_id: str, *, key: str | None = None, wait_seconds: int = 0) -> dict[str, Any]:
        """Plan a saved request anew at today's prices; `plan_compare` of both says the difference."""
        headers = {"Idempotency-Key": key or str(uuid.uuid4()), "Prefer": f"wait={wait_seconds}"}
        return self._json("POST", f"/plans/{plan_id}/rerun/", None, headers)

    def plan_compare(self, plan_ids: Iterable[str]) -> dict[str, Any]:
        """Plans side by side; `ID.2` is a plan's second option."""
        return self._json("GET", f"/plans/compare/?ids={','.join(plan_ids)}")

    def plan_export(self, plan_id: str, rank: int, form: str) -> str:
        """A launch file of one option: `deepspeed`, `slurm`, `kubernetes` …"""
        return self._call("GET", f"/plans/{plan_id}/options/{rank}/exports/{form}/").decode()

    def rows(self, door: str, **query: str | int) -> Iterator[dict[str, Any]]:
        """Every row of a list (`plans`, `accelerators`, `offers`, `models`, `pools` …), page by page."""
        path: str | None = f"/{door}/?{urllib.parse.urlencode({'page_size': 200, **query})}"
        while path:
            page = self._json("GET", path)
            yield from page["results"]
            following = urllib.parse.urlsplit(page["next"] or "")
            path = f"{following.path.partition('/api/v1')[2]}?{following.query}" if page["next"] else None

    def _json(self, method: str, path: str, body: Any = None, headers: Mapping[str, str] | None = None) -> Any:
        return json.loads(self._call(method, path, body, headers))

    def _call(self, method: str, path: str, body: Any = None, headers: Mapping[str, str] | None = None) -> bytes:
        content = None if body is None else json.dumps(body).encode()
        sent = {"Authorization": f"Bearer {self._token}", "Content-Type": "application/json", **(headers or {})}
        deadline, pause = time.monotonic() + self._patience, FIRST_PAUSE_SECONDS
        while True:
            try:
                status, answer, retry_after = self._once(method, path, content, sent)
            except (OSError, http.client.HTTPException):
                if time.monotonic() + pause > deadline:
                    raise
                retry_after = None
            else:
                if status not in AGAIN or time.monotonic() + pause > deadline:
                    if status >= ERROR:
                        raise ShardplanError(status, _problem(answer))
                    return answer
            # A little chance keeps a thousand jobs that were refused together from coming back together.
            time.sleep(max(retry_after or 0.0, pause * random.uniform(0.5, 1.0)))
            pause = min(pause * 2, LONGEST_PAUSE_SECONDS)

    def _once(
        self, method: str, path: str, content: bytes | None, headers: Mapping[str, str]
    ) -> tuple[int, bytes, float | None]:
        try:
            self._connection.request(method, self._base + path, content, dict(headers))
            response = self._connection.getresponse()
            answer = response.read()
        except (OSError, http.client.HTTPException):
            self._connection.close()
            raise
        after = response.headers.get("Retry-After", "")
        return response.status, answer, float(after) if after.isdigit() else None


def _problem(answer: bytes) -> JSON:
    try:
        found = json.loads(answer)
    except ValueError:
        found = None
    return found if isinstance(found, dict) else {"title": "not an answer of the service", "detail": ""}
