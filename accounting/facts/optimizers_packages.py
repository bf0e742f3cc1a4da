"""Optimizers that live in a package of their own, one row each; read their states' dtype before comparing names."""

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

_VERSIONS = {
    "lion-pytorch": "0.2.5",
    "came-pytorch": "0.1.3",
    "schedulefree": "1.4.1",
    "prodigyopt": "1.1.2",
    "adan-pytorch": "0.1.0",
    "sophia-opt": "0.2.2",
    "grams-pytorch": "0.0.2",
    "adamw-bf16": "0.0.3",
    "torch-optimi": "0.3.3",
    "adam-mini": "1.1.1",
    "lomo-optim": "0.1.1",
}


def _package(name: str, library: str, title: str, slots: tuple[Slot, ...], **fields: Any) -> Optimizer:
    row: dict[str, Any] = {
        "library": library,
        "library_version": _VERSIONS[library],
        "source": f"measured with {library} {_VERSIONS[library]}: {title}",
        **fields,
    }
    return Optimizer(name=name, title=title, slots=slots, **row)


_FREE = "No schedule to set, but evaluation needs the averaged weights: call eval() before and train() after."
_BETA1 = rate("beta1", 0.9, "First-moment decay; zero keeps no first moment.")
_KAHAN = "16-bit parameters get a Kahan compensation buffer of their own size by default."
_INT_STEP = Constant(name="step", bytes=4, per="group")


def _optimi(name: str, title: str, count: int, *extra: Slot, step: bool = True, **fields: Any) -> Optimizer:
    kahan: bool = fields.pop("kahan", True)
    options: tuple[Option, ...] = fields.pop("options", ())
    first = () if not count else (moments(count),)
    return _package(
        name,
        "torch-optimi",
        title,
        (*first, *extra, Slot(name="kahan_compensation", when="kahan_sum", parameter_bytes=2)),
        options=(*options, flag("kahan_sum", "Kahan summation for 16-bit parameters.", default=kahan)),
        constants=(_INT_STEP,) if step else (),
        caveat=_KAHAN if kahan else "Kahan summation is off by default here, unlike torch-optimi's other optimizers.",
        **fields,
    )


_SINGLE = (
    _package(
        "lion",
        "lion-pytorch",
        "Lion",
        (moments(1),),
        temporaries=(Temporary(copies=2.0),),
        caveat="One moment instead of two: half of Adam's state. Needs a smaller learning rate (3 to 10 times) and a "
        "larger weight decay than AdamW.",
    ),
    _package(
        "came",
        "came-pytorch",
        "CAME",
        (
            moments(1, "fp32"),
            Slot(name="factors", extent="factored", storage="fp32", count=2, where="matrix"),
            Slot(name="second_moment", storage="fp32", where="vector"),
            Slot(name="rms", extent="scalar"),
        ),
        state_rule="fp32",
        temporaries=(Temporary(copies=2.0, itemsize=4, half_copies=3.0),),
        caveat="Factors the second moment and its confidence, but keeps a full fp32 first moment.",
    ),
    _package(
        "schedule-free-adamw",
        "schedulefree",
        "AdamWScheduleFree",
        (moments(2),),
        caveat=_FREE,
    ),
    _package(
        "schedule-free-radam",
        "schedulefree",
        "RAdamScheduleFree",
        (moments(2),),
        caveat=_FREE,
    ),
    _package(
        "schedule-free-sgd",
        "schedulefree",
        "SGDScheduleFree",
        (moments(1),),
        caveat=_FREE,
    ),
    _package(
        "prodigy",
        "prodigyopt",
        "Prodigy",
        (
            Slot(name="first_moment", when="beta1"),
            Slot(name="second_moment"),
            Slot(name="sliced_sum", extent="sliced"),
            Slot(name="sliced_start", extent="sliced", where="nonzero"),
            Slot(name="zero_start", extent="scalar", where="zero"),
        ),
        options=(size("slice_p", 1, "Keeps every k-th element of the step-size statistics."), _BETA1),
        caveat="Finds its own learning rate at the price of four buffers; slice_p=11 brings it near Adam's two. A "
        "tensor that is all zero at the first step keeps one scalar instead of its start.",
    ),
    _package("adan", "adan-pytorch", "Adan", (moments(4),), caveat="Four buffers: twice Adam's state."),
    _package(
        "sophia-g",
        "sophia-opt",
        "SophiaG",
        (moments(2), Slot(name="step", extent="scalar", storage="fp32", host=True)),
        aliases=("sophia",),
        caveat="Needs an extra sampled backward pass every few steps for its Hessian estimate.",
    ),
    _package("grams", "grams-pytorch", "Grams", (moments(2),)),
    _package(
        "adamw-bf16",
        "adamw-bf16",
        "AdamWBF16",
        (moments(3),),
        parameter_dtypes=("bf16",),
        caveat="bf16 parameters only; a third bf16 buffer holds what rounding lost.",
    ),
    _package(
        "adam-mini",
        "adam-mini",
        "Adam_mini",
        (moments(1), Slot(name="block_means", extent="adam_mini")),
        caveat="Groups parameters by their NAMES: what it does not recognise (GPT-2's fused c_attn) gets one value per "
        "tensor. Fails on BERT, whose attention.output.LayerNorm it takes for a matrix.",
    ),
    _package(
        "lomo",
        "lomo-optim",
        "Lomo",
        (),
        frees_gradients=True,
        temporaries=(Temporary(copies=1.0, itemsize=4),),
        caveat="Plain SGD inside backward: no state, no gradients kept, but no gradient accumulation, and clipping by "
        "norm costs a second backward.",
    ),
    _package(
        "adalomo",
        "lomo-optim",
        "AdaLomo",
        (
            Slot(name="factors", extent="factored", storage="fp32", where="matrix"),
            Slot(name="second_moment", storage="fp32", where="vector"),
        ),
        frees_gradients=True,
        state_rule="fp32",
        temporaries=(Temporary(copies=2.0, itemsize=4),),
        caveat="Updates inside backward with a rank-1 second moment: no gradient accumulation.",
    ),
)
_OPTIMI = (
    _optimi("adam-optimi", "Adam", 2),
    _optimi("adamw-optimi", "AdamW", 2),
    _optimi(
        "stableadamw-optimi", "StableAdamW", 2, Slot(name="eps_squared", extent="scalar"), aliases=("stable-adamw",)
    ),
    _optimi("lion-optimi", "Lion", 1, step=False),
    _optimi("sgd-optimi", "SGD", 0, moments(1, when="momentum"), step=False, options=(momentum_option(),)),
    _optimi("radam-optimi", "RAdam", 2),
    _optimi("adan-optimi", "Adan", 4, kahan=False),
    _optimi("ranger-optimi", "Ranger", 3),
)
PACKAGE_ROWS = (*_SINGLE, *_OPTIMI)
