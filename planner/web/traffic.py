"""What a device sends in a step, by collective and by link, what the links cost, and where the network takes over."""

from __future__ import annotations

from dataclasses import dataclass

from planner.web import format as text
from planner.web.words import Json

COLLECTIVES = (
    ("all_gather", "All-gather"),
    ("reduce_scatter", "Reduce-scatter"),
    ("all_reduce", "All-reduce"),
    ("all_to_all", "All-to-all"),
    ("point_to_point", "Point to point"),
)
LINKS = (("intra", "Inside the node"), ("inter", "Between nodes"), ("host", "To the host"))


@dataclass(frozen=True)
class CollectiveRow:
    """Bytes of one kind of collective."""

    name: str
    size: str
    share: str


@dataclass(frozen=True)
class LinkRow:
    """Bytes over one link, the part of the step that waits for it, and what half its speed would cost."""

    name: str
    size: str
    waits: str
    half: str


@dataclass(frozen=True)
class Traffic:
    """The whole table, and the sentence over it."""

    says: str
    collectives: tuple[CollectiveRow, ...]
    links: tuple[LinkRow, ...]
    total: str


def traffic(communication: Json | None) -> Traffic | None:
    """Read the `communication` of an estimate answer; None where nothing is sent or nothing is known."""
    known = communication or {}
    sent, by_link = known.get("bytes_per_step_per_device"), known.get("by_link") or {}
    over = {slug: by_link.get(slug) or {} for slug, _ in LINKS}
    if not any(row.get("bytes_per_step_per_device") for row in over.values()):
        return None
    by_collective = known.get("by_collective") or {}
    return Traffic(
        says=binding(known),
        collectives=tuple(
            CollectiveRow(name, text.memory(by_collective[slug], 2), text.share(by_collective[slug], sent))
            for slug, name in COLLECTIVES
            if by_collective.get(slug)
        ),
        links=tuple(_link(name, over[slug]) for slug, name in LINKS if over[slug].get("bytes_per_step_per_device")),
        total=text.memory(sent, 2),
    )


def _link(name: str, row: Json) -> LinkRow:
    return LinkRow(
        name,
        text.memory(row["bytes_per_step_per_device"], 2),
        text.duration(row.get("exposed_seconds")),
        text.duration(row.get("half_speed_adds_seconds")),
    )


def binding(communication: Json) -> str:
    """Whether the step is bound by the network between nodes, and from which rate of a node on it is not."""
    between = ((communication.get("by_link") or {}).get("inter") or {}).get("bytes_per_step_per_device")
    rate, bound = communication.get("inter_node_gbps"), communication.get("bound_below_gbps")
    if not between:
        return "Nothing crosses nodes: no network binds."
    if bound is None:
        return "The step never waits for the network between nodes more than half its time."
    if rate is None:
        return f"The network's rate is not known; below {gigabits(bound)} a node the step waits for it half its time."
    if rate < bound:
        return (
            f"Bandwidth-bound: at {gigabits(rate)} a node the step waits for the network more than half its time; "
            f"from {gigabits(bound)} on it would not."
        )
    return (
        f"Not bound by the network: a node has {gigabits(rate)}, and only below {gigabits(bound)} would the step wait "
        "for it more than half its time."
    )


def gigabits(rate: float) -> str:
    """A rate between nodes, 10^9 bit a second."""
    return f"{text.significant(rate)}{text.NBSP}Gb/s"
