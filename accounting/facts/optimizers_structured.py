"""Low-rank and second-order optimizers: state by the shape of a matrix, not by its element count."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from accounting.facts.optimizers_rows import (
    Constant,
    Optimizer,
    Option,
    Slot,
    Temporary,
    flag,
    moments,
    size,
)

_RANK = "Rank of the projection."
_TARGETS = Option(
    name="targets",
    kind="names",
    default=(),
    help="Parts of names whose matrices are projected; empty = every hidden matrix (no embedding, no head).",
)
_TRAP = (
    "In fp32 the kept projector is a view that pins the whole thin singular-value factor: 4·k² bytes per a × b matrix, "
    "k = min(a, b), at any rank. "
)
_MEASURED = "measured on small shapes with"


def _low_rank(name: str, title: str, slots: tuple[Slot, ...], caveat: str, **fields: Any) -> Optimizer:
    version = {"galore-torch": "1.0", "apollo-torch": "1.0.3"}
    library = "apollo-torch" if name.startswith("apollo") else "galore-torch"
    row: dict[str, Any] = {
        "library": library,
        "library_version": version[library],
        "options": (size("rank", 128, _RANK), _TARGETS),
        "temporaries": (Temporary(copies=2.0),),
        "source": f"{_MEASURED} {library} {version[library]}: {title}",
        "caveat": caveat,
        "needs_matrices": True,
        **fields,
    }
    return Optimizer(name=name, title=title, slots=slots, **row)


_PLAIN = moments(2, where="not_projected")
_LOW_MOMENTS = Slot(name="low_rank_moments", extent="low_rank", count=2, where="projected")
_PROJECTOR_SLOTS = (
    Slot(name="projector", extent="projector", where="projected", parameter_bytes=2, whole=True),
    Slot(name="projector", extent="projector_whole", where="projected", parameter_bytes=4, whole=True),
)


def _when(option: str, slots: tuple[Slot, ...]) -> tuple[Slot, ...]:
    return tuple(replace(slot, when=option) for slot in slots)


_LOW_RANK = (
    _low_rank(
        "galore-adamw",
        "GaLoreAdamW",
        (*_PROJECTOR_SLOTS, _LOW_MOMENTS, _PLAIN),
        _TRAP + "Use it on bf16 parameters. Projects hidden matrices only; the rest is plain AdamW.",
    ),
    _low_rank(
        "galore-adafactor",
        "GaLoreAdafactor",
        (
            Slot(name="projector", extent="projector_whole", storage="fp32", where="projected"),
            Slot(name="factors", extent="low_rank_factored", storage="fp32", where="projected"),
            Slot(name="factors", extent="factored", storage="fp32", where="matrix_not_projected"),
            Slot(name="second_moment", storage="fp32", where="vector"),
            Slot(name="rms", extent="scalar", storage="fp32"),
        ),
        _TRAP + "Here also for bf16 parameters, because the gradient is upcast first.",
        state_rule="fp32",
    ),
    _low_rank(
        "galore-adamw-8bit",
        "GaLoreAdamW8bit",
        (
            *_PROJECTOR_SLOTS,
            Slot(name="low_rank_moments", extent="low_rank", storage="blockwise8", count=2, where="projected"),
            Slot(name="moments", storage="blockwise8", count=2, where="not_projected"),
            Slot(name="unorm_vec", extent="scalar", storage="fp32"),
        ),
        _TRAP + "With bitsandbytes 0.50 its shifted arguments turn on max_unorm: 4 more bytes per tensor.",
        constants=(Constant(name="quantisation_maps", bytes=2048),),
        options=(
            size("rank", 128, _RANK),
            _TARGETS,
            size("min_8bit_size", 4096, "Tensors with fewer elements keep fp32 states.", minimum=0),
        ),
        state_rule="fixed",
    ),
    _low_rank(
        "apollo-adamw",
        "APOLLOAdamW",
        (
            Slot(name="projector", extent="random_projector", where="projected", when="random_projection"),
            Slot(name="random_moments", extent="random_low_rank", count=2, where="projected", when="random_projection"),
            *_when("!random_projection", (*_PROJECTOR_SLOTS, _LOW_MOMENTS)),
            Slot(name="scaled_gradient", extent="scalar", where="projected"),
            _PLAIN,
        ),
        "The random projection's rank is not clipped to the matrix: a rank above min(a, b) costs more than AdamW. "
        "The projector is stored between updates. rank=1 is APOLLO-Mini.",
        options=(
            size("rank", 128, _RANK),
            _TARGETS,
            flag("random_projection", "Random projector; false takes the singular vectors.", default=True),
        ),
    ),
)
_PO = {"library": "pytorch_optimizer", "library_version": "4.1.0"}
_SQUARES = "Its matrices grow with the square of a dimension: a vocabulary-sized one alone can exceed a device."


def _second_order(name: str, title: str, slots: tuple[Slot, ...], **fields: Any) -> Optimizer:
    row: dict[str, Any] = {
        **_PO,
        "temporaries": (Temporary(copies=2.0),),
        "source": f"{_MEASURED} pytorch_optimizer 4.1.0: {title}",
        "caveat": _SQUARES,
        "needs_matrices": True,
        **fields,
    }
    return Optimizer(name=name, title=title, slots=slots, **row)


_PYTORCH_OPTIMIZER = (
    _second_order(
        "soap",
        "SOAP",
        (
            moments(2),
            Slot(name="preconditioners", extent="squares", count=2, where="matrix"),
            Slot(name="preconditioners", extent="squares", count=2, where="one_dimensional", when="precondition_1d"),
        ),
        options=(
            size("max_precondition_dim", 10000, "Dimensions above it get no matrix."),
            flag("precondition_1d", "Preconditions vectors too."),
        ),
    ),
    _second_order(
        "shampoo",
        "Shampoo",
        (moments(1), Slot(name="preconditioners", extent="all_squares", count=2)),
        caveat=f"{_SQUARES} This one has no limit: 32,000 tokens in fp32 cost 8 GB for one embedding.",
    ),
    _second_order(
        "shampoo-scalable",
        "ScalableShampoo",
        (moments(2), Slot(name="statistics", extent="block_squares", storage="fp32", count=2)),
        options=(size("block_size", 512, "Merged dimensions are cut into blocks of this size."),),
    ),
    _second_order(
        "kron",
        "Kron",
        (moments(1), Slot(name="factors", extent="kron_factors", storage="fp32")),
        aliases=("psgd-kron",),
    ),
)
_HEAVY = {"library": "heavyball", "library_version": "3.2.1"}
_STEP_AND_LR = (Constant(name="step", bytes=8), Constant(name="prev_lr", bytes=4, per="group"))


def _heavy(name: str, title: str, slots: tuple[Slot, ...], **fields: Any) -> Optimizer:
    row: dict[str, Any] = {
        **_HEAVY,
        "constants": _STEP_AND_LR,
        "state_rule": "fp32",
        "temporaries": (Temporary(copies=2.0, itemsize=4),),
        "source": f"measured with heavyball 3.2.1 run eagerly: heavyball.{title}",
        "caveat": "Moments are fp32 whatever the parameters' dtype (storage_dtype); compiles its step.",
        **fields,
    }
    return Optimizer(name=f"{name}-heavyball", title=title, slots=slots, **row)


def _stored(count: int) -> tuple[Slot, ...]:
    """Moments whose dtype is heavyball's `storage_dtype` option."""
    return tuple(
        moments(count, dtype, when=f"storage={storage}", whole=True)
        for dtype, storage in (("fp32", "float32"), ("bf16", "bfloat16"))
    )


def _triangles(extent: str) -> tuple[Slot, ...]:
    return (
        moments(1, "fp32"),
        Slot(name="preconditioners", extent=extent, storage="fp32", where="matrix", whole=True),
        Slot(name="diagonal", storage="fp32", where="vector", whole=True),
        Slot(name="lipschitz", extent="dimensions", storage="int64", where="matrix"),
        Slot(name="lipschitz", extent="scalar", storage="int64", where="vector"),
        Slot(name="counter", extent="scalar", storage="int64"),
    )


_STORAGE = Option(
    name="storage",
    kind="choice",
    default="float32",
    choices=("float32", "bfloat16"),
    help="heavyball's storage_dtype: what the moments rest in.",
)
_STORAGE_OR_CORRECTED = replace(
    _STORAGE,
    choices=(*_STORAGE.choices, "bf16+8"),
    help="heavyball's storage_dtype, or its ecc: bf16 moments with an 8-bit correction each.",
)
_SOAP_SQUARES = Slot(name="preconditioners", extent="merged_squares", storage="fp32", count=2, whole=True)
_HEAVYBALL = (
    _heavy(
        "adamw",
        "AdamW",
        (
            moments(2, "fp32", when="storage=float32"),
            moments(2, "bf16", when="storage=bfloat16"),
            moments(2, "bf16", when="storage=bf16+8"),
            Slot(name="correction", storage="byte", count=2, when="storage=bf16+8"),
        ),
        options=(_STORAGE_OR_CORRECTED,),
    ),
    _heavy("nadam", "NAdam", (moments(2, "fp32"), Slot(name="mu_product", extent="scalar", storage="fp32"))),
    *(
        _heavy(name, title, (moments(count, "fp32"),))
        for name, title, count in (
            ("sgd", "SGD", 1),
            ("rmsprop", "RMSprop", 1),
            ("muon", "Muon", 1),
            ("scion", "Scion", 1),
            ("laprop", "LaProp", 2),
            ("adopt", "ADOPT", 2),
            ("ademamix", "AdEMAMix", 3),
        )
    ),
    _heavy(
        "muon-adamw",
        "MuonAdamW",
        (moments(1, "fp32", where="matrix"), moments(2, "fp32", where="vector")),
    ),
    _heavy(
        "schedule-free-adamw",
        "SFAdamW",
        (moments(1, "fp32"), Slot(name="z")),
        constants=(*_STEP_AND_LR, Constant(name="weight_sum", bytes=4, per="group")),
    ),
    _heavy("soap", "SOAP", (*_stored(2), _SOAP_SQUARES), options=(_STORAGE,), caveat=_SQUARES, needs_matrices=True),
    _heavy("klsoap", "KLSOAP", (moments(2, "fp32", whole=True), _SOAP_SQUARES), caveat=_SQUARES, needs_matrices=True),
    _heavy(
        "klshampoo", "KLShampoo", (moments(1, "fp32", whole=True), _SOAP_SQUARES), caveat=_SQUARES, needs_matrices=True
    ),
    _heavy("psgd-kron", "PSGDKron", _triangles("triangles"), caveat=_SQUARES, needs_matrices=True),
    _heavy("psgd-pro", "PSGDPRO", _triangles("all_squares"), caveat=_SQUARES, needs_matrices=True),
    _heavy(
        "psgd-lra",
        "PSGDLRA",
        (
            moments(1, "fp32"),
            moments(1, "fp32", whole=True),
            Slot(name="low_rank", extent="log_rank", storage="fp32", count=2, whole=True),
        ),
    ),
)
STRUCTURED_ROWS = (*_LOW_RANK, *_PYTORCH_OPTIMIZER, *_HEAVYBALL)
