"""pytorch_optimizer 4.1.0 with default options: most of its rows differ in two or three numbers, so they are a table.

Rules of the uniform rows were fitted on a list of odd shapes and then confirmed on a real GPT-2; those of the shaped
rows were read off per-tensor measurements. Names carry the library as a suffix: same name, other bytes.
"""

from __future__ import annotations

from typing import Any

from accounting.facts.optimizers_rows import STEPS_RUN, Constant, Optimizer, Slot, moments, size

_SUFFIX = "-pytorch-optimizer"
_CAVEAT = "Defaults of pytorch_optimizer 4.1.0; the moments follow the parameters' dtype."


def _row(title: str, slots: tuple[Slot, ...], **fields: Any) -> Optimizer:
    row: dict[str, Any] = {
        "library": "pytorch_optimizer",
        "library_version": "4.1.0",
        "source": f"measured with pytorch_optimizer 4.1.0: {title}",
        "caveat": _CAVEAT,
        **fields,
    }
    return Optimizer(name=f"{title.lower()}{_SUFFIX}", title=title, slots=slots, **row)


def _scalars(count: int, storage: str = "parameter") -> tuple[Slot, ...]:
    return (Slot(name="scalars", extent="scalar", storage=storage, count=count),) if count else ()


_UNIFORM: dict[int, str] = {
    0: "SGD SGDW PID ROSE Fromage SCIONLight",
    1: "Lion Tiger SignSGD SCION LARS QHM AccSGD Gravity BCOS SGDP EmoLynx ScheduleFreeSGD",
    2: "AdamP AdamC AdamS AdaBelief AdaBound Yogi LaProp PAdam Aida ADOPT Kate FOCUS PNM MSVAG SRMM RAdam EXAdam "
    "DualAdam Ano AvaGrad FTRL Grams SimplifiedAdEMAMix ScheduleFreeAdamW ScheduleFreeRAdam AdaMuon TAM GaLore Fira "
    "APOLLO AdamWSN EmoNavi AdaDelta AdaMax",
    3: "AdEMAMix MARS GrokFastAdamW Ranger AdaMod AdaTAM Adai AdamG AggMo DiffGrad ApolloDQN VSGD BSAM",
    4: "Adan AdaPNM AdaSmooth",
    5: "Ranger21",
}
"""Full-size buffers per parameter, nothing else."""
_WITH_SCALARS: tuple[tuple[str, int, int, str], ...] = (
    ("SGDSaI", 1, 1, "parameter"),
    ("NovoGrad", 1, 1, "parameter"),
    ("RMSprop", 1, 1, "fp32"),
    ("Adam", 2, 1, "fp32"),
    ("AdamW", 2, 1, "fp32"),
    ("NAdam", 2, 2, "fp32"),
    ("QHAdam", 2, 2, "fp32"),
    ("AdaGC", 2, 1, "parameter"),
    ("AdaNorm", 2, 1, "parameter"),
    ("A2Grad", 2, 1, "parameter"),
    ("SWATS", 2, 1, "parameter"),
    ("StableSPAM", 2, 3, "parameter"),
    ("Lamb", 2, 3, "parameter"),
    ("Magma", 2, 2, "fp32"),
    ("Amos", 0, 2, "parameter"),
)
"""Name, full-size buffers, scalars per tensor, what a scalar is stored in."""
_WITH_CONSTANT: tuple[tuple[str, int, int], ...] = (
    ("ASGD", 0, 16),
    ("AliG", 0, 4),
    ("DAdaptLion", 2, 4),
    ("MADGRAD", 3, 8),
    ("DAdaptAdam", 3, 4),
    ("DAdaptSGD", 3, 4),
    ("DAdaptAdaGrad", 3, 12),
    ("Prodigy", 4, 8),
    ("DAdaptAdan", 5, 8),
)
"""Name, full-size buffers, bytes per optimizer."""


def _full(count: int) -> tuple[Slot, ...]:
    return (moments(count),) if count else ()


def _slot(extent: str, where: str = "all", count: int = 1, storage: str = "parameter", *, whole: bool = False) -> Slot:
    return Slot(name="state", extent=extent, where=where, count=count, storage=storage, whole=whole)


def _hybrid(*hidden: Slot) -> tuple[Slot, ...]:
    """Muon-like: one rule on hidden matrices, Adam's two moments on the rest."""
    return (*hidden, _slot("full", "not_hidden", 2))


_SHAPED = (
    _row(
        "AdaShift",
        (moments(2), Slot(name="gradient_queue", extent="queue")),
        options=(size("keep_num", 10, "Gradients kept."), STEPS_RUN),
        caveat="Keeps a queue of whole gradients: ten of them after ten steps, twelve buffers in all.",
    ),
    _row("FAdam", (moments(2, "fp32"),), state_rule="fp32"),
    _row("StableAdamW", (moments(1), moments(1, "fp32"))),
    _row(
        "AdaFactor",
        (moments(1, "bf16"), _slot("factored", "matrix"), _slot("full", "vector")),
        caveat="Unlike the other libraries' Adafactor it keeps momentum by default, in bf16 even for fp32 parameters.",
    ),
    _row("CAME", (moments(1), _slot("factored", "matrix", 2), _slot("full", "vector"), *_scalars(1))),
    _row("FlashAdamW", (moments(2, "int8_groups32"),), state_rule="fixed"),
    _row("Muon", _hybrid(_slot("full", "hidden")), needs_matrices=True),
    _row("MuonClip", _hybrid(_slot("full", "hidden")), needs_matrices=True),
    _row("AdaGO", _hybrid(_slot("full", "hidden"), _slot("scalar", "hidden")), needs_matrices=True),
    _row("NorMuon", _hybrid(_slot("full", "hidden"), _slot("rows", "hidden")), needs_matrices=True),
    _row("Conda", (moments(2), _slot("smaller_side_squared", "two_dimensional", whole=True)), needs_matrices=True),
    _row("SM3", (_slot("full", "matrix"), _slot("sides", "matrix"), _slot("full", "vector", 2))),
    _row("SPlus", (moments(2), _slot("all_squares", "two_dimensional", 2)), needs_matrices=True),
    _row(
        "SPAM",
        (moments(2), _slot("full", "two_dimensional", storage="byte")),
        constants=(Constant(name="step", bytes=4),),
    ),
    _row("Adalite", (_slot("flat_sides", "matrix", 2), _slot("scalar", "matrix"), _slot("full", "vector", 2))),
    _row("EmoFact", (_slot("flat_sides", "matrix"), _slot("full", "vector", 2))),
    _row(
        "RACS",
        (
            _slot("flat_sides", "matrix"),
            _slot("scalar", "matrix"),
            _slot("rows", "vector"),
            _slot("scalar", "vector", 2),
        ),
    ),
    _row(
        "Nero",
        (_slot("rows"), _slot("scalar", "nonzero")),
        caveat="A tensor that is all zero at the first step keeps no scale. " + _CAVEAT,
    ),
)
_LISTED = (
    *(_row(name, _full(count)) for count, names in _UNIFORM.items() for name in names.split()),
    *(_row(name, (*_full(count), *_scalars(scalars, storage))) for name, count, scalars, storage in _WITH_SCALARS),
    *(
        _row(name, _full(count), constants=(Constant(name="scalars", bytes=constant),))
        for name, count, constant in _WITH_CONSTANT
    ),
)
SWEEP_ROWS = tuple(sorted((*_LISTED, *_SHAPED), key=lambda row: row.name))
