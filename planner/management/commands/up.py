"""`manage.py up`: the whole service on this machine, and its main job as the proof that it works."""

import signal
import sys
import time
from argparse import ArgumentParser
from types import FrameType
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from planner.embedded.accounts import Access, ensure_accounts
from planner.embedded.processes import ServerError
from planner.embedded.ready import ensure_ready
from planner.embedded.rest import RestClient, RestError
from planner.embedded.supervisor import HOST, InstanceLock, Supervisor, choose_port
from planner.requests import context_for
from planner.teams.services import team_embedded
from planner.text import render_estimate, render_plan

START_SECONDS = 60.0
PLAN_SECONDS = 600.0
PLAN_POLL_SECONDS = 0.5
INTERRUPTED = 130
FINAL = frozenset({"succeeded", "infeasible", "failed", "cancelled"})

MAIN_JOB: dict[str, Any] = {
    "model": "llama-3-8b",
    "workload": {"tokens": 15_000_000_000, "sequence_length": 8192, "global_batch_tokens": 1_048_576},
    "hardware": {"accelerators": [], "pricing": ["on-demand"], "max_count": 64},
}


def _interrupt(number: int, frame: FrameType | None) -> None:
    """SIGTERM takes the same way out as Ctrl-C."""
    raise KeyboardInterrupt


class Command(BaseCommand):
    """Starts everything, runs the main job through the REST API, then serves until told to stop."""

    help = "Start database, broker, worker and dashboard on this machine and plan the main job."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--exit", action="store_true", help="stop after the main job")
        parser.add_argument("--port", type=int, help="of the dashboard and API (default: the first free from 8000 on)")

    def handle(self, *args: Any, **options: Any) -> None:
        if not settings.EMBEDDED:
            raise CommandError(
                "`up` runs the embedded instance, but DATABASE_URL is set. Unset it, or start the services of "
                "docker-compose.yml."
            )
        signal.signal(signal.SIGTERM, _interrupt)
        self.planned = False
        begun = time.monotonic()
        lock: InstanceLock | None = None
        supervisor: Supervisor | None = None
        try:
            lock = InstanceLock(settings.VAR_DIR)
            supervisor = Supervisor(settings.VAR_DIR, choose_port(options["port"]))
            self.run(supervisor, lock, begun, stay=not options["exit"])
        except (ServerError, RestError) as error:
            raise CommandError(str(error)) from error
        except KeyboardInterrupt:
            self.say("\nStopping ...")
            if not self.planned:
                sys.exit(INTERRUPTED)
        finally:
            # A second Ctrl-C must not leave half of the children behind.
            signal.signal(signal.SIGINT, signal.SIG_IGN)
            if supervisor:
                supervisor.stop()
            if lock:
                lock.release()

    def run(self, supervisor: Supervisor, lock: InstanceLock, begun: float, *, stay: bool) -> None:
        """The whole course of one start."""
        address = f"http://{HOST}:{supervisor.port}"
        lock.announce(address)
        supervisor.start_broker()
        if ensure_ready():
            self.say("database: migrated, catalog loaded")
        access = ensure_accounts(settings.VAR_DIR)
        supervisor.start_services()
        self.show_access(access)
        client = RestClient(address, access.api_key)
        supervisor.wait_until(lambda: client.answers("/readyz"), "The web server's readiness", START_SECONDS)
        self.say(f"serving at {address} after {time.monotonic() - begun:.1f} s")
        answer = self.plan(supervisor, client)
        if answer["status"] not in {"succeeded", "infeasible"}:
            raise ServerError(f"The main job ended as {answer['status']}: {answer.get('error')}")
        self.show(client, answer)
        self.say(f"\ndone after {time.monotonic() - begun:.1f} s. Dashboard: {address}/plans/{answer['id']}/")
        self.planned = True
        if stay:
            self.say("Ctrl-C stops everything.")
            supervisor.wait_until(lambda: False, "The end", float("inf"))

    def plan(self, supervisor: Supervisor, client: RestClient) -> dict[str, Any]:
        """Submit the main job and follow it to its end."""
        self.say("planning Llama-3-8B, 15e9 tokens, at most 64 devices, every priced accelerator ...")
        answer: dict[str, Any] = client.post("/api/v1/plans/", MAIN_JOB)
        path = f"/api/v1/plans/{answer['id']}/"
        shown = ""

        def finished() -> bool:
            nonlocal answer, shown
            answer = client.get(path)
            # In steps of ten: a log or a pipe keeps every line.
            state = f"  {answer['status']} {100 * answer['progress'] // 10 * 10:.0f} %"
            if state != shown:
                self.say(state)
                shown = state
            return answer["status"] in FINAL

        supervisor.wait_until(finished, "The end of the main job", PLAN_SECONDS, every=PLAN_POLL_SECONDS)
        return answer

    def show(self, client: RestClient, answer: dict[str, Any]) -> None:
        """The plan as `manage.py plan` prints it, then the memory of what it recommends."""
        devices = context_for(team_embedded()).catalog.accelerators
        names = {slug: device.name for slug, device in devices.items()}
        self.say("\n" + render_plan(answer, MAIN_JOB, names))
        if best := answer["recommendation"]:
            estimate = client.post("/api/v1/estimates/", best["estimate"])
            self.say("\nThe recommendation in detail:\n" + render_estimate(estimate, best["estimate"], names))

    def show_access(self, access: Access) -> None:
        """Print what cannot be printed again."""
        if access.new_password:
            self.say(f"dashboard login: admin, password {access.new_password} (shown once)")
        if access.key_is_new:
            self.say(f"API token of team home: {access.api_key} (shown once; kept in {settings.VAR_DIR / 'api-key'})")

    def say(self, text: str) -> None:
        """One line at once, also into a pipe."""
        self.stdout.write(text)
        sys.stdout.flush()
