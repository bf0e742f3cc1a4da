"""Writes of pools. Each is a line in the audit log and a version of the row's history."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.db import IntegrityError, transaction

from accounting.naming import NameLookupError
from hardware.snapshot import catalog_snapshot
from planner.errors import Conflict, Fault, InvalidRequest, NotFound
from planner.ops.audit import audit, differences
from planner.ops.versions import IfMatch
from planner.pools.models import MAX_DEVICES, MAX_PRICE, Pool
from planner.requests.fields import INVALID, Faults, Member, Number, Record, Slug, Text, Whole

if TYPE_CHECKING:
    from django.contrib.auth.models import User

    from planner.teams.models import Team

FIELDS: dict[str, Member] = {
    "name": Member(Text(200), help="for people"),
    "accelerator": Member(Text(), required=True, help="slug of the catalog, or an unambiguous short name"),
    "node_type": Member(Text(), required=True, help="the machine the devices are in"),
    "count": Member(Whole(1, MAX_DEVICES), required=True, help="devices, not machines"),
    "usd_per_device_hour": Member(Number(0, MAX_PRICE), nullable=True, help="null: no price is known"),
}
POOL = Record({"slug": Member(Slug(), required=True), **FIELDS})
CHANGE = Record(
    {name: Member(member.kind, nullable=member.nullable, help=member.help) for name, member in FIELDS.items()}
)
MAX_POOLS = 1_000
"""Of one team: the search reads them all to look one up."""


def hardware_faults(accelerator: str, node_type: str) -> list[Fault]:
    """What is wrong with a pair of slugs: unknown, or a machine that holds other devices."""
    faults, found = _hardware({"accelerator": accelerator, "node_type": node_type})
    if faults or (found["accelerator"], found["node_type"]) == (accelerator, node_type):
        return faults
    slugs = f"{found['accelerator']} and {found['node_type']}"
    return [Fault("/accelerator", "unknown_name", f"a pool keeps whole slugs: {slugs}")]


def _hardware(values: dict[str, Any]) -> tuple[list[Fault], dict[str, Any]]:
    """(faults, the values with whole slugs in place of short names)."""
    catalog, faults, found = catalog_snapshot(), [], dict(values)
    for name, find in (("accelerator", catalog.find_accelerator), ("node_type", catalog.find_node_type)):
        try:
            found[name] = find(values[name]).slug
        except NameLookupError as error:
            faults.append(Fault(f"/{name}", f"{error.code}_name", error.detail))
    if not faults and (held := catalog.node_types[found["node_type"]].accelerator) != found["accelerator"]:
        detail = f"{found['node_type']} holds {held}, not {found['accelerator']}; name another machine"
        faults.append(Fault("/node_type", "node_mismatch", detail))
    return faults, found


def _values(table: Record, payload: object, present: dict[str, Any]) -> dict[str, Any]:
    """The columns as they will be. Raises InvalidRequest with every fault."""
    faults = Faults()
    given = table.read(payload, "", faults)
    if given is INVALID:
        raise InvalidRequest(faults.found)
    wanted = {**present, **given}
    if not any(faults.touches(f"/{name}") for name in ("accelerator", "node_type")):
        found, wanted = _hardware(wanted)
        faults.found.extend(found)
    if faults.found:
        raise InvalidRequest(faults.found)
    return wanted


def _shown(pool: Pool) -> dict[str, Any]:
    return {name: getattr(pool, name) for name in POOL.members}


@transaction.atomic
def pool_create(*, team: Team, user: User | None, payload: object) -> Pool:
    """A new pool of the team. Raises InvalidRequest; Conflict where the team has the slug, or too many pools."""
    values = _values(POOL, payload, {})
    if Pool.objects.filter(team=team).count() >= MAX_POOLS:
        raise Conflict(f"a team keeps at most {MAX_POOLS:,} pools; delete one first")
    pool = Pool(team=team, **values)
    try:
        with transaction.atomic():
            pool.save()
    except IntegrityError:
        raise Conflict(f"the team has a pool {pool.slug!r} already; change that one, or take another slug") from None
    audit(team=team, user=user, action="pool.created", subject=pool.slug, changes=differences({}, _shown(pool)))
    return pool


@transaction.atomic
def pool_update(*, team: Team, user: User | None, slug: str, payload: object, match: IfMatch) -> Pool:
    """Change the members that are given. Raises NotFound, PreconditionRequired or -Failed, InvalidRequest."""
    pool = _locked(team, slug)
    match.check(pool)
    before = _shown(pool)
    for name, value in _values(CHANGE, payload, before).items():
        setattr(pool, name, value)
    changes = differences(before, _shown(pool))
    if changes:
        pool.version += 1
        pool.save()
        audit(team=team, user=user, action="pool.changed", subject=pool.slug, changes=changes)
    return pool


@transaction.atomic
def pool_delete(*, team: Team, user: User | None, slug: str, match: IfMatch) -> None:
    """Plans made of it keep their answers; new ones no longer find it."""
    pool = _locked(team, slug)
    match.check(pool)
    pool.delete()
    audit(team=team, user=user, action="pool.deleted", subject=pool.slug)


def _locked(team: Team, slug: str) -> Pool:
    pool = Pool.objects.select_for_update().filter(team=team, slug=slug.lower()).first()
    if pool is None:
        raise NotFound("there is no such pool")
    return pool
