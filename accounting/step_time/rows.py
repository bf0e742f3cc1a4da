"""Terms of a step that do not repeat with the micro-batches, the bubble and the offloading; one function a term."""

from __future__ import annotations

import numpy as np

from accounting.step_time.assembly import Step
from accounting.step_time.clock import Clock
from accounting.step_time.pipeline import stalls
from accounting.step_time.terms import Term
from accounting.step_time.timing import TimeRow
from accounting.step_time.update import (
    activation_offload_bytes,
    activation_offload_seconds,
    offloaded_update_bytes,
    offloaded_update_seconds,
    parameter_offload_bytes,
    parameter_offload_seconds,
    update_seconds,
)
from accounting.units import Floats


def bubble(step: Step) -> Floats:
    """Filling and draining the pipeline: the other stages' micro-batch times · idle share / v. [second, (N, 1)]

    Source: Narayanan 2021 §2.2; `pipeline.pipeline_times`.
    """
    return step.pipeline.bubble


def pipeline_stall(step: Step) -> Floats:
    """Waits of blocking exchanges between stages on clusters of more than 32 nodes. [second, (N, 1)]

    (2·neighbours·(m - 1) + 2·(p - 1))·stall. Source: by fit; `pipeline.stalls`.
    """
    return stalls(step.clock)


def host_micro_batches(step: Step) -> Floats:
    """Data loading, loss read-out and loop around every micro-batch. [second of a step, (N, 1)] Source: by fit."""
    clock = step.clock
    return clock.micro_batches * clock.engine.host_micro_batch_seconds * clock.device.host_factor


def gather_step(step: Step) -> Floats:
    """Gathers of weights outside the blocks' windows: once a step, or the root's own every time. [second, (N, 1)]

    Source: Rajbhandari 2020 §7; Zhao 2023 §3.3; `once.once_a_step`.
    """
    return step.once[0]


def reduce_step(step: Step) -> Floats:
    """Reductions of gradients outside the blocks' windows: what the last backward does not hide. [second, (N, 1)]

    Source: Rajbhandari 2020 §7; `once.once_a_step`.
    """
    return step.once[1]


def tied_embedding(step: Step) -> Floats:
    """All-reduce of a tied embedding's gradients between the first and the last stage, once a step. [second, (N, 1)]

    V·h/tp in the gradients' type. Source: Megatron-LM's embedding group; `vocabulary_parallel.tied_exchange`.
    """
    return step.tied.seconds


def optimizer_update(step: Step) -> Floats:
    """Optimizer on the device: local parameters · bytes by optimizer and precision / W. [second, (N, 1)]

    Source: `update.optimizer_bytes`.
    """
    return update_seconds(step.clock, step.stepped)


def host_step(step: Step) -> Floats:
    """Launching the optimizer, reading the gradient norm, logging, once a step. [second, (N, 1)] Source: by fit."""
    return step.clock.engine.host_step_seconds * step.clock.device.host_factor * np.ones_like(step.clock.tokens)


def offload_optimizer(step: Step) -> Floats:
    """Optimizer on the host: gradients down, CPU Adam over the node's DRAM, weights up. [second, (N, 1)]

    Source: Ren 2021 (ZeRO-Offload) §4; `update.offloaded_update_seconds`.
    """
    return offloaded_update_seconds(step.clock, step.stepped)


def offload_parameters(step: Step) -> Floats:
    """Weights from the host for each pass of each micro-batch, less what computation hides. [second, (N, 1)]

    Source: Rajbhandari 2021 (ZeRO-Infinity); `update.parameter_offload_seconds`.
    """
    clock = step.clock
    waited = parameter_offload_seconds(clock, _gathered(step), 2) - _window(step)
    return clock.micro_batches * np.maximum(waited, 0.0)


def offload_activations(step: Step) -> Floats:
    """Checkpoints to the host and back, less what computation hides. [second, (N, 1)]

    Source: torchtune and ALST activation offloading; `update.activation_offload_seconds`.
    """
    clock = step.clock
    window = np.maximum(_window(step) - parameter_offload_seconds(clock, _gathered(step), 2), 0.0)
    return clock.micro_batches * activation_offload_seconds(clock, step.stage_blocks, window)


STEP_TERMS: tuple[Term, ...] = (
    Term("pipeline.bubble", "pipeline_bubble", bubble),
    Term("pipeline.stall", "exposed_communication", pipeline_stall),
    Term("host.micro_batch", "memory_bound", host_micro_batches),
    Term("shards.gather_step", "exposed_communication", gather_step),
    Term("shards.reduce_step", "exposed_communication", reduce_step),
    Term("pipeline.tied_embedding", "exposed_communication", tied_embedding),
    Term("optimizer.update", "optimizer", optimizer_update),
    Term("optimizer.host", "optimizer", host_step),
    Term("offload.optimizer", "offload", offload_optimizer),
    Term("offload.parameters", "offload", offload_parameters),
    Term("offload.activations", "offload", offload_activations),
)


def step_rows(step: Step) -> list[TimeRow]:
    """The terms above, of one step."""
    return [TimeRow(term.key, term.part, term.seconds(step), term.seconds) for term in STEP_TERMS]


def jitter(clock: Clock, busy: Floats) -> Floats:
    """Waiting for the slowest of many nodes: share·log2(nodes) of the step. [second, (N, 1)] Source: by fit."""
    nodes = np.maximum(clock.scenario.layout.count / clock.scenario.machine.devices_per_node, 1.0)
    return busy * clock.engine.jitter * np.log2(nodes)


def host_bytes(step: Step) -> Floats:
    """Bytes a device moves to and from its host in a step: offloaded optimizer, weights, activations. [byte, (N, 1)]"""
    clock = step.clock
    passes = parameter_offload_bytes(clock, _gathered(step), 2) + activation_offload_bytes(clock, step.stage_blocks)
    return offloaded_update_bytes(clock, step.stepped) + clock.micro_batches * passes


def _gathered(step: Step) -> Floats:
    return step.over_shards(lambda s: s.moves.weights.gathered) + step.root.weights.gathered


def _window(step: Step) -> Floats:
    """What of a micro-batch can hide transfers to and from the host: computation, and waits for other links. [second]

    A window that another link has used already is not used again: what is exposed there is time that the host's link
    has as well, and what both need is waited for once. Weights go before activations, as they share the link.
    """
    return _busy(step) + step.over_shards(lambda s: s.gather + s.reduce)


def _busy(step: Step) -> Floats:
    """What of the blocks' computation can hide a transfer, per micro-batch. [second, (N, 1)]"""
    return step.over_blocks(lambda b: b.forward + b.backward) * step.clock.engine.overlap
