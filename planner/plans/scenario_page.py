"""docs/scenarios.md: the ten worked plans with their numbers."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from accounting.facts.calibration import CALIBRATION
from accounting.units import GIB
from planner.plans.scenario_rows import SCENARIOS
from planner.plans.scenarios import Scenario, answer_of, identity, shipped_context

PAGE = Path(__file__).resolve().parents[2] / "docs" / "scenarios.md"
HEAD = """# Ten plans, worked through

Written by `python3 manage.py write_scenarios` from the shipped catalog and calibration {calibration}: prices move, and
these numbers with them. `tests/planner/plans/test_scenarios.py` looks whether the winners are still these.
"""
BEST = "**Best:** "


def page() -> str:
    """The whole page. Searches every scenario: a minute."""
    context = shipped_context()
    parts = [section(scenario, answer_of(scenario, context)) for scenario in SCENARIOS]
    return HEAD.format(calibration=CALIBRATION.version) + "".join(parts)


def section(scenario: Scenario, answer: Mapping[str, Any]) -> str:
    """One scenario: request, winner, its numbers, what else there is, and what to make of it."""
    best = answer["recommendation"]
    lines = [f"\n## {scenario.title}\n", "```json", json.dumps(scenario.request), "```\n", f"{BEST}{identity(best)}\n"]
    if best is not None:
        lines += [_numbers(best), ""]
    lines += [f"- {text}" for text in answer["why"]]
    lines += [f"- {row['text']}" for row in answer["why_not"]]
    if best is None:
        lines += [f"- Closest: {row['text']}" for row in answer["nearest_misses"][:1]]
        lines += [f"- Would work: {_way(row)}" for row in answer["what_if"]]
    lines += _others(answer)
    lines += [f"\n*Check.* {scenario.checks}\n", f"*Why it is right.* {scenario.right}"]
    return "\n".join(lines) + "\n"


def _numbers(best: Mapping[str, Any]) -> str:
    time, offer = best["time"], best["offer"] or {}
    price = f" at {offer.get('provider')}'s {offer.get('pricing')} price" if offer else ""
    return (
        f"{best['hours']:,.1f} h (likely {best['hours_band'][0]:,.1f} to {best['hours_band'][1]:,.1f}), "
        f"${best['usd']:,.0f}{price}; {time['tokens_per_second_per_device']:,.0f} tokens/s a device, MFU "
        f"{time['mfu']:.0%}; {best['device_bytes'] / GIB:.1f} GiB a device, "
        f"{best['headroom_bytes'] / GIB:.1f} GiB free."
    )


def _others(answer: Mapping[str, Any]) -> list[str]:
    """The next options of another layout or device, in a table."""
    rows = answer["options"][1:4]
    if not rows:
        return []
    table = ["\n| next options | hours | dollars |", "| --- | ---: | ---: |"]
    return table + [f"| {identity(row)} | {row['hours']:,.1f} | {row['usd']:,.0f} |" for row in rows]


def _way(row: Mapping[str, Any]) -> str:
    usd = "no price" if row["usd"] is None else f"${row['usd']:,.0f}"
    hours = "" if row["hours"] is None else f", {row['hours']:,.1f} h"
    return f"{row['change']} ({usd}{hours})."


def winners(text: str) -> dict[str, str]:
    """Title → identity of the winner, as a page says them."""
    found: dict[str, str] = {}
    title = ""
    for line in text.splitlines():
        if line.startswith("## "):
            title = line.removeprefix("## ")
        elif line.startswith(BEST):
            found[title] = line.removeprefix(BEST)
    return found
