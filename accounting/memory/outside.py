"""Bytes off the device: host memory of a node, NVMe, and checkpoints on disk."""

from __future__ import annotations

from functools import partial

import numpy as np

from accounting.facts.dtypes import itemsize
from accounting.facts.frameworks import CHECKPOINT_FILE_BYTES
from accounting.ledger import LOAD, MOMENTS, SAVE, Ledger, Moment
from accounting.memory.context import Context
from accounting.memory.host import nvme_states, offloaded_parameters
from accounting.memory.sharding import FSDP
from accounting.memory.states import master_bytes, optimizer_bytes
from accounting.optimizer_laws import TensorView, state_bytes
from accounting.units import Bytes
from accounting.vocabulary import Engine


def host_bytes_per_node(context: Context, ledger: Ledger) -> Bytes:
    """Host memory that the ranks of one node need for states, scalars and offloaded tensors. [byte, (N, 1)]

    bytes = devices of the node in use · the worst stage's host lines at their worst moment
    """
    return ranks_per_node(context) * host_bytes_per_rank(ledger)


def host_bytes_per_rank(ledger: Ledger) -> Bytes:
    """Host memory of a rank of the worst stage at its worst moment. [byte, (N, 1)]"""
    # Nearly all of it rests there all the time: moments that hold the same arrays are added up once.
    held = {tuple(id(amount) for amount in amounts): amounts for amounts in map(partial(_host_rows, ledger), MOMENTS)}
    most: Bytes = np.maximum.reduce([_worst_stage(_added(ledger, amounts)) for amounts in held.values()])
    return most


def host_load_bytes_per_node(context: Context, ledger: Ledger) -> Bytes:
    """Host memory of a node while the weights are read, before they are cut. [byte, (N, 1)]

    DDP, FSDP, DeepSpeed below stage 3: every process reads a whole copy in the dtype it is loaded in. DeepSpeed stage 3
    builds the model cut (zero.Init) and reads file by file. Megatron, ideal: a rank reads its own part. Offloaded
    weights and states stand beside it. Source: bug reports of ranks · checkpoint; transformers' 5 GB checkpoint files.
    """
    recipe = context.recipe
    whole: Bytes = np.full_like(context.layout.count, whole_weight_bytes(context))
    if recipe.engine is Engine.DEEPSPEED and recipe.zero_stage == 3:  # noqa: PLR2004
        read: Bytes = np.minimum(whole, CHECKPOINT_FILE_BYTES)
    elif recipe.engine in (Engine.MEGATRON, Engine.IDEAL):
        read = _worst_stage(offloaded_parameters(context))
    else:
        read = whole
    return ranks_per_node(context) * (read + _host_at(ledger, LOAD))


def host_save_bytes_per_node(context: Context, ledger: Ledger) -> Bytes:
    """Host memory of rank 0's node while a checkpoint is written. [byte, (N, 1)]

    FSDP, Megatron: every rank stages its own weights and states. DDP, DeepSpeed: written tensor by tensor. FSDP and
    DeepSpeed stage 3 gather the weights on rank 0 in 16 bit as well. What rests on the host anyway stands beside it.
    Source: torch.distributed.checkpoint; DeepSpeed stage3_gather_16bit_weights_on_model_save.
    """
    recipe = context.recipe
    staged = context.zero
    if recipe.engine in (*FSDP, Engine.MEGATRON, Engine.IDEAL):
        staged = offloaded_parameters(context) + optimizer_bytes(context)[0] + master_bytes(context)
    else:
        staged = staged + context.partition.largest_tensor() * itemsize(recipe.precision.stepped)
    gathers = recipe.engine in FSDP or (recipe.engine is Engine.DEEPSPEED and recipe.zero_stage == 3)  # noqa: PLR2004
    gathered = checkpoint_weight_bytes(context) if gathers else 0
    each = _worst_stage(staged) + _host_at(ledger, SAVE)
    return ranks_per_node(context) * each + gathered


def whole_weight_bytes(context: Context) -> int:
    """All weights as one process reads them: trained ones as they are stored, a frozen base in its own dtype. [byte]"""
    recipe = context.recipe
    trained = recipe.inventory.trainable_parameters
    frozen = recipe.inventory.parameters - trained
    # A quantising loader reads the 16-bit checkpoint.
    base = itemsize(context.base_dtype) if context.base_dtype in ("fp32", "bf16", "fp16") else 2
    return trained * itemsize(recipe.precision.parameters) + frozen * base


def _host_at(ledger: Ledger, moment: Moment) -> Bytes:
    """Host lines of the worst stage at one moment. [byte, (N, 1)]"""
    return _worst_stage(_added(ledger, _host_rows(ledger, moment)))


def _host_rows(ledger: Ledger, moment: Moment) -> list[Bytes]:
    return [row.by_moment[moment] for row in ledger.rows if not row.line.device and moment in row.by_moment]


def _added(ledger: Ledger, amounts: list[Bytes]) -> Bytes:
    return sum(amounts, np.zeros(ledger.shape, dtype=np.int64))


def _worst_stage(amount: Bytes) -> Bytes:
    """The largest of a candidate's stages. [(N, 1)]"""
    worst: Bytes = amount.max(axis=1, keepdims=True)
    return worst


def nvme_bytes_per_node(context: Context) -> Bytes:
    """NVMe bytes that the ranks of one node need. [byte, (N, 1)]"""
    return ranks_per_node(context) * _worst_stage(nvme_states(context))


def ranks_per_node(context: Context) -> Bytes:
    """Devices of a node that the run uses, at least one. [(N, 1)]"""
    return np.minimum(np.maximum(context.scenario.machine.devices_per_node, 1), context.layout.count)


def checkpoint_bytes(context: Context) -> tuple[int, int]:
    """(weights only, resumable) bytes on disk for the whole model, sharding aside.

    weights = trained parameters · bytes of the compute dtype; full = parameters, master copy and optimizer states as
    they are held. A frozen base is not saved. Source: DeepSpeed, Megatron checkpoints: 2, 12, 14 bytes a parameter.
    """
    recipe = context.recipe
    trained = recipe.inventory.trainable_parameters
    precision = recipe.precision
    per_parameter = itemsize(precision.parameters)
    if precision.master_weights is not None:
        per_parameter += itemsize(precision.master_weights)
    return checkpoint_weight_bytes(context), trained * per_parameter + whole_state_bytes(context)


def checkpoint_weight_bytes(context: Context) -> int:
    """Trained weights of the whole model on disk, in the compute dtype. [byte]"""
    recipe = context.recipe
    return recipe.inventory.trainable_parameters * itemsize(recipe.precision.activations)


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
