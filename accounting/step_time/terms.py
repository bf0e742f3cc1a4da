"""Terms of one micro-batch in the slowest stage, one function a term: its docstring is what the answer prints."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from accounting.facts.dtypes import find_dtype
from accounting.step_time.assembly import Step
from accounting.step_time.timing import TimeRow
from accounting.units import Floats


class Term(NamedTuple):
    """A named share of the step."""

    key: str
    part: str
    seconds: Callable[[Step], Floats]


def matmul_forward(step: Step) -> Floats:
    """Linear layers, forward: max(2(M+p)(N+p)(K+r)/(P·e), bytes/W) + t0 a product. [second, (N, 1)]

    Source: `matmul.product_seconds`.
    """
    return step.over_blocks(lambda b: b.matmul_forward)


def matmul_backward(step: Step) -> Floats:
    """Linear layers, backward: input and weight gradients, 2 × the forward; 1 × for a frozen weight. [second, (N, 1)]

    Source: Kaplan 2020 §2.1; `matmul.backward_factor`.
    """
    return step.over_blocks(lambda b: b.matmul_backward)


def attention_forward(step: Step) -> Floats:
    """Attention core, forward: scores and weighted sum over half (causal) or all of the context. [second, (N, 1)]

    FLOP/(P·e·s/(s + s0)) fused, two batched products where written out. Source: Dao 2023; `attention`.
    """
    return step.over_blocks(lambda b: b.attention_forward)


def attention_backward(step: Step) -> Floats:
    """Attention core, backward: 2.5 × the forward's FLOP where fused (scores made again), else 2 ×. [second, (N, 1)]

    Source: Dao 2022 (FlashAttention) §3.1; efficiency of the backward kernel by fit.
    """
    return step.over_blocks(lambda b: b.attention_backward)


def recompute(step: Step) -> Floats:
    """Products and attention of the forward that the backward computes again. [second, (N, 1)]

    Shares by recompute mode and module. Source: Korthikanti 2022 §5; `recompute.recomputed`.
    """
    return step.over_blocks(lambda b: b.matmul_recompute + b.attention_recompute)


def head(step: Step) -> Floats:
    """Product with the vocabulary, forward and backward, 16 bits, where the slowest stage has it. [second, (N, 1)]

    6·tokens·h·V/tp FLOP at a product's efficiency. Source: `matmul.head_product`.
    """
    return step.last * step.ends.head


def elementwise_forward(step: Step) -> Floats:
    """Norms, residual sums, activations, rotations, routing, written-out scores, forward: bytes/W. [second, (N, 1)]

    Bytes per token by kernel style. Source: `elementwise.block_bytes`; constants by fit.
    """
    return step.over_blocks(lambda b: b.elementwise_forward)


def elementwise_backward(step: Step) -> Floats:
    """The same work's gradients: the forward's bytes × the kernel style's backward factor, over W. [second, (N, 1)]

    Source: `facts.calibration.KernelRow.backward`.
    """
    return step.over_blocks(lambda b: b.elementwise_backward)


def elementwise_recompute(step: Step) -> Floats:
    """The share of the same work that the backward does again under recomputation. [second, (N, 1)]

    Source: Korthikanti 2022 §5; `recompute.recomputed`.
    """
    return step.over_blocks(lambda b: b.elementwise_recompute)


def embedding(step: Step) -> Floats:
    """Embedding look-up and its gradient, three passes over tokens·h, where the slowest stage has it. [second, (N, 1)]

    Source: `elementwise.embedding_seconds`.
    """
    return step.first * step.ends.embedding


def loss(step: Step) -> Floats:
    """Cross-entropy over tokens·V/tp logits, forward and backward: bytes per logit/W. [second, (N, 1)]

    Less where the loss is fused. Source: `elementwise.loss_seconds`; bytes by fit.
    """
    return step.last * step.ends.loss


def accumulation(step: Step) -> Floats:
    """Adding a micro-batch's gradients to the accumulated ones. [second, (N, 1)]

    bytes·parameters/W where a rank holds them whole; engines that reduce each micro-batch add only to a shard.
    Source: Megatron-LM main_grad; DeepSpeed's accumulation buffers.
    """
    clock, precision = step.clock, step.clock.scenario.recipe.precision
    held = float(find_dtype(precision.gradients or precision.parameters).bytes_per_element)
    elements = step.root.weights.trainable + step.over_shards(lambda s: s.moves.weights.trainable)
    if any(shard.moves.weights.trainable_experts is not None for shard in step.sharded):
        elements = elements + step.over_shards(lambda s: _or_nothing(s.moves.weights.trainable_experts))
    ways = clock.partition.shard_group if step.policy.reduces_every_micro_batch and step.policy.sharded else 1
    return elements * clock.kernel.accumulate * held / 4.0 / ways / clock.memory_rate


def _or_nothing(value: Floats | None) -> Floats:
    return np.zeros((1, 1)) if value is None else value


def host_launch(step: Step) -> Floats:
    """Waiting of the device for kernels the host has not launched yet: max(0, host - device) a block. [second, (N, 1)]

    Forward and backward apart; the host's time by engine and kernel style, more under tensor parallelism.
    Source: constants by fit; it rules small models and small micro-batches.
    """
    return step.over_blocks(lambda b: b.host_stall)


def tensor_parallel_wait(step: Step) -> Floats:
    """Exposed all-reduces, or gathers and scatters, of tokens·h inside tensor-parallel groups. [second, (N, 1)]

    Two pairs a block in the forward, as many in the backward.
    Source: Shoeybi 2019 §3; `model_parallel.tensor_parallel`.
    """
    return step.over_blocks(lambda b: b.tensor_parallel)


def embedding_wait(step: Step) -> Floats:
    """Sum of the ranks' shares of a vocabulary-parallel embedding, where the slowest stage has it. [second, (N, 1)]

    An all-reduce of tokens·h, or a reduce-scatter and the backward's all-gather under sequence parallelism.
    Source: Megatron-Core, torchtitan; `vocabulary_parallel.embedding_exchange`.
    """
    return step.first * step.ends.exchanges[0].seconds


def head_wait(step: Step) -> Floats:
    """Gather of a vocabulary-parallel head's input and sum of its gradient, where the slowest stage has it. [second]

    tokens·h each; what the weight's gradient hides under Megatron is taken off.
    Source: Megatron-Core, torchtitan; `vocabulary_parallel.head_exchange`.
    """
    return step.last * step.ends.exchanges[1].seconds


def loss_wait(step: Step) -> Floats:
    """All-reduces of a vocabulary-parallel loss: largest logit, sum, target's logit, 4 B a token each. [second, (N, 1)]

    Source: Megatron-Core vocab_parallel_cross_entropy, torch loss_parallel; `vocabulary_parallel.loss_exchange`.
    """
    return step.last * step.ends.exchanges[2].seconds


def context_parallel_wait(step: Step) -> Floats:
    """Exposed exchange of keys and values (or all-to-alls) between ranks that share a sequence. [second, (N, 1)]

    Source: Liu 2023; Jacobs 2023; `model_parallel.context_parallel`.
    """
    return step.over_blocks(lambda b: b.context_parallel)


def expert_parallel_wait(step: Step) -> Floats:
    """Exposed dispatch of tokens to their experts' ranks and back. [second, (N, 1)]

    Source: Lepikhin 2020; `model_parallel.expert_parallel`.
    """
    return step.over_blocks(lambda b: b.expert_parallel)


def pipeline_exchange(step: Step) -> Floats:
    """Exchanges between pipeline stages that no computation hides, with their host time. [second, (N, 1)]

    2·v messages of tokens·h a micro-batch. Source: Narayanan 2021 §4.1; `pipeline.exchange`.
    """
    return step.exchange[0]


def shard_gather(step: Step) -> Floats:
    """Gathers of sharded weights in every micro-batch beyond what the blocks hide, and the slow-down. [second, (N, 1)]

    Stage 3, and FSDP's stage 2. Source: Zhao 2023 §3.3; `shards.block_shard`.
    """
    return step.over_shards(lambda s: s.gather)


def shard_reduce(step: Step) -> Floats:
    """Reductions of gradients in every micro-batch beyond what the backward hides. [second, (N, 1)]

    Source: Zhao 2023 §3.3; `shards.block_shard`.
    """
    return step.over_shards(lambda s: s.reduce)


MICRO_BATCH_TERMS: tuple[Term, ...] = (
    Term("matmul.forward", "compute", matmul_forward),
    Term("matmul.backward", "compute", matmul_backward),
    Term("attention.forward", "compute", attention_forward),
    Term("attention.backward", "compute", attention_backward),
    Term("recompute", "compute", recompute),
    Term("head", "compute", head),
    Term("elementwise.forward", "memory_bound", elementwise_forward),
    Term("elementwise.backward", "memory_bound", elementwise_backward),
    Term("elementwise.recompute", "memory_bound", elementwise_recompute),
    Term("embedding", "memory_bound", embedding),
    Term("loss", "memory_bound", loss),
    Term("gradients.accumulate", "memory_bound", accumulation),
    Term("host.launch", "memory_bound", host_launch),
    Term("tensor_parallel", "exposed_communication", tensor_parallel_wait),
    Term("tensor_parallel.embedding", "exposed_communication", embedding_wait),
    Term("tensor_parallel.head", "exposed_communication", head_wait),
    Term("tensor_parallel.loss", "exposed_communication", loss_wait),
    Term("context_parallel", "exposed_communication", context_parallel_wait),
    Term("expert_parallel", "exposed_communication", expert_parallel_wait),
    Term("pipeline.exchange", "exposed_communication", pipeline_exchange),
    Term("shards.gather", "exposed_communication", shard_gather),
    Term("shards.reduce", "exposed_communication", shard_reduce),
)


def micro_batch_rows(step: Step) -> list[TimeRow]:
    """The terms above, times the micro-batches of a step."""
    m = step.clock.micro_batches
    return [TimeRow(term.key, term.part, term.seconds(step) * m, term.seconds) for term in MICRO_BATCH_TERMS]
