"""Estimates with all-different bodies, as a ratio to the health endpoint measured in the same run.

    python -m tests.chaos.load --kind postgresql --clients 20 --seconds 10

Starts an installation of its own. The last line is a JSON object; exit code 0 when the ratio is at least --least.
"""

from __future__ import annotations

import argparse
import http.client
import json
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.chaos.installation import HOST, Installation

ESTIMATE: dict[str, Any] = {
    "model": "llama-2-7b",
    "hardware": {"accelerator": "h100-sxm5-80gb", "count": 64, "node_type": "aws-p5-48xlarge"},
    "sharding": {"engine": "fsdp2", "zero_stage": 3},
    "batch": {"sequence_length": 4096, "micro_batch_size": 1, "global_batch_size": 64},
}
STEP, LENGTHS = 64, 128
SLICES, WARMING = 10, 4


def body_of(number: int) -> dict[str, Any]:
    """The request of a number, no two alike: lengths of 64 to 8,192 tokens, then another global batch."""
    longer, batches = number % LENGTHS, number // LENGTHS
    batch = {"sequence_length": STEP * (1 + longer), "global_batch_size": STEP * (1 + batches)}
    return {**ESTIMATE, "batch": {**ESTIMATE["batch"], **batch}}


class Phase:
    """One target, hit by every client as fast as it answers."""

    def __init__(self, send: Callable[[http.client.HTTPConnection, int], None], port: int) -> None:
        self.send, self.port = send, port
        self.latencies: list[float] = []
        self.bad = 0
        self.lock = threading.Lock()
        self.number = 0
        self.lasted = 0.0

    def run(self, clients: int, seconds: float) -> None:
        begun = time.monotonic()
        deadline = begun + seconds
        threads = [threading.Thread(target=self._client, args=(deadline,)) for _ in range(clients)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.lasted += time.monotonic() - begun

    def _client(self, deadline: float) -> None:
        connection = http.client.HTTPConnection(HOST, self.port, timeout=60)
        while (begun := time.monotonic()) < deadline:
            with self.lock:
                self.number += 1
                number = self.number
            self.send(connection, number)
            response = connection.getresponse()
            response.read()
            with self.lock:
                self.latencies.append(time.monotonic() - begun)
                self.bad += response.status != http.client.OK
        connection.close()

    def figures(self) -> dict[str, float]:
        ordered = sorted(self.latencies)
        at = {f"p{share}": ordered[min(len(ordered) - 1, len(ordered) * share // 100)] * 1e3 for share in (50, 99)}
        return {
            "per_second": round(len(ordered) / self.lasted, 1),
            "bad": self.bad,
            **{k: round(v, 1) for k, v in at.items()},
        }


def measure(place: Installation, clients: int, seconds: float) -> dict[str, Any]:
    """Health, then estimates, by the same clients."""
    headers = {"Authorization": f"Bearer {place.token}", "Content-Type": "application/json"}

    def health(connection: http.client.HTTPConnection, _: int) -> None:
        connection.request("GET", "/healthz")

    def estimate(connection: http.client.HTTPConnection, number: int) -> None:
        connection.request("POST", "/api/v1/estimates/", json.dumps(body_of(number)), headers)

    Phase(estimate, place.port).run(clients, seconds / WARMING)
    # In slices by turns: whatever else the machine does then slows both alike.
    phases = {"health": Phase(health, place.port), "estimates": Phase(estimate, place.port)}
    for _ in range(SLICES):
        for phase in phases.values():
            phase.run(clients, seconds / SLICES)
    found: dict[str, Any] = {name: phase.figures() for name, phase in phases.items()}
    found["ratio"] = round(found["estimates"]["per_second"] / found["health"]["per_second"], 4)
    found["p99_to_p50"] = round(found["estimates"]["p99"] / found["estimates"]["p50"], 2)
    return found


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kind", choices=("postgresql", "sqlite"), default="postgresql")
    parser.add_argument("--clients", type=int, default=20)
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--least", type=float, default=0.0, help="ratio below which the run fails")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="planner-load-") as folder:
        made = Installation(chosen.kind, Path(folder), workers=1)
        try:
            result = measure(made, chosen.clients, chosen.seconds)
        finally:
            made.close()
    print(json.dumps(result))
    sys.exit(0 if result["ratio"] >= chosen.least and not result["estimates"]["bad"] else 1)
