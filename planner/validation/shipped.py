"""Validations that come with the product, as rows: what `manage.py validate --case NAME` runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import product
from typing import Any

Payload = dict[str, Any]

MODEL = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "vocab_size": 128256,
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "max_position_embeddings": 8192,
    "tie_word_embeddings": False,
}
"""Llama-3-8B's config.json."""
SMALL = {
    **MODEL,
    "vocab_size": 8192,
    "hidden_size": 512,
    "intermediate_size": 1408,
    "num_hidden_layers": 4,
    "num_attention_heads": 8,
    "num_key_value_heads": 2,
}
MIDDLE = {
    **MODEL,
    "vocab_size": 32000,
    "hidden_size": 2048,
    "intermediate_size": 5632,
    "num_hidden_layers": 22,
    "num_key_value_heads": 4,
}
"""TinyLlama-1.1B's."""
GPT = {
    "architectures": ["GPT2LMHeadModel"],
    "model_type": "gpt2",
    "n_embd": 1024,
    "n_layer": 24,
    "n_head": 16,
    "vocab_size": 50257,
    "n_positions": 2048,
}
"""GPT-2 medium's, with room for 2,048 positions."""


def request(engine: str, stage: int, world: int, **members: Any) -> dict[str, Any]:
    """An estimate request of data parallelism alone; `members` replace or add."""
    copies = stage == 0
    return {
        "model": {"config": MODEL},
        "hardware": {"accelerator": "h100-sxm5-80gb", "count": world},
        "parallelism": {"dp_replicate": world if copies else 1, "dp_shard": 1 if copies else world},
        "sharding": {"engine": engine, "zero_stage": stage},
        "batch": {"micro_batch_size": 1, "sequence_length": 4096, "global_batch_size": world},
        **members,
    }


QUANTISED = ("adamw-8bit", "adamw-8bit-torchao")
FACTORED = ("adafactor", "adafactor-hf")
PLAIN = ("adamw", "lion", "sgd")
CPU_RUNS: tuple[tuple[str, tuple[int, ...], tuple[int, ...], tuple[str, ...], tuple[str, ...]], ...] = (
    ("ddp", (0,), (1,), (*PLAIN, *QUANTISED, *FACTORED, "muon"), ("fp32", "bf16-pure")),
    ("ddp", (0,), (2,), ("adamw", *QUANTISED, "adafactor"), ("fp32", "bf16-mixed")),
    ("fsdp1", (2, 3), (2, 4), ("adamw", "adamw-8bit", "adafactor-hf"), ("fp32",)),
    ("fsdp1", (3,), (2,), ("adamw", "lion"), ("bf16-mixed", "bf16-pure")),
    ("fsdp2", (2, 3), (2, 4), ("adamw", "adamw-8bit-torchao", "lion"), ("fp32",)),
    ("fsdp2", (3,), (2, 4), ("adamw", "muon"), ("bf16-mixed", "bf16-pure")),
    ("deepspeed", (1, 2, 3), (2,), ("adamw", "adamw-8bit"), ("bf16-master",)),
    ("deepspeed", (2, 3), (4,), ("lion", "adafactor"), ("bf16-master",)),
)
"""Engine, stages, worlds, optimizers, precisions: every product of a row runs. FSDP2 hands DTensors to the optimizer,
which bitsandbytes and both Adafactors of these versions refuse; they stand under the other engines."""


def cpu_matrix() -> Iterator[Payload]:
    """Every combination of the rows above."""
    for engine, stages, worlds, optimizers, precisions in CPU_RUNS:
        for stage, world, optimizer, precision in product(stages, worlds, optimizers, precisions):
            asked = request(engine, stage, world, optimizer=optimizer, precision=precision)
            yield {"kind": "cpu", "request": asked}


FP32_FULL = ("fp32", "full")


def dry_matrix() -> Iterator[Payload]:
    """Phases of a small model: optimizers, precisions, recomputation, stages and worlds, and one rank alone.

    Attention in fp32 with fewer key heads has no fused kernel; recomputed, its scores are temporaries inside a block
    that no line counts yet, so fp32 stands here without recomputation.
    """
    recipes = [(p, r) for p, r in product(("fp32", "bf16-mixed", "bf16-pure"), ("none", "full")) if (p, r) != FP32_FULL]
    rows = product((2, 8), (2, 3), ("adamw", "lion", "sgd"), recipes)
    for number, (world, stage, optimizer, (precision, recompute)) in enumerate(rows):
        if number % 4 == 0:  # 4 shares no factor with recipes and optimizers: all of them meet
            members = {"optimizer": optimizer, "precision": precision, "recompute": recompute}
            yield {"kind": "dry-run", "request": _small(request("fsdp2", stage, world, **members), world)}
    for precision, recompute in recipes:
        members = {"optimizer": "adamw", "precision": precision, "recompute": recompute}
        yield {"kind": "dry-run", "request": _small(request("ddp", 0, 1, **members), 1)}


SPLIT_RUNS = (
    (True, "bf16-mixed", "none"),
    (False, "bf16-mixed", "full"),
    (True, "bf16-pure", "full"),
    (False, "bf16-pure", "none"),
)
"""Sequence parallelism, precision, recomputation: every pair of values meets."""


def split_matrix() -> Iterator[Payload]:
    """Tensor parallelism over FSDP2, with and without sequence parallelism; last, groups in which nothing is cut."""
    for sequence_parallel, precision, recompute in SPLIT_RUNS:
        split = {"dp_shard": 4, "tp": 2, "sequence_parallel": sequence_parallel}
        members = {"optimizer": "adamw", "precision": precision, "recompute": recompute, "parallelism": split}
        yield {"kind": "dry-run", "request": _small(request("fsdp2", 3, 8, **members), 4)}
    for tp in (1, 2):
        alone = {"dp_shard": 1, "tp": tp, "sequence_parallel": tp > 1}
        yield {"kind": "dry-run", "request": _small(request("fsdp2", 3, tp, parallelism=alone), 1)}


def _small(asked: Payload, world: int) -> Payload:
    batch = {"micro_batch_size": 2, "sequence_length": 1024, "global_batch_size": 2 * world}
    return {**asked, "model": {"config": SMALL}, "batch": batch}


def dry_8b() -> Iterator[Payload]:
    """Llama-3-8B whole, on fake groups of 8 and 64 ranks, and the latter with tensor parallelism of 8."""
    for world, tp in ((8, 1), (64, 1), (64, 8)):
        batch = {"micro_batch_size": 1, "sequence_length": 8192, "global_batch_size": world // tp}
        degrees = {"dp_shard": world // tp, "tp": tp, "sequence_parallel": tp > 1}
        members = {"precision": "bf16-mixed", "batch": batch, "parallelism": degrees}
        yield {"kind": "dry-run", "request": request("fsdp2", 3, world, **members)}


GPU_RUNS = tuple(
    (model, optimizer, recompute, sequence, micro)
    for model in ("middle", "gpt")
    for optimizer, recompute, sequence, micro in (
        ("adamw", "none", 512, 4),
        ("adamw", "none", 2048, 1),
        ("adamw", "full", 2048, 4),
        ("adamw-8bit", "none", 2048, 1),
        ("adamw-8bit", "full", 512, 8),
        ("adafactor", "none", 512, 4),
        ("adafactor", "full", 2048, 4),
    )
)
"""Model, optimizer, recomputation, sequence, sequences in a micro-batch."""


def gpu_matrix() -> Iterator[Payload]:
    """Fourteen configurations for one device: two models, three optimizers, both recomputations, short and long."""
    models = {"middle": MIDDLE, "gpt": GPT}
    for model, optimizer, recompute, sequence, micro in GPU_RUNS:
        batch = {"micro_batch_size": micro, "sequence_length": sequence, "global_batch_size": 2 * micro}
        members = {"optimizer": optimizer, "precision": "bf16-pure", "recompute": recompute, "batch": batch}
        yield {"kind": "gpu", "request": request("ddp", 0, 1, model={"config": models[model]}, **members)}


TINY = {"learning_rate": 1e-3}
SHARDED = {"ranks": 2}
CHECKS: tuple[tuple[str, str, str, dict[str, Any]], ...] = (
    ("ddp", "adamw", "fp32", {}),
    ("ddp", "adamw-8bit", "fp32", {}),
    ("ddp", "adafactor-hf", "fp32", {}),
    ("ddp", "lion", "fp32", {}),
    ("ddp", "adamw", "bf16-mixed", {}),
    ("ddp", "adamw", "bf16-pure", {}),
    ("ddp", "sgd", "fp32", TINY),
    ("ddp", "sgd", "bf16-pure", TINY),
    ("ddp", "adamw", "fp32", {"learning_rate": 3.0}),
    ("fsdp2", "adamw", "fp32", SHARDED),
    ("fsdp2", "adamw-8bit-torchao", "fp32", SHARDED),
    ("fsdp2", "adamw", "bf16-mixed", SHARDED),
    ("fsdp1", "adamw-8bit", "fp32", SHARDED),
    ("ddp", "adafactor-hf", "fp32", SHARDED),
)
"""Engine, optimizer, precision, options: itself, compressed, factored, sign, with and without a master copy, updates
that vanish beside the same in fp32, unstable; then under sharding on two ranks."""


def convergence_matrix() -> Iterator[Payload]:
    """Every check above."""
    for engine, optimizer, precision, options in CHECKS:
        asked = request(engine, 0 if engine == "ddp" else 3, options.get("ranks", 1))
        asked |= {"optimizer": optimizer, "precision": precision}
        yield {"kind": "convergence", "request": asked} | ({"options": options} if options else {})


def shapes_8b() -> Iterator[Payload]:
    yield {"kind": "shapes", "request": request("fsdp2", 3, 8)}


CASES: Mapping[str, tuple[str, Any]] = {
    "shapes": ("counts and shapes of Llama-3-8B's class", shapes_8b),
    "cpu-matrix": ("state bytes of optimizers under sharding engines on 1 to 4 CPU processes", cpu_matrix),
    "dry-matrix": ("phases of a small model under the memory tracker", dry_matrix),
    "dry-split": ("phases of a small model under tensor parallelism", split_matrix),
    "dry-8b": ("Llama-3-8B on fake groups of 8 and 64 ranks", dry_8b),
    "gpu-matrix": ("fourteen configurations on one device, in about ten minutes", gpu_matrix),
    "convergence": ("optimizers and precisions beside fp32 AdamW", convergence_matrix),
}
LEFT_OUT = {"dry-matrix": 2, "dry-split": 3}
"""Of so many rows of a case, the last is left out of CI; a case that is not here runs whole."""
FOUR_RANKS = 4
"""Of the CPU rows on four ranks, which cost as much as four others, CI runs every fourth."""


def ci_share(name: str) -> list[Payload]:
    """The rows of a case that CI runs; the command runs all."""
    every = LEFT_OUT.get(name)
    rows = list(CASES[name][1]())
    if name == "cpu-matrix":
        wide = [row for row in rows if row["request"]["hardware"]["count"] == FOUR_RANKS]
        return [row for row in rows if row not in wide] + wide[FOUR_RANKS - 1 :: FOUR_RANKS]
    return [row for number, row in enumerate(rows, start=1) if every is None or number % every]
