"""Tensors that autograd keeps from one block's forward to its backward: one row a tensor, bytes per token.

Symbols: h hidden, n heads, d head dim, q = n·d, g = kv heads·d, f ffn, e compute bytes, r residual bytes, s sequence,
E experts, k experts per token. Source: measured with saved-tensor hooks on real model code (activations §2, §8);
Korthikanti 2022 eq. 1-4 for the classic block; Megatron-Core for the fused one.
"""

from __future__ import annotations

from dataclasses import replace

from accounting.facts.families import HABITS
from accounting.memory.saved_attention import attention_rows
from accounting.memory.saved_rows import Block, Saved, Split, norm_rows

GEMMA_FAMILIES = frozenset(family for family, habits in HABITS.items() if habits.norm_weight_from_one)


def mlp_rows(block: Block, width: int, module: str = "mlp") -> list[Saved]:
    """A dense MLP of `width`: its input, and what the activation keeps."""
    architecture, numerics = block.architecture, block.numerics
    copies = 2 if numerics.autocast and architecture.gated_mlp and not block.habits.joint_gate else 1
    read = copies * numerics.compute * architecture.hidden_size
    rows = [Saved("mlp_input", "input of the MLP", read, Split.GATHERED)]
    return [*rows, Saved(module, "MLP activations", activation_bytes(block) * width, Split.TENSOR)]


def activation_bytes(block: Block) -> int:
    """Bytes per MLP unit and token."""
    architecture, numerics = block.architecture, block.numerics
    e = numerics.compute
    written_out = architecture.activation == "gelu_new" and not numerics.fused_activation
    if architecture.gated_mlp:
        if written_out:
            # Three of its five tensors and what it answers are fp32 under autocast.
            return 22 if numerics.autocast else 7 * e
        return (3 if numerics.fused else 4) * e
    if written_out:
        return 16 if numerics.autocast else 5 * e
    upcast = e if block.habits.activation_upcast and numerics.autocast else 0
    return (e if architecture.activation == "relu" else 2 * e) + upcast


def mixture_rows(block: Block) -> list[Saved]:
    """Router, dispatch and experts; `routed` rows count tokens times experts per token."""
    architecture, numerics, router = block.architecture, block.numerics, block.habits.router
    moe = architecture.moe
    assert moe is not None
    column, h = block.column, architecture.hidden_size
    # Grouped matrix products are not autocast: experts run in the parameters' dtype.
    w = numerics.residual
    pieces = 3 if numerics.fused else block.habits.mlp_pieces
    copies = 2 if numerics.autocast and moe.shared_ffn_size else 1
    rows = [
        Saved("mlp_input", "input of the mixture", copies * numerics.compute * h, Split.GATHERED),
        # Where each expert's tokens end is an int32.
        Saved(
            "router",
            "router",
            router.input_copy[column] * h + router_bytes(block),
            Split.SEQUENCE,
            fixed=4 * moe.experts,
        ),
        Saved("moe", "dispatched and returned tokens", 2 * w * h, Split.WHOLE, routed=True),
        Saved("moe", "expert activations", pieces * w * moe.expert_ffn_size, Split.EXPERT, routed=True),
    ]
    if moe.shared_ffn_size:
        width = activation_bytes(block) * moe.shared_ffn_size
        rows.append(Saved("shared_experts", "shared expert", width, Split.TENSOR))
    return rows


def router_bytes(block: Block) -> int:
    """Bytes per token of choosing the experts, the router's own input aside."""
    moe, router, column = block.architecture.moe, block.habits.router, block.column
    assert moe is not None
    return router.per_expert[column] * moe.experts + router.per_choice[column] * moe.top_k + router.constant


def block_rows(block: Block) -> list[Saved]:
    """Every tensor one block saves for its backward."""
    architecture, numerics = block.architecture, block.numerics
    h = architecture.hidden_size
    attention = attention_rows(block)
    if architecture.encoder is not None and not block.kind.encoder:
        # Keys and values read the encoder's output, which all blocks share; autocast makes two copies of it.
        attention += [norm_rows(block, h, "layernorm", "cross norm"), *attention_rows(block, cross=True)]
    mlp = mixture_rows(block) if block.kind.mixture else mlp_rows(block, architecture.ffn_size)
    if architecture.parallel_block and architecture.norms_per_layer == 1:
        mlp = [row for row in mlp if row.module != "mlp_input" or numerics.autocast]
    return norm_list(block) + attention + mlp + dropout_rows(block)


def dropout_rows(block: Block) -> list[Saved]:
    """Masks of the residual stream and of the MLP, a byte an element; the scores' stand with the attention."""
    architecture, habits = block.architecture, block.habits
    if block.dropout <= 0:
        return []
    cross = int(architecture.encoder is not None and not block.kind.encoder)
    count = (habits.residual_dropouts + cross) if habits.residual_dropouts else 0
    rows = [Saved("dropout", "residual dropout masks", count * architecture.hidden_size, Split.SEQUENCE)]
    if habits.mlp_dropout:
        plain = not architecture.gated_mlp and not block.numerics.autocast
        per_unit = 1 + (block.numerics.compute if plain else 0)
        rows.append(Saved("dropout", "MLP dropout", per_unit * architecture.ffn_size, Split.TENSOR))
    return rows


def norm_list(block: Block) -> list[Saved]:
    """The norms of the residual stream; two in parallel read one input."""
    architecture = block.architecture
    rows = [
        norm_rows(block, architecture.hidden_size, "layernorm", f"norm {index + 1}")
        for index in range(architecture.norms_per_layer)
    ]
    if architecture.parallel_block and architecture.norm == "layernorm":
        rows[1:] = [replace(row, per_token=8) for row in rows[1:]]
    return rows
