"""Reads of pools: always through a team, so that another team's pool is simply not there."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import TYPE_CHECKING

from django.db.models import QuerySet

from accounting.catalog import Catalog
from planner.errors import NotFound
from planner.pools.models import Pool
from planner.search.problem import Pool as Devices

if TYPE_CHECKING:
    from planner.teams.models import Team


def pool_rows(team: Team) -> QuerySet[Pool]:
    return Pool.objects.filter(team=team)


def pool_of(team: Team, slug: str) -> Pool:
    pool = pool_rows(team).filter(slug=slug.lower()).first()
    if pool is None:
        raise NotFound("there is no such pool")
    return pool


def devices_of(pool: Pool, catalog: Catalog) -> Devices | None:
    """The pool as the search takes it; None where the catalog no longer offers its device or machine."""
    accelerator = catalog.accelerators.get(pool.accelerator)
    node_type = catalog.node_types.get(pool.node_type)
    if accelerator is None or node_type is None:
        return None
    return Devices(
        slug=pool.slug,
        accelerator=accelerator,
        node_type=node_type,
        count=pool.count,
        usd_per_device_hour=pool.usd_per_device_hour,
    )


class TeamPools(Mapping[str, Devices]):
    """Slug → devices of every pool that a plan of the team may name, read when the first one is asked for."""

    def __init__(self, team: Team | None, catalog: Catalog) -> None:
        self._team, self._catalog = team, catalog

    @cached_property
    def _found(self) -> dict[str, Devices]:
        if self._team is None:
            return {}
        found = {pool.slug: devices_of(pool, self._catalog) for pool in pool_rows(self._team)}
        return {slug: devices for slug, devices in found.items() if devices is not None}

    def __getitem__(self, slug: str) -> Devices:
        return self._found[slug]

    def __iter__(self) -> Iterator[str]:
        return iter(self._found)

    def __len__(self) -> int:
        return len(self._found)
