"""The registry against state bytes measured with the real libraries: per case, and per tensor on the shape lists.

data/measured.csv holds one row per library class, recipe, dtype and case; data/tensors.csv the tensors of each case
(flags: z all zero at the first step, x never gets a gradient, l a linear layer's weight, e an embedding's).
"""

from __future__ import annotations

import csv
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from accounting.facts.optimizers import OPTIMIZERS, Optimizer, find_alias
from accounting.optimizer_laws import ModelFacts, TensorView, constant_bytes, state_bytes

DATA = Path(__file__).parent / "data"
HEADS = ("lm_head",)
ITEMSIZE = {"fp32": 4, "bf16": 2}


@dataclass(frozen=True)
class Case:
    views: tuple[TensorView, ...]
    without_gradient: frozenset[int]


@dataclass(frozen=True)
class Row:
    library: str
    title: str
    recipe: str
    dtype: str
    case: str
    bytes: int
    per_tensor: tuple[int, ...]
    has_rule: bool

    @property
    def key(self) -> str:
        return f"{self.library} {self.title} [{self.recipe}] {self.dtype} {self.case}"


def _role(name: str, flags: str) -> str:
    if "e" in flags:
        return "position" if "position" in name or "wpe" in name else "embedding"
    if any(head in name for head in HEADS):
        return "head"
    return "bias" if name.endswith("bias") else "other"


def _cases() -> dict[str, Case]:
    grouped: dict[str, list[dict[str, str]]] = {}
    with (DATA / "tensors.csv").open(newline="") as file:
        for line in csv.DictReader(file):
            grouped.setdefault(line["case"], []).append(line)
    cases = {}
    for name, lines in grouped.items():
        views = tuple(
            TensorView(
                dims=tuple(np.asarray(int(size), dtype=np.int64) for size in line["shape"].split("x") if size),
                name=line["name"],
                role=_role(line["name"], line["flags"]),
                zero_initialised="z" in line["flags"],
            )
            for line in lines
        )
        facts = ModelFacts(hidden_size=int(lines[0]["hidden_size"]), heads=int(lines[0]["heads"]) or 1)
        skipped = frozenset(index for index, line in enumerate(lines) if "x" in line["flags"])
        cases[name] = Case(tuple(replace(view, model=facts) for view in views), skipped)
    return cases


def _measured() -> list[Row]:
    with (DATA / "measured.csv").open(newline="") as file:
        return [
            Row(
                library=line["library"],
                title=line["optimizer"],
                recipe=line["recipe"],
                dtype=line["dtype"],
                case=line["case"],
                bytes=int(line["state_bytes"]),
                per_tensor=tuple(int(value) for value in line["per_tensor"].split() if not value.startswith("o")),
                has_rule=line["has_rule"] == "yes",
            )
            for line in csv.DictReader(file)
        ]


CASES = _cases()
ROWS = _measured()
NO_RULE = {"Alice", "DASH", "SaRA", "AdamMini"}
"""pytorch_optimizer classes that were measured and follow no rule anyone found: the registry does not list them."""
TRAINER = {
    **{"adamw_torch": "adamw", "adamw_torch_fused": "adamw", "adafactor": "adafactor-hf", "sgd": "sgd"},
    **{"adamw_torch_8bit": "adamw_torch_8bit", "adamw_torch_4bit": "adamw_torch_4bit"},
    **{"adamw_bnb_8bit": "adamw_bnb_8bit", "rmsprop_bnb_8bit": "rmsprop_bnb_8bit", "paged_adamw_32bit": "paged-adamw"},
}
EMBEDDINGS_BY_TRAINER = ("paged_adamw_8bit", "lion_8bit", "ademamix_8bit")
TITLES = {(row.library, row.title): row.name for row in OPTIMIZERS.values()}
RENAMED = {
    ("torch", "Muon"): "muon",
    ("torch", "Muon+AdamW"): "muon",
    ("transformers", "Adafactor"): "adafactor-hf",
    ("bitsandbytes", "AdEMAMix"): "ademamix",
    ("bitsandbytes", "AdamW"): "adamw-8bit",
}
RECIPES: dict[str, dict[str, Any]] = {
    "momentum=0.9": {"momentum": 0.9},
    "momentum=0": {"momentum": 0.0},
    "momentum=0.9, nesterov": {"momentum": 0.9, "nesterov": True},
    "momentum=0.9, foreach": {"momentum": 0.9, "foreach": True},
    "momentum=0.9, fused": {"momentum": 0.9, "fused": True},
    "amsgrad": {"amsgrad": True},
    "amsgrad (state init only)": {"amsgrad": True},
    "foreach=False": {"foreach": False},
    "foreach=True": {"foreach": True},
    "fused=True": {"fused": True},
    "lr=Tensor": {"tensor_lr": True},
    "capturable=True (state init only)": {"capturable": True},
    "centered": {"centered": True},
    "centered, momentum=0.9": {"centered": True, "momentum": 0.9},
    "beta1=0.9": {"beta1": 0.9},
    "min_8bit_size=16384": {"min_8bit_size": 16384},
    "min_8bit_size=0": {"min_8bit_size": 0},
    "optim_bits=8 + nn.Embedding override to 32 bit (HF Trainer)": {"embeddings_32bit": True},
    "block_size=2048": {"block_size": 2048},
    "block_size=256 (HF Trainer adamw_torch_4bit)": {"block_size": 256},
    "block_size=64": {"block_size": 64},
    "bf16_stochastic_round=True": {"bf16_stochastic_round": True},
    "slice_p=1": {"slice_p": 1},
    "slice_p=11": {"slice_p": 11},
    "slice_p=11, betas=(0,0.99)": {"slice_p": 11, "beta1": 0.0},
    "kahan_sum=False": {"kahan_sum": False},
    "kahan_sum=True": {"kahan_sum": True},
    "history_size=100, max_iter=20": {"history_size": 100, "max_iter": 20},
    "history_size=3, max_iter=20": {"history_size": 3, "max_iter": 20},
    "history_size=10, max_iter=4": {"history_size": 10, "max_iter": 4},
    "rank=8": {"rank": 8},
    "rank=32": {"rank": 32},
    "rank=128": {"rank": 128},
    "rank=8, channel, proj=random": {"rank": 8},
    "rank=128, channel, proj=random": {"rank": 128},
    "APOLLO-mini: rank=1, tensor, random": {"rank": 1},
    "rank=8, channel, proj=svd": {"rank": 8, "random_projection": False},
    "max_precondition_dim=200": {"max_precondition_dim": 200},
    "precondition_1d": {"precondition_1d": True},
    "storage_dtype=bfloat16": {"storage": "bfloat16"},
    "ecc=bf16+8": {"storage": "bf16+8"},
    "optim_target_modules=attn,mlp,attention": {"targets": ("attn", "mlp", "attention")},
}
SAYS_NOTHING = {
    *("", "defaults", "decoupled_weight_decay", "2-D params only", "sparse grads, 2-D", "state init only"),
    *("Muon on hidden 2-D, AdamW on embed/head/1-D", "optim_bits=8", "optim_bits=32"),
    "scale_parameter=False, relative_step=False (HF Trainer)",
}
"""Recipes that only describe the default."""


def _resolve(row: Row) -> tuple[Optimizer, dict[str, Any], int]:
    """(registry row, options, parameter groups) of a measured row."""
    options = {} if row.recipe in SAYS_NOTHING else dict(RECIPES[row.recipe])
    if row.title.startswith("Trainer --optim "):
        word = row.title.removeprefix("Trainer --optim ")
        alias = find_alias(TRAINER.get(word, word))
        implied = {"embeddings_32bit": True} if word in EMBEDDINGS_BY_TRAINER else {}
        return OPTIMIZERS[alias.optimizer], {**alias.options, **implied, **options}, 2
    if row.title in {"LBFGS", "AdaShift"}:
        options["steps"] = 2  # the measurement's
    name = RENAMED.get((row.library, row.title)) or TITLES[row.library, row.title]
    return OPTIMIZERS[name], options, 1


def _views(row: Row, optimizer: Optimizer) -> list[TensorView]:
    case = CASES[row.case]
    skipped = frozenset() if optimizer.allocated_at_init else case.without_gradient
    views = [view for index, view in enumerate(case.views) if index not in skipped]
    if row.title in {"Muon", "SparseAdam"} and row.library == "torch":
        # torch's Muon alone takes matrices only, and steps embeddings like any other.
        views = [replace(view, role="other") for view in views if view.rank == 2]
    total = sum(int(view.elements) for view in views)
    return [replace(view, model=replace(view.model, elements=total)) for view in views]


def _predicted(row: Row) -> tuple[int, list[int]]:
    optimizer, options, groups = _resolve(row)
    width = ITEMSIZE[row.dtype]
    each = [int(state_bytes(optimizer, options, view, width).total) for view in _views(row, optimizer)]
    return sum(each) + sum(constant_bytes(optimizer, options, groups)), each


def test_every_measured_row_with_a_rule_is_reproduced_to_the_byte() -> None:
    ruled = [row for row in ROWS if row.title not in NO_RULE]
    assert len(ruled) >= 2129, "the measured table lost rows"
    wrong = {row.key: (row.bytes, _predicted(row)[0]) for row in ruled if _predicted(row)[0] != row.bytes}
    assert not wrong, f"{len(wrong)} of {len(ruled)} rows differ (measured, registry): {dict(list(wrong.items())[:10])}"


WHOLE_OPTIMIZER_IN_ONE_STATE = {"LBFGS", "ASGD", "Magma", "Lamb"}
"""Their libraries hang shared bytes on one tensor, or a tensor's bytes on the optimizer object."""


def test_every_tensor_of_the_shape_lists_is_reproduced_to_the_byte() -> None:
    # bitsandbytes' shared maps were counted with the first tensor that points at them.
    compared, wrong = 0, {}
    for row in ROWS:
        if not row.per_tensor or row.title in NO_RULE | WHOLE_OPTIMIZER_IN_ONE_STATE or row.library == "heavyball":
            continue
        each = _predicted(row)[1]
        compared += len(each)
        differing = [(held, said) for held, said in zip(row.per_tensor, each, strict=True) if held != said]
        maps = (1024, 2048) if row.library in {"bitsandbytes", "galore-torch"} else ()
        if not (differing == [] or (len(differing) == 1 and differing[0][0] - differing[0][1] in maps)):
            wrong[row.key] = differing[:3]
    assert compared > 10_000
    assert not wrong, f"{len(wrong)} rows: {dict(list(wrong.items())[:10])}"


def test_every_row_without_a_rule_is_known_by_name() -> None:
    assert {row.title for row in ROWS if not row.has_rule} <= NO_RULE


@pytest.mark.parametrize("name", sorted(OPTIMIZERS))
def test_every_registry_row_was_measured_or_says_it_was_not(name: str) -> None:
    optimizer = OPTIMIZERS[name]
    measured = {_resolve(row)[0].name for row in ROWS if row.title not in NO_RULE}
    assert (name in measured) == optimizer.measured
