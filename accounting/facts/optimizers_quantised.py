"""bitsandbytes, torchao and transformers' own Adafactor: optimizers whose state dtype never follows the parameters."""

from __future__ import annotations

from typing import Any

from accounting.facts.optimizers_rows import (
    Constant,
    Optimizer,
    Option,
    Slot,
    Temporary,
    flag,
    moments,
    momentum_option,
    rate,
    size,
)

_NOISE = (
    "Moments are quantised in blocks: quantisation noise enters every update. Tensors below the threshold stay 32-bit, "
    "and the test is on what the optimizer sees: a shard, not a layer."
)
_BNB = "measured with bitsandbytes 0.50.2"
_AO = "measured with torchao 0.18.0 (its step run eagerly)"
_MAPS = Constant(name="quantisation_maps", bytes=2048)
"""Two maps of 256 fp32, shared by all tensors; one-state optimizers hold both too."""
_MIN_8BIT = size("min_8bit_size", 4096, "Tensors with fewer elements keep fp32 states.", minimum=0)
_EMBEDDINGS = flag(
    "embeddings_32bit",
    "Embedding weights keep fp32 states (bitsandbytes' StableEmbedding, transformers.Trainer on every nn.Embedding).",
)
_UNORM = Slot(name="unorm_vec", extent="scalar", storage="fp32")
_QUANTISED_BITS = 8
_IN_PLACE = (Temporary(kind="fused"),)


def _bnb(name: str, title: str, states: int, bits: int, **fields: Any) -> Optimizer:
    extra: tuple[Slot, ...] = fields.pop("extra", ())
    options: tuple[Option, ...] = fields.pop("options", ())
    quantised = bits == _QUANTISED_BITS
    row: dict[str, Any] = {
        "library": "bitsandbytes",
        "library_version": "0.50.2",
        "source": f"{_BNB}: bitsandbytes.optim.{title}",
        "state_rule": "fixed" if quantised else "fp32",
        "temporaries": _IN_PLACE,
        "caveat": _NOISE if quantised else "States are fp32 whatever the parameters' dtype.",
        "constants": (_MAPS,) if quantised else (),
        "options": (*options, _MIN_8BIT, _EMBEDDINGS) if quantised else options,
        **fields,
    }
    slots = (moments(states, "blockwise8" if quantised else "fp32"), *extra)
    return Optimizer(name=name, title=title, slots=slots, **row)


_PAGED = {"paged": True}
_SGD = {"options": (momentum_option(required=True),)}
_BITSANDBYTES = (
    _bnb("adam-8bit", "Adam8bit", 2, 8),
    _bnb("adamw-8bit", "AdamW8bit", 2, 8),
    _bnb("paged-adamw-8bit", "PagedAdamW8bit", 2, 8, **_PAGED),
    _bnb("adamw-bitsandbytes", "AdamW32bit", 2, 32, aliases=("adamw-32bit",)),
    _bnb("paged-adamw", "PagedAdamW32bit", 2, 32, aliases=("paged-adamw-32bit",), **_PAGED),
    _bnb("lion-8bit", "Lion8bit", 1, 8),
    _bnb("lion-bitsandbytes", "Lion32bit", 1, 32, aliases=("lion-32bit",)),
    _bnb("sgd-8bit", "SGD8bit", 1, 8, **_SGD),
    _bnb("sgd-bitsandbytes", "SGD32bit", 1, 32, aliases=("sgd-32bit",), **_SGD),
    _bnb("adagrad-8bit", "Adagrad8bit", 1, 8),
    _bnb("adagrad-bitsandbytes", "Adagrad32bit", 1, 32, aliases=("adagrad-32bit",)),
    _bnb("rmsprop-8bit", "RMSprop8bit", 1, 8),
    _bnb("rmsprop-bitsandbytes", "RMSprop32bit", 1, 32, aliases=("rmsprop-32bit",)),
    _bnb("lamb-8bit", "LAMB8bit", 2, 8, extra=(_UNORM,)),
    _bnb("lamb", "LAMB32bit", 2, 32, extra=(_UNORM,), aliases=("lamb-32bit",)),
    _bnb("lars-8bit", "LARS8bit", 1, 8, extra=(_UNORM,), **_SGD),
    _bnb("lars", "LARS32bit", 1, 32, extra=(_UNORM,), aliases=("lars-32bit",), **_SGD),
    _bnb("ademamix-8bit", "AdEMAMix8bit", 3, 8),
    _bnb("ademamix", "AdEMAMix(optim_bits=32)", 3, 32),
    _bnb(
        "ademamix-32bit",
        "AdEMAMix32bit",
        2,
        32,
        caveat="This class misses its double buffer and allocates two states instead of three; its step fails on a "
        "CPU. Use `ademamix`.",
    ),
)


def _ao(name: str, title: str, storage: str, block: int, **fields: Any) -> Optimizer:
    row: dict[str, Any] = {
        "library": "torchao",
        "library_version": "0.18.0",
        "source": f"{_AO}: torchao.optim.{title}",
        "state_rule": "fixed",
        "temporaries": (Temporary(copies=1.0, itemsize=4),),
        "caveat": f"{_NOISE} torchao also needs the element count to be a multiple of the block; else the state keeps "
        "the parameters' dtype. Every tensor carries its own lookup tables.",
        "options": (
            size("block_size", block, "Elements that share one fp32 scale.", minimum=1),
            flag("amsgrad", "Keeps a third moment; its eager step fails in 0.18.0."),
            flag("bf16_stochastic_round", "Rounds bf16 weights stochastically.", changes_bytes=False),
        ),
        "constants": (Constant(name="lr", bytes=4, per="group", host=True),),
        **fields,
    }
    slots = (
        moments(2, storage),
        moments(1, storage, when="amsgrad"),
        Slot(name="step", extent="scalar", storage="fp32", host=True),
    )
    return Optimizer(name=name, title=title, slots=slots, **row)


_TORCHAO = (
    _ao("adam-8bit-torchao", "Adam8bit", "torchao8", 256),
    _ao("adamw-8bit-torchao", "AdamW8bit", "torchao8", 256),
    _ao("adam-4bit", "Adam4bit", "torchao4", 128, measured=False),
    _ao("adamw-4bit", "AdamW4bit", "torchao4", 128),
    _ao("adam-fp8", "AdamFp8", "torchao_fp8", 256, measured=False),
    _ao("adamw-fp8", "AdamWFp8", "torchao_fp8", 256),
    _ao(
        "adamw-torchao",
        "_AdamW",
        "parameter",
        256,
        state_rule="parameter",
        caveat="Unquantised, for bf16 weights with stochastic rounding.",
    ),
)

_TRANSFORMERS = (
    Optimizer(
        name="adafactor-hf",
        library="transformers",
        library_version="5.24.0",
        title="Adafactor",
        slots=(
            Slot(name="factors", extent="factored", storage="fp32", where="matrix"),
            Slot(name="second_moment", storage="fp32", where="vector"),
            Slot(name="first_moment", storage="fp32", when="?beta1"),
            Slot(name="rms", extent="scalar", storage="fp32"),
        ),
        options=(rate("beta1", 0.0, "Keeps a first moment, full size in fp32; null keeps none.", nullable=True),),
        state_rule="fp32",
        temporaries=(Temporary(copies=2.0, itemsize=4, half_copies=4.0),),
        source="measured with transformers 5.24.0: transformers.optimization.Adafactor",
        caveat="The second moment of a matrix is a rank-1 approximation (row and column means), always fp32; there is "
        "no first moment unless beta1 is set.",
    ),
)
QUANTISED_ROWS = (*_BITSANDBYTES, *_TORCHAO, *_TRANSFORMERS)
