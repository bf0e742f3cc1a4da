"""Which optimizers stop under which engine, in the library's own words.

Every row of the registry stepped twice on real shards of a small Llama (torch 2.13.0 and the libraries' versions of the
registry). FSDP2 hands out DTensors: arithmetic that mixes them with plain tensors, kernels without a sharding rule and
in-place work on partial sums stop there. FSDP1 and DeepSpeed hand out flat slices: what needs a matrix finds none.
An estimate still counts the bytes and warns; a plan never recommends what stops.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from accounting.vocabulary import Engine


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """One way of stopping, and who stops so."""

    engine: Engine
    words: str
    """Part of the message."""
    because: str
    optimizers: tuple[str, ...]


REFUSALS: tuple[Refusal, ...] = (
    Refusal(
        engine=Engine.FSDP2,
        words="got mixed torch.Tensor and DTensor",
        because="its arithmetic mixes sharded tensors with plain ones",
        optimizers=(
            "adam-8bit",
            "adamw-8bit",
            "paged-adamw-8bit",
            "lion-8bit",
            "sgd-8bit",
            "adagrad-8bit",
            "rmsprop-8bit",
            "lamb-8bit",
            "lars-8bit",
            "ademamix-8bit",
            "ademamix",
            "adafactor-hf",
            "came",
            "galore-adafactor",
            "apollo-adamw",
            "soap",
            "shampoo",
            "kron",
            "a2grad-pytorch-optimizer",
            "adanorm-pytorch-optimizer",
            "racs-pytorch-optimizer",
            "sm3-pytorch-optimizer",
            "spam-pytorch-optimizer",
            "splus-pytorch-optimizer",
        ),
    ),
    Refusal(
        engine=Engine.FSDP2,
        words="does not have a sharding strategy registered",
        because="it calls a kernel that has no rule for sharded tensors",
        optimizers=(
            "adamw-bitsandbytes",
            "paged-adamw",
            "lion-bitsandbytes",
            "sgd-bitsandbytes",
            "adagrad-bitsandbytes",
            "rmsprop-bitsandbytes",
            "lamb",
            "lars",
            "ademamix-32bit",
            "adan-pytorch-optimizer",
            "adasmooth-pytorch-optimizer",
            "adopt-pytorch-optimizer",
            "diffgrad-pytorch-optimizer",
            "ftrl-pytorch-optimizer",
            "lars-pytorch-optimizer",
            "madgrad-pytorch-optimizer",
            "mars-pytorch-optimizer",
            "novograd-pytorch-optimizer",
            "srmm-pytorch-optimizer",
        ),
    ),
    Refusal(
        engine=Engine.FSDP2,
        words="in-place operations that require placement changes are not supported",
        because="it works in place on a norm or a mean that is not yet summed over the ranks",
        optimizers=(
            "rprop",
            "adafactor",
            "adafactor-pytorch-optimizer",
            "adagc-pytorch-optimizer",
            "adago-pytorch-optimizer",
            "adalite-pytorch-optimizer",
            "adamp-pytorch-optimizer",
            "aida-pytorch-optimizer",
            "apollodqn-pytorch-optimizer",
            "came-pytorch-optimizer",
            "dadaptsgd-pytorch-optimizer",
            "emofact-pytorch-optimizer",
            "fadam-pytorch-optimizer",
            "lamb-pytorch-optimizer",
            "normuon-pytorch-optimizer",
            "ranger21-pytorch-optimizer",
            "rose-pytorch-optimizer",
            "sgdp-pytorch-optimizer",
            "stableadamw-pytorch-optimizer",
        ),
    ),
    Refusal(
        engine=Engine.FSDP2,
        words="AssertionError",
        because="it adds a sharded tensor into a plain one in place",
        optimizers=(
            "shampoo-scalable",
            "asgd-pytorch-optimizer",
            "dadaptadagrad-pytorch-optimizer",
            "dadaptadam-pytorch-optimizer",
            "dadaptadan-pytorch-optimizer",
            "dadaptlion-pytorch-optimizer",
            "magma-pytorch-optimizer",
            "prodigy-pytorch-optimizer",
            "stablespam-pytorch-optimizer",
            "swats-pytorch-optimizer",
        ),
    ),
    Refusal(
        engine=Engine.FSDP1,
        words="empty parameter list",
        because="flat slices leave it no matrix",
        optimizers=("muon",),
    ),
    Refusal(
        engine=Engine.FSDP1,
        words="too many indices for tensor of dimension 1",
        because="it counts the rows of flat slices",
        optimizers=("adam-mini",),
    ),
    Refusal(
        engine=Engine.FSDP1,
        words="can't allocate memory",
        because="it takes a flat slice for a vector, and its square matrix for that is terabytes",
        optimizers=("shampoo",),
    ),
    Refusal(
        engine=Engine.FSDP2,
        words="attempting to assign a gradient of size",
        because="it puts a projected gradient in place of the sharded one",
        optimizers=("galore-adamw-8bit",),
    ),
    Refusal(
        engine=Engine.DEEPSPEED,
        words="gradient must be a 2D matrix",
        because="flat partitions leave it no matrix",
        optimizers=("muon",),
    ),
)
_BY_ENGINE: Mapping[tuple[Engine, str], Refusal] = MappingProxyType(
    {(row.engine, name): row for row in REFUSALS for name in row.optimizers}
)
_EIGHT_BIT = ("adamw-8bit", "adamw-8bit-torchao")


def refusal_of(engine: Engine, optimizer: str) -> Refusal | None:
    """How a registry row stops under an engine; None where it runs, or nobody has tried."""
    return _BY_ENGINE.get((engine, optimizer))


def refusals_of(optimizer: str) -> tuple[Refusal, ...]:
    """All engines a registry row stops under."""
    return tuple(row for row in REFUSALS if optimizer in row.optimizers)


def eight_bit_adamw(engine: Engine) -> str:
    """The row of 8-bit AdamW that an engine can step."""
    return next(name for name in _EIGHT_BIT if refusal_of(engine, name) is None)
