"""Bytes off the device: host memory of a node, NVMe, and checkpoints on disk."""

from __future__ import annotations

import numpy as np

from accounting.facts.dtypes import itemsize
from accounting.ledger import MOMENTS, Ledger
from accounting.memory.context import Context
from accounting.memory.host import nvme_states
from accounting.optimizer_laws import TensorView, state_bytes
from accounting.units import Bytes


def host_bytes_per_node(context: Context, ledger: Ledger) -> Bytes:
    """Host memory that the ranks of one node need for states, scalars and offloaded tensors. [byte, (N, 1)]

    bytes = devices of the node in use · the worst stage's host lines at their worst moment
    """
    return ranks_per_node(context) * host_bytes_per_rank(ledger)


def host_bytes_per_rank(ledger: Ledger) -> Bytes:
    """Host memory of a rank of the worst stage at its worst moment. [byte, (N, 1)]"""
    per_rank = np.zeros(ledger.shape, dtype=np.int64)
    off_device = [row for row in ledger.rows if not row.line.device]
    for moment in MOMENTS:
        here = sum((row.by_moment[moment] for row in off_device if moment in row.by_moment), per_rank * 0)
        per_rank = np.maximum(per_rank, here)
    return per_rank.max(axis=1, keepdims=True)


def nvme_bytes_per_node(context: Context) -> Bytes:
    """NVMe bytes that the ranks of one node need. [byte, (N, 1)]"""
    return ranks_per_node(context) * nvme_states(context).max(axis=1, keepdims=True)


def ranks_per_node(context: Context) -> Bytes:
    return np.minimum(np.maximum(context.scenario.machine.devices_per_node, 1), context.layout.count)


def checkpoint_bytes(context: Context) -> tuple[int, int]:
    """(weights only, resumable) bytes on disk for the whole model, sharding aside.

    weights = trained parameters · bytes of the compute dtype; full = parameters, master copy and optimizer states as
    they are held. A frozen base is not saved. Source: DeepSpeed and Megatron checkpoints: 2, 12 and 14 bytes a parameter.
    """
    recipe = context.recipe
    trained = recipe.inventory.trainable_parameters
    precision = recipe.precision
    weights = trained * itemsize(precision.activations)
    per_parameter = itemsize(precision.parameters)
    if precision.master_weights is not None:
        per_parameter += itemsize(precision.master_weights)
    return weights, trained * per_parameter + whole_state_bytes(context)


def whole_state_bytes(context: Context) -> int:
    """Optimizer state of the whole model, unsharded. [byte]"""
    recipe = context.recipe
    stepped = itemsize(recipe.precision.stepped)
    stated = recipe.precision.optimizer_states
    total = 0
    for tensor, times in recipe.inventory.all_tensors():
        if tensor.trainable:
            size = itemsize(stated) if stated else None
            one = state_bytes(recipe.optimizer, recipe.optimizer_options, TensorView.of(tensor), stepped, size)
            total += int(one.total) * tensor.count * times
    return total
