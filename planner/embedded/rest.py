"""A client of this service's own REST API, with the standard library only."""

import json
import urllib.error
import urllib.request
import uuid
from typing import Any

TIMEOUT_SECONDS = 30


class RestError(RuntimeError):
    """An answer other than success; the text holds the problem document."""


class RestClient:
    """Calls with a bearer token; every answer is JSON."""

    def __init__(self, address: str, token: str) -> None:
        self.address = address
        self.token = token
        # The service is on this machine: a proxy named in the environment must not see the token.
        self.opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))

    def get(self, path: str) -> Any:
        """The document at `path`."""
        return self._call("GET", path, None, {})

    def post(self, path: str, body: Any) -> Any:
        """What the service answers to `body`; an idempotency key makes a lost answer harmless."""
        return self._call("POST", path, json.dumps(body).encode(), {"Idempotency-Key": str(uuid.uuid4())})

    def _call(self, method: str, path: str, body: bytes | None, headers: dict[str, str]) -> Any:
        request = urllib.request.Request(self.address + path, data=body, method=method, headers=headers)
        request.add_header("Authorization", f"Bearer {self.token}")
        request.add_header("Content-Type", "application/json")
        try:
            with self.opener.open(request, timeout=TIMEOUT_SECONDS) as response:
                return json.load(response)
        except urllib.error.HTTPError as error:
            text = error.read().decode(errors="replace")
            raise RestError(f"{method} {path} answered {error.code}:\n{text}") from error

    def answers(self, path: str) -> bool:
        """Whether `path` answers with success right now."""
        try:
            with self.opener.open(self.address + path, timeout=2) as response:
                return bool(response.status == 200)  # noqa: PLR2004
        except OSError:
            return False
