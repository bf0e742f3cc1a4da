"""Seconds of a collective over the node hierarchy: the fast link inside a scale-up domain, a share of the NICs outside.

A group of g ranks a fixed stride apart has k members inside each node. The node's other members run groups of their own
at the same time, so a group gets the NIC share of its k members and no more.
Source: nccl-tests (bus bandwidth); Thakur 2005 (rings); constants in facts/collectives.py.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from accounting.facts.collectives import LINK_ROWS
from accounting.step_time.clock import Clock
from accounting.units import Bytes, Floats

_PCIE_FRACTION = LINK_ROWS[0].fraction


class Collective(StrEnum):
    ALL_GATHER = "all_gather"
    REDUCE_SCATTER = "reduce_scatter"
    ALL_REDUCE = "all_reduce"
    ALL_TO_ALL = "all_to_all"
    POINT_TO_POINT = "point_to_point"


@dataclass(frozen=True, slots=True)
class Group:
    """Ranks that speak to one another, (N, 1) each."""

    size: Floats
    inside: Floats
    """Members within one scale-up domain."""
    beside: Floats
    """Members within one node, or one domain where that is larger."""

    @property
    def islands(self) -> Floats:
        """Nodes (or racks) that the group spans."""
        return np.ceil(self.size / self.beside)


def group_of(clock: Clock, size: Bytes, stride: Bytes | int) -> Group:
    """The group of `size` ranks `stride` apart. Ranks count tensor, context, data (shard, replicate), pipeline."""
    machine = clock.scenario.machine
    domain = np.maximum(machine.scaleup_domain, 1)
    most, step = np.maximum(size, 1), np.maximum(stride, 1)
    inside = np.clip(domain // step, 1, most)
    beside = np.clip(np.maximum(domain, machine.devices_per_node) // step, 1, most)
    return Group(size.astype(np.float64), inside.astype(np.float64), beside.astype(np.float64))


def wire_bytes(collective: Collective, size: Floats, group: Group) -> Floats:
    """Bytes each rank sends for a collective over `size` bytes of the whole tensor. [byte]

    (g - 1)/g · n; twice that for an all-reduce; n for a point-to-point message.
    """
    if collective is Collective.POINT_TO_POINT:
        return np.where(group.size > 1, size, 0.0)
    share = size * (group.size - 1) / group.size
    return 2 * share if collective is Collective.ALL_REDUCE else share


def collective_seconds(clock: Clock, collective: Collective, size: Floats, group: Group) -> Floats:
    """Time of one collective over `size` bytes of the whole tensor. [second, (N, 1)]

    inside a domain: latency + latency'·(k - 1) + ramp·n/(n + n0) + wire/(fraction·link)
    across nodes:    the slower of that and wire/(fraction·NIC share·k), latency·log2(nodes) more; an all-to-all sends
                     only the part that leaves over its own NIC share
    between domains of one node (bridged pairs): over PCIe.
    0 where the group has one member. NaN where a link it needs is unknown.
    """
    link, machine = clock.link, clock.scenario.machine
    gain = {Collective.ALL_REDUCE: link.all_reduce_gain, Collective.ALL_TO_ALL: link.all_to_all_gain}.get(
        collective, 1.0
    )
    wire = wire_bytes(collective, size, group)
    inner = np.where(group.inside > 1, wire / (machine.intra_bandwidth * link.fraction * gain), 0.0)
    across = np.where(group.beside > group.inside, wire / (machine.pcie_bandwidth * _PCIE_FRACTION), 0.0)
    fabric = clock.fabric
    others = np.maximum(machine.devices_per_node / group.beside, 1.0) - 1
    nic = machine.inter_bandwidth / machine.devices_per_node * fabric.fraction / (1 + fabric.crowding * others)
    spans = group.islands > 1
    if collective is Collective.ALL_TO_ALL:
        leaving = (group.size - group.beside) / np.maximum(group.size - 1, 1)
        inner, across = inner * (1 - leaving), across * (1 - leaving)
        moving = np.maximum(inner, across) + np.where(spans, wire * leaving / nic, 0.0)
    else:
        outer = np.where(spans, wire / (nic * group.beside), 0.0)
        moving = np.maximum(np.maximum(inner, across), outer)
    latency = link.latency + link.latency_per_member * (group.beside - 1) + link.ramp * size / (size + link.ramp_bytes)
    slow = fabric.latency * np.log2(group.islands) + fabric.ramp * size / (size + fabric.ramp_bytes)
    latency = latency + np.where(spans, slow, 0.0)
    return np.where((group.size > 1) & (size > 0), moving + latency, 0.0)
