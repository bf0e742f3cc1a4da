"""Plans submitted while workers, broker and database are killed; then an account of every one of them.

    python -m tests.chaos.chaos --kind postgresql --plans 2000 --kill-every 4 --broker 3 --database 1
    python -m tests.chaos.chaos --kind sqlite --plans 200

Starts an installation of its own in a temporary folder. The last line is a JSON object of counts; exit code 0 when
nothing was lost, doubled, changed or wrong.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import tempfile
import threading
import time
import uuid
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.chaos.installation import ROOT, Installation

sys.path.insert(0, str(ROOT / "clients" / "python"))
from shardplan_client import Shardplan, ShardplanError  # noqa: E402 - needs the path above

PLAN: dict[str, Any] = {
    "model": "llama-2-7b",
    "workload": {"tokens": 15_000_000_000, "sequence_length": 4096, "global_batch_tokens": 1_048_576},
    "hardware": {"accelerators": ["h100-sxm5-80gb"], "pricing": ["on-demand"], "counts": [8]},
    "engines": ["fsdp2"],
    "search": {"zero_stages": [3], "tp": [1], "pp": [1], "cp": [1], "ep": [1], "micro_batch_sizes": [1],
               "recompute": ["none"]},
    "options": 1,
}  # fmt: skip
FINAL = ("succeeded", "infeasible", "failed", "cancelled")
CANCEL_EVERY = 25
PATIENCE_SECONDS = 180.0
PASSING = ("id", "progress")


@dataclass
class Ledger:
    """What the clients saw."""

    ids: dict[str, set[str]] = field(default_factory=dict)
    numbers: dict[str, int] = field(default_factory=dict)
    cancelled: set[str] = field(default_factory=set)
    refused: list[str] = field(default_factory=list)
    faults: dict[str, int] = field(default_factory=lambda: dict.fromkeys(("worker", "broker", "database"), 0))
    lock: threading.Lock = field(default_factory=threading.Lock)


def request_of(number: int) -> dict[str, Any]:
    return {**PLAN, "workload": {**PLAN["workload"], "tokens": 1_000_000_000 + number}}


def submit(place: Installation, ledger: Ledger, number: int, copies: int) -> None:
    """The same key several times at once, as clients that lost an answer do; some plans are cancelled again."""
    key = str(uuid.uuid4())

    def send(_: int) -> None:
        try:
            with Shardplan(place.address, place.token, patience_seconds=PATIENCE_SECONDS, timeout_seconds=30) as client:
                made = client.plan_create(request_of(number), key=key)
        except (ShardplanError, OSError) as error:
            with ledger.lock:
                ledger.refused.append(f"{number}: {error!r}")
            return
        with ledger.lock:
            ledger.ids.setdefault(key, set()).add(made["id"])
            ledger.numbers[made["id"]] = number

    with ThreadPoolExecutor(copies) as pool:
        list(pool.map(send, range(copies)))
    if number % CANCEL_EVERY == 0 and ledger.ids.get(key):
        (plan_id, *_) = ledger.ids[key]
        try:
            with Shardplan(place.address, place.token) as client:
                if client.plan_cancel(plan_id)["status"] == "cancelled":
                    ledger.cancelled.add(plan_id)
        except ShardplanError as error:
            if error.code != "plan_final":
                ledger.refused.append(f"cancel {number}: {error!r}")


@dataclass
class Storm:
    """Kills in a fixed order at jittered times, by the main thread alone.

    A process started by another thread would be ended by the kernel together with that thread.
    """

    place: Installation
    ledger: Ledger
    options: argparse.Namespace
    turn: int = 0
    next_at: float = field(default_factory=time.monotonic)

    def step(self) -> None:
        """The next kill, once it is due."""
        if time.monotonic() < self.next_at:
            return
        self.next_at = time.monotonic() + self.options.kill_every * random.uniform(0.7, 1.3)
        self.turn += 1
        self.place.supervise()
        done = self.ledger.faults
        self.place.kill_worker(self.place.workers[self.turn % len(self.place.workers)], parent=self.turn % 2 == 0)
        done["worker"] += 1
        if self.turn % 3 == 1 and done["broker"] < self.options.broker:
            self.place.restart_broker()
            done["broker"] += 1
        if self.turn % 4 == 2 and done["database"] < self.options.database:
            self.place.restart_database()
            done["database"] += 1


def comparable(plan: dict[str, Any]) -> dict[str, Any]:
    """A plan without what may differ between two runs of one request."""
    left = {name: value for name, value in plan.items() if name not in PASSING}
    left["search"] = {name: value for name, value in left.get("search", {}).items() if name != "seconds"}
    text = json.dumps(left, sort_keys=True).replace(plan["id"], "ID")
    found: dict[str, Any] = json.loads(text)
    return found


def audit(place: Installation, client: Shardplan, ledger: Ledger, options: argparse.Namespace) -> dict[str, Any]:
    """Every plan that was promised, looked up in calm."""
    accepted = {plan_id for ids in ledger.ids.values() for plan_id in ids}
    deadline = time.monotonic() + options.drain
    while True:
        rows = {row["id"]: row for row in client.rows("plans")}
        waiting = [plan_id for plan_id in accepted if rows.get(plan_id, {}).get("status") not in FINAL]
        if not waiting or time.monotonic() > deadline:
            break
        place.supervise()
        time.sleep(1)
    if waiting:
        for name, child in place.children.items():
            print(f"--- {name}\n{child.log_tail()}", file=sys.stderr)
    statuses = [rows[plan_id]["status"] for plan_id in accepted if plan_id in rows]
    wrong = 0
    done = sorted(plan_id for plan_id in accepted - ledger.cancelled if plan_id in rows)
    for plan_id in random.Random(7).sample(done, min(options.sample, len(done))):
        first = client.plan_get(plan_id)
        if first["status"] in ("succeeded", "infeasible"):
            again = client.plan(request_of(ledger.numbers[plan_id]))
            wrong += comparable(first) != comparable(again)
    return {
        "accepted": len(accepted),
        "lost": len(waiting),
        "duplicate": sum(len(ids) != 1 for ids in ledger.ids.values()) + len(set(rows) - accepted),
        "back_from_cancelled": sum(rows[plan_id]["status"] != "cancelled" for plan_id in ledger.cancelled),
        "failed": statuses.count("failed"),
        "wrong": wrong,
        "refused": len(ledger.refused),
        "statuses": {status: statuses.count(status) for status in sorted(set(statuses))},
        "faults": ledger.faults,
    }


def run(kind: str, options: argparse.Namespace) -> dict[str, Any]:
    """One installation, one storm, one audit."""
    with tempfile.TemporaryDirectory(prefix="planner-chaos-") as folder:
        place = Installation(kind, Path(folder))
        try:
            return storm(place, options)
        finally:
            place.close()


def storm(place: Installation, options: argparse.Namespace) -> dict[str, Any]:
    ledger = Ledger()
    kills = Storm(place, ledger, options)
    begun = time.monotonic()
    with ThreadPoolExecutor(options.clients) as pool:
        sent = [pool.submit(submit, place, ledger, number, options.copies) for number in range(options.plans)]
        while time.monotonic() - begun < options.seconds or not all(task.done() for task in sent):
            kills.step()
            time.sleep(0.1)
        for task in sent:
            task.result()
    quiet = time.monotonic()
    with Shardplan(place.address, place.token, patience_seconds=PATIENCE_SECONDS) as client:
        counts = audit(place, client, ledger, options)
    return counts | {
        "kind": place.kind,
        "seconds_of_storm": round(quiet - begun, 1),
        "seconds_to_final": round(time.monotonic() - quiet, 1),
        "examples": ledger.refused[:3],
    }


def options_of(arguments: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kind", choices=("postgresql", "sqlite"), default="postgresql")
    parser.add_argument("--plans", type=int, default=200)
    parser.add_argument("--copies", type=int, default=2, help="times each key is sent at once")
    parser.add_argument("--clients", type=int, default=8)
    parser.add_argument("--seconds", type=float, default=20, help="the storm lasts so long at least")
    parser.add_argument("--kill-every", type=float, default=3)
    parser.add_argument("--broker", type=int, default=3, help="restarts")
    parser.add_argument("--database", type=int, default=0, help="restarts, on PostgreSQL")
    parser.add_argument("--drain", type=float, default=120)
    parser.add_argument("--sample", type=int, default=20, help="plans that are run again in calm and compared")
    return parser.parse_args(arguments)


def bad(counts: dict[str, Any]) -> int:
    return sum(counts[name] for name in ("lost", "duplicate", "back_from_cancelled", "failed", "wrong", "refused"))


if __name__ == "__main__":
    chosen = options_of()
    found = run(chosen.kind, chosen)
    print(json.dumps(found))
    sys.exit(1 if bad(found) else 0)
