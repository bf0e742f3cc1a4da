"""One candidate of an Estimate as the contract's JSON values."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from accounting.catalog import Offer
from accounting.cost import MILLION, SECONDS_PER_HOUR, WATTS_PER_KILOWATT
from accounting.evidence import Point, nearest
from accounting.how import at, how_of
from accounting.ledger import MOMENTS, Moment, Row
from accounting.optimizer_laws import needs_shapes
from accounting.step_time.links import LINKS, link_report
from accounting.version import ENGINE_VERSION
from accounting.vocabulary import Bucket, Phase

if TYPE_CHECKING:
    from accounting.estimate import Explained

COLLECTIVES = ("all_gather", "reduce_scatter", "all_reduce", "all_to_all", "point_to_point")
PHASES = tuple((phase.value, phase) for phase in Phase)
BUCKETS = tuple(bucket.value for bucket in Bucket)
UNKNOWN_WITHOUT_ARCHITECTURE = (Bucket.ACTIVATIONS, Bucket.LOGITS_AND_LOSS)


def answer_row(estimate: Explained, index: int) -> dict[str, Any]:
    """The contract's estimate answer for one candidate; numbers a model cannot have are null, with a warning."""
    memory = memory_answer(estimate, index)
    recipe, origin = estimate.scenario.recipe, estimate.origins[index]
    return {
        "engine_version": ENGINE_VERSION,
        "model": {
            "slug": recipe.model.slug,
            "parameters": recipe.model.parameters,
            "trainable_parameters": recipe.inventory.trainable_parameters,
            "active_parameters": recipe.model.active_parameters,
        },
        "memory": memory,
        "time": time_answer(estimate, index),
        "communication": communication_answer(estimate, index),
        "cost": cost_answer(estimate, index),
        "assumptions": [*origin.assumptions, *estimate.shared.assumed],
        "warnings": list(dict.fromkeys((*origin.warnings, *recipe.model.warnings, *estimate.timing.warnings(index)))),
    }


def memory_answer(estimate: Explained, index: int) -> dict[str, Any]:
    """Lines, buckets, phases and the three levels for the worst stage of one candidate."""
    device, shared = estimate.device, estimate.shared
    stage = int(device.total[index].argmax())
    by_phase, moments = phases(estimate, index, stage)
    peak_phase = max(by_phase, key=lambda phase: by_phase[phase])
    capacity = int(estimate.scenario.machine.capacity_bytes[index, 0])
    need = int(device.total[index, stage])
    limit = int(estimate.limit_bytes[index, 0])
    known = estimate.context.has_activations
    worst_rank, ranks = shared.ranks.answer(index, stage)
    high = int(device.high[index, stage])
    peak_moment = moments[peak_phase]
    return {
        "lines": [line for row in estimate.ledger.rows if (line := line_answer(estimate, row, index, stage, moments))],
        "by_bucket": buckets(estimate, index, stage, peak_moment),
        "by_phase": {name: by_phase[phase] for name, phase in PHASES},
        "moment_by_phase": {name: moments[phase].name for name, phase in PHASES},
        "peak_phase": peak_phase.value,
        "peak_allocated_bytes": by_phase[peak_phase],
        "peak_reserved_bytes": int(device.reserved[index, stage]),
        "device_bytes": need,
        "device_bytes_band": [int(device.low[index, stage]), high],
        "evidence": evidence(estimate, index),
        "overhead": overhead(estimate, index, stage),
        "capacity_bytes": None if capacity < 0 else capacity,
        "fits": fits_answer(need, limit, known=known),
        "fits_at_upper": fits_answer(high, limit, known=known),
        "headroom_bytes": None if capacity < 0 else capacity - need,
        "host_bytes_per_node": int(shared.host[index, 0]),
        "host_load_bytes_per_node": int(shared.host_load[index, 0]),
        "host_save_bytes_per_node": int(shared.host_save[index, 0]),
        "nvme_bytes_per_node": int(shared.nvme[index, 0]),
        "worst_rank": {
            "pipeline_stage": stage,
            "data_parallel_rank": worst_rank,
            "why": why_worst(estimate, index, stage),
        },
        "data_parallel_ranks": ranks,
        "stages": stages(estimate, index),
        "checkpoint_bytes": dict(shared.checkpoint),
    }


def fits_answer(need: int, limit: int, *, known: bool) -> bool | None:
    """States alone can rule a card out, never in."""
    if limit < 0:
        return None
    if need > limit:
        return False
    return True if known else None


def phases(estimate: Explained, index: int, stage: int) -> tuple[dict[Phase, int], dict[Phase, Moment]]:
    """Each phase at its worst moment on one stage."""
    totals: dict[Phase, int] = {}
    worst: dict[Phase, Moment] = {}
    for moment in MOMENTS:
        total = int(estimate.ledger.totals[moment][index, stage])
        if moment.phase not in totals or total > totals[moment.phase]:
            totals[moment.phase], worst[moment.phase] = total, moment
    return totals, worst


def bytes_at(row: Row, moment: Moment, index: int, stage: int) -> int:
    """Bytes of one line at one moment for one candidate and stage."""
    if moment not in row.by_moment:
        return 0
    return at(row.by_moment[moment], index, stage)


def line_answer(
    estimate: Explained, row: Row, index: int, stage: int, moments: dict[Phase, Moment]
) -> dict[str, Any] | None:
    """One line of the ledger; None where it holds nothing in any phase."""
    if not row.by_moment:
        return None
    by_phase = {name: bytes_at(row, moments[phase], index, stage) for name, phase in PHASES}
    if not any(by_phase.values()):
        return None
    formula = row.line.formula
    return {
        "bucket": row.line.bucket.value,
        "bytes_by_phase": by_phase,
        "dtype": row.line.dtype(estimate.context) if row.line.dtype else None,
        "formula": row.line.key,
        "divisor": at(row.line.divisor(estimate.context), index, stage) if row.line.divisor else 1,
        "device": row.line.device,
        "how": how_of(estimate.context, row.line.key, index, stage),
        "note": formula.split("\n", 1)[0],
        "explanation": formula,
    }


def buckets(estimate: Explained, index: int, stage: int, moment: Moment) -> dict[str, int | None]:
    """The ledger at the peak, by bucket; sums to the peak exactly."""
    totals: dict[str, int | None] = dict.fromkeys(BUCKETS, 0)
    for row in estimate.ledger.rows:
        if row.line.device:
            totals[row.line.bucket] = (totals[row.line.bucket] or 0) + bytes_at(row, moment, index, stage)
    if not estimate.context.has_activations:
        totals |= dict.fromkeys((bucket.value for bucket in UNKNOWN_WITHOUT_ARCHITECTURE), None)
        recipe = estimate.scenario.recipe
        if recipe.model.inventory is None and needs_shapes(recipe.optimizer):
            totals[Bucket.OPTIMIZER_STATES] = None
    return totals


def overhead(estimate: Explained, index: int, stage: int) -> list[dict[str, Any]]:
    """What stands between the allocated bytes and the driver's reading."""
    device = estimate.device
    parts = (
        ("allocator_slack", device.slack, "reserved by the caching allocator, not handed out"),
        ("context", device.context, "driver context of the process"),
        ("communicators", device.communicators, "buffers of the collective library, one set per process group"),
    )
    rows = [{"name": name, "bytes": int(amount[index, stage]), "note": note} for name, amount, note in parts]
    if learnt := int(device.learnt[index, stage]):
        note = f"median of this instance's own measurements, calibration set {estimate.context.recipe.evidence.version}"
        rows.append({"name": "learnt", "bytes": learnt, "note": note})
    return rows


def evidence(estimate: Explained, index: int) -> dict[str, Any]:
    """What the likely range rests on: how many measured runs, whose, and how far the nearest configuration lies."""
    recipe, layout = estimate.context.recipe, estimate.scenario.layout
    names, chosen = estimate.shared.ranges
    name = names[int(chosen[index, 0])]
    known = recipe.evidence
    row = known.band(name)
    here = Point(
        parameters=recipe.model.parameters,
        devices=int(layout.count[index, 0]),
        tokens=int((layout.micro_batch_size * layout.sequence_length)[index, 0]),
    )
    return {
        "range": name,
        "measurements": row.runs,
        "calibration": known.version if name in known.bands else None,
        "nearest": nearest(known.points.get(name, ()), here) if row.runs else None,
        "why": row.why or None,
    }


def stages(estimate: Explained, index: int) -> list[dict[str, Any]]:
    """Every pipeline stage at its own peak."""
    partition = estimate.context.partition
    answers = []
    for stage in range(int(estimate.scenario.layout.pp[index, 0])):
        by_phase, moments = phases(estimate, index, stage)
        worst = max(by_phase, key=lambda phase: by_phase[phase])
        answers.append(
            {
                "pipeline_stage": stage,
                "layers": int(partition.layers[index, stage]),
                "peak_allocated_bytes": by_phase[worst],
                "peak_phase": worst.value,
                "by_bucket": buckets(estimate, index, stage, moments[worst]),
            }
        )
    return answers


def why_worst(estimate: Explained, index: int, stage: int) -> str:
    """Why this stage holds most, in words."""
    count = int(estimate.scenario.layout.pp[index, 0])
    if count == 1:
        return "all ranks hold the same"
    live = at(estimate.context.partition.live_chunks, index, stage)
    ends = {0: "the embedding", count - 1: "the head and the loss"}
    held = f"{live} micro-batch{'es' if live != 1 else ''} in flight"
    return f"{held} and {ends[stage]}" if stage in ends else held


def time_answer(estimate: Explained, index: int) -> dict[str, Any]:
    """The step, its parts and rates; null where a fact is missing."""
    timing = estimate.timing
    return {
        "step_seconds": number(timing.step_seconds, index),
        "parts": {name: number(part, index) for name, part in timing.parts.items()},
        "tokens_per_second": number(timing.tokens_per_second, index),
        "tokens_per_second_per_device": number(timing.tokens_per_second_per_device, index),
        "mfu": number(timing.mfu, index),
        "hfu": number(timing.hfu, index),
        "peak_flops_per_device": number(estimate.scenario.machine.peak_flops, index),
        "band": [number(timing.band[0], index), number(timing.band[1], index)],
        "slowest_stage": int(timing.slowest_stage[index, 0]) if timing.lines else None,
        "lines": [
            {
                "formula": line.key,
                "seconds": number(line.seconds, index),
                "note": line.formula.split("\n", 1)[0],
                "explanation": line.formula,
            }
            for line in timing.lines
        ],
    }


def communication_answer(estimate: Explained, index: int) -> dict[str, Any]:
    """Bytes a device sends in a step, by collective and by link, and what the links cost."""
    traffic = estimate.timing.traffic_bytes
    by_collective = {name: whole(traffic[name], index) if name in traffic else None for name in COLLECTIVES}
    known = [amount for amount in by_collective.values() if amount is not None]
    return {
        "bytes_per_step_per_device": sum(known) if known else None,
        "by_collective": by_collective,
        **links_answer(estimate, index, sum(known) if known else None),
    }


def links_answer(estimate: Explained, index: int, sent: int | None) -> dict[str, Any]:
    """Bytes and exposed seconds of the links inside a node, between nodes and to the host; where the network rules."""
    rate = float(estimate.scenario.machine.inter_bandwidth[index, 0])
    report = link_report(estimate.links[index], rate) if sent is not None else None
    inter, host = (int(moved[index, 0]) for moved in (estimate.timing.inter_bytes, estimate.timing.host_bytes))
    moved = {"intra": None if sent is None else sent - inter, "inter": inter, "host": host}
    return {
        "by_link": {
            name: {
                "bytes_per_step_per_device": moved[name] if report else None,
                "exposed_seconds": finite(report.links[name].exposed_seconds) if report else None,
                "half_speed_adds_seconds": finite(report.links[name].half_speed_adds_seconds) if report else None,
            }
            for name in LINKS
        },
        "inter_node_gbps": finite(report.inter_node_gbps) if report else None,
        "bound_below_gbps": report.bound_below_gbps if report else None,
    }


def cost_answer(estimate: Explained, index: int) -> dict[str, Any]:
    """What the devices cost while the step runs; null where no price is known, never zero."""
    machine = estimate.scenario.machine
    per_device = number(machine.usd_per_device_hour, index)
    count = int(estimate.scenario.layout.count[index, 0])
    rate = number(estimate.timing.tokens_per_second, index)
    per_hour = None if per_device is None else per_device * count
    power = number(machine.power_watts, index)
    return {
        "usd_per_hour": per_hour,
        "energy_kwh_per_million_tokens": None
        if power is None or not rate
        else count * power / WATTS_PER_KILOWATT / (rate * SECONDS_PER_HOUR) * MILLION,
        "usd_per_million_tokens": per_hour / (rate * SECONDS_PER_HOUR) * MILLION
        if per_hour is not None and rate
        else None,
        "offer": offer_answer(machine.offers[int(machine.offer_index[index, 0])]),
    }


def offer_answer(offer: Offer | None) -> dict[str, Any] | None:
    """A price with its place, kind, date and source; None where there is none."""
    if offer is None:
        return None
    return {
        "provider": offer.provider,
        "region": offer.region,
        "instance": offer.instance,
        "pricing": offer.pricing_kind,
        "commitment": offer.commitment,
        "usd_per_hour": offer.usd_per_hour,
        "accelerator_count": offer.accelerator_count,
        "price_date": None if offer.price_date is None else offer.price_date.isoformat(),
        "date_precision": offer.date_precision,
        "billing_period_seconds": offer.billing_period_seconds,
        "billing_minimum_seconds": offer.billing_minimum_seconds,
        "source": offer.source,
    }


def number(values: Any, index: int) -> float | None:
    """A float of one candidate; null where it is not known."""
    value = float(values[index if len(values) > 1 else 0, 0])
    return value if math.isfinite(value) else None


def finite(value: float) -> float | None:
    """The number, or null where it is not known."""
    return value if math.isfinite(value) else None


def whole(values: Any, index: int) -> int | None:
    """A whole number of one candidate; null where it is not known."""
    value = float(values[index, 0])
    return int(values[index, 0]) if math.isfinite(value) else None
