"""The lists of the forms, from the catalog and the registries: a new row there appears here by itself."""

from __future__ import annotations

import re
from collections.abc import Iterable

from accounting.facts.optimizers import OPTIMIZERS
from accounting.facts.precisions import PRESETS
from accounting.vocabulary import Attention, Engine, Place, RecomputeMode
from hardware.choices import DeviceKind, PricingKind, Vendor
from hardware.models import Accelerator, NodeType, Offer
from planner.pools.selectors import pool_rows
from planner.specs.selectors import visible_models
from planner.teams.models import Team
from planner.web import words
from planner.web.form import Choice
from planner.web.format import NBSP

_GIGABYTES = re.compile(r"(\d)GB\b")
_KINDS = (DeviceKind.GPU, DeviceKind.TPU, DeviceKind.NPU, DeviceKind.GPU_SLICE, DeviceKind.CPU)
_VENDORS = tuple(Vendor)
_PLACES = (Choice("", "stay on the GPU"), Choice(Place.CPU, "host memory"), Choice(Place.NVME, "NVMe"))
_STAGES = (("0", "0: nothing sharded"), ("1", "1: optimizer"), ("2", "2: + gradients"), ("3", "3: + parameters"))


def display_name(name: str) -> str:
    """H100-SXM5-80GB as people write it: H100 SXM5 80 GB."""
    return _GIGABYTES.sub(rf"\1{NBSP}GB", name.replace("-", " "))


def accelerator_names() -> dict[str, str]:
    """Slug to name of every device, retired ones too: old plans still name them."""
    return {slug: display_name(name) for slug, name in Accelerator.objects.values_list("slug", "name")}


def node_sizes() -> dict[str, tuple[int | None, int | None]]:
    """Host memory and NVMe of every node type, in bytes."""
    rows = NodeType.objects.values_list("slug", "host_memory_bytes", "local_nvme_bytes")
    return {slug: (host, nvme) for slug, host, nvme in rows}


def plan_choices(team: Team) -> dict[str, tuple[Choice, ...]]:
    """The lists of the new-plan form."""
    return _shared(team) | {
        "accelerators": _accelerators(priced=True),
        "pool": (Choice("", "none: rent"), *(Choice(pool.slug, str(pool)) for pool in pool_rows(team))),
        "pricing": tuple(Choice(str(value), str(label)) for value, label in PricingKind.choices),
        "engines": _named(engine for engine in Engine if engine is not Engine.IDEAL),
        "optimizers": _named(OPTIMIZERS),
        "precisions": tuple(Choice(preset, preset) for preset in PRESETS),
        "objective": (Choice("cost", "Lowest cost"), Choice("time", "Shortest time"), Choice("devices", "Fewest GPUs")),
        "zero_stages": tuple(Choice(value, label) for value, label in _STAGES),
        "risk": (Choice("upper", "High end of the likely range"), Choice("expected", "Expected value")),
    }


def pool_choices() -> dict[str, tuple[Choice, ...]]:
    """The lists of the pool form."""
    return {"accelerator": _accelerators(priced=False), "node_type": _node_types()}


def estimate_choices(team: Team) -> dict[str, tuple[Choice, ...]]:
    """The lists of the calculator."""
    return _shared(team) | {
        "accelerator": _accelerators(priced=False),
        "node_type": _node_types(),
        "engine": _named(Engine),
        "zero_stage": (Choice("", "default"), *(Choice(value, label) for value, label in _STAGES)),
        "optimizer": _named(OPTIMIZERS),
        "precision": tuple(Choice(preset, preset) for preset in PRESETS),
        "attention": tuple(Choice(word, word) for word in Attention),
        "loss": (Choice("", "standard"), Choice("chunked", "chunked"), Choice("fused", "fused")),
        **dict.fromkeys(("offload_optimizer", "offload_parameters"), _PLACES),
    }


def _shared(team: Team) -> dict[str, tuple[Choice, ...]]:
    return {
        "model": tuple(Choice(slug, spec.name) for slug, spec in visible_models(team).items()),
        "recompute": tuple(Choice(mode, mode) for mode in RecomputeMode),
    }


def _named(slugs: Iterable[str]) -> tuple[Choice, ...]:
    return tuple(Choice(str(slug), words.name(str(slug))) for slug in slugs)


def _node_types() -> tuple[Choice, ...]:
    slugs = NodeType.objects.filter(retired=False).order_by("slug").values_list("slug", flat=True)
    return tuple(Choice(slug, slug) for slug in slugs)


def _accelerators(*, priced: bool) -> tuple[Choice, ...]:
    """Devices by kind and vendor, newest first; for a plan only those that somebody sells."""
    rows = Accelerator.objects.filter(retired=False).order_by("-year", "name")
    if priced:
        rows = rows.filter(pk__in=Offer.objects.filter(retired=False).values("accelerator__pk"))
    # Slices and CPU servers come after whole accelerators: people look for a card first.
    ordered = sorted(rows, key=lambda row: (_KINDS.index(row.kind), _VENDORS.index(row.vendor)))
    return tuple(Choice(row.slug, display_name(row.name), group=_group(row)) for row in ordered)


def _group(row: Accelerator) -> str:
    kind = DeviceKind(row.kind)
    return Vendor(row.vendor).label if kind is DeviceKind.GPU else f"{Vendor(row.vendor).label}: {kind.label}"
