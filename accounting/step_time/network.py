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
from accounting.step_time.traffic import Traffic
from accounting.units import Bytes, Floats

_PCIE_FRACTION = LINK_ROWS[0].fraction


class Collective(StrEnum):
    ALL_GATHER = "all_gather"
    REDUCE_SCATTER = "reduce_scatter"
    ALL_REDUCE = "all_reduce"
    ALL_TO_ALL = "all_to_all"
    POINT_TO_POINT = "point_to_point"


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Ranks that speak to one another and what a byte between them costs, (N, 1) each."""

    alone: bool
    """No candidate has more than one member."""
    size: Floats
    share: Floats
    """(g - 1)/g"""
    islands: Floats
    """Nodes (or racks) the group spans."""
    leaving: Floats
    """Share of a rank's all-to-all that leaves its node."""
    latency: Floats
    """[second]"""
    ramp: Floats
    """Of the fast link. [second]"""
    ramp_bytes: Floats
    fabric_ramp: Floats
    """0 inside a node. [second]"""
    inner: Floats
    """Inside a node, gathers and scatters. [second/byte]"""
    inner_reduce: Floats
    """Inside a node, all-reduce. [second/byte]"""
    outer: Floats
    """A ring over the nodes. [second/byte]"""
    nic: Floats
    """A rank's own NIC share. [second/byte]"""


def group_of(clock: Clock, size: Bytes, stride: Bytes | int) -> Group:
    """The group of `size` ranks `stride` apart. Ranks count tensor, context, data (shard, replicate), pipeline.

    inside a domain: 1/(fraction·link); between domains of one node (bridged pairs): over PCIe;
    across nodes: 1/(fraction·NIC share·members in the node/(1 + crowding·other groups of the node)).
    0 where a link is not used; NaN where one that is used is unknown.
    """
    machine, link, fabric = clock.scenario.machine, clock.link, clock.fabric
    if not (size > 1).any():
        return nobody(clock)
    members = size.astype(np.float64)
    domain = machine.scaleup_domain.astype(np.float64)
    inside = np.clip(np.floor(domain / stride), 1, members)
    beside = np.clip(np.floor(np.maximum(domain, machine.devices_per_node) / stride), 1, members)
    islands = np.ceil(members / beside)
    spans = islands > 1
    across = np.where(beside > inside, 1 / (machine.pcie_bandwidth * _PCIE_FRACTION), 0.0)
    fast = np.where(inside > 1, 1 / (machine.intra_bandwidth * link.fraction * clock.device.link_factor), 0.0)
    nic = machine.devices_per_node / (machine.inter_bandwidth * fabric.fraction)
    crowd = 1 + fabric.crowding * (np.maximum(machine.devices_per_node / beside, 1.0) - 1)
    latency = link.latency + link.latency_per_member * (beside - 1)
    return Group(
        alone=False,
        size=members,
        share=(members - 1) / members,
        islands=islands,
        leaving=(members - beside) / np.maximum(members - 1, 1),
        latency=np.where(members > 1, latency + np.where(spans, fabric.latency * np.log2(islands), 0.0), 0.0),
        ramp=np.where(members > 1, link.ramp, 0.0),
        ramp_bytes=link.ramp_bytes,
        fabric_ramp=np.where(spans, fabric.ramp, 0.0),
        inner=np.maximum(fast, across),
        inner_reduce=np.maximum(fast / link.all_reduce_gain, across),
        outer=np.where(spans, nic * crowd / beside, 0.0),
        nic=np.where(spans, nic * crowd, 0.0),
    )


def nobody(clock: Clock) -> Group:
    """Groups of one rank: nothing is sent."""
    nothing = np.zeros_like(clock.tokens)
    one = np.ones_like(clock.tokens)
    return Group(
        alone=True,
        size=one,
        share=nothing,
        islands=one,
        leaving=nothing,
        latency=nothing,
        ramp=nothing,
        ramp_bytes=nothing,
        fabric_ramp=nothing,
        inner=nothing,
        inner_reduce=nothing,
        outer=nothing,
        nic=nothing,
    )


def wire_bytes(collective: Collective, size: Floats, group: Group) -> Floats:
    """Bytes each rank sends for a collective over `size` bytes of the whole tensor. [byte]

    (g - 1)/g · n; twice that for an all-reduce; n for a point-to-point message.
    """
    if collective is Collective.POINT_TO_POINT:
        return np.where(group.size > 1, size, 0.0)
    share = size * group.share
    return 2 * share if collective is Collective.ALL_REDUCE else share


def traffic_of(collective: Collective, size: Floats, group: Group) -> Traffic:
    """What a rank sends for one collective, and how much of it leaves its node. [byte]

    Of a ring's hops one in as many as the group has members in a node leaves it; of an all-to-all, what goes elsewhere.
    """
    if group.alone:
        return Traffic()
    wire = wire_bytes(collective, size, group)
    if collective is Collective.ALL_TO_ALL:
        leaving = group.leaving
    elif collective is Collective.POINT_TO_POINT:
        leaving = np.where(group.islands > 1, 1.0, 0.0)
    else:
        leaving = np.where(group.islands > 1, np.ceil(group.islands) / group.size, 0.0)
    return Traffic(**{collective.value: wire, "across": wire * leaving})


def collective_seconds(clock: Clock, collective: Collective, size: Floats, group: Group) -> Floats:
    """Time of one collective over `size` bytes of the whole tensor. [second, (N, 1)]

    latency + ramp·n/(n + n0) + wire bytes at the slowest link used; an all-to-all sends what leaves the node over its
    own NIC share and the rest inside, one after the other. 0 where the group has one member or nothing is sent.
    """
    if group.alone:
        return np.zeros_like(size)
    wire = wire_bytes(collective, size, group)
    if collective is Collective.ALL_TO_ALL:
        inside = (1 - group.leaving) * group.inner / clock.link.all_to_all_gain
        moving = wire * (inside + group.leaving * group.nic)
    else:
        inner = group.inner_reduce if collective is Collective.ALL_REDUCE else group.inner
        moving = wire * np.maximum(inner, group.outer)
    ramp = group.ramp * size / (size + group.ramp_bytes) + group.fabric_ramp * size / (size + clock.fabric.ramp_bytes)
    return np.where(size > 0, moving + group.latency + ramp, 0.0)
