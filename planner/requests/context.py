"""What a request may name: the catalog, the models and the pools that its team can see."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from accounting.catalog import Catalog
from accounting.evidence import SHIPPED, Evidence
from accounting.model import Model
from planner.search.problem import Pool


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestContext:
    catalog: Catalog
    find_model: Callable[[str], Model]
    """The stored model of a slug, with the slug in it; raises NameLookupError."""
    pools: Mapping[str, Pool]
    evidence: Evidence = SHIPPED
    """The measured runs behind likely ranges; a calibration set's where one is in force."""
