"""The members of a plan request: what each takes, and its default."""

from __future__ import annotations

from accounting.vocabulary import Attention, Engine
from planner.requests.fields import Either, Kind, Member, Number, Record, Sequence, Text, Whole, Word
from planner.requests.tables import (
    ADAPTER,
    MAX_MICRO_BATCH,
    MAX_SEQUENCE,
    MAX_STAGES,
    MODEL,
    OFFLOAD,
    OPTIMIZER,
    PRECISION,
    PRICING,
    RECOMPUTE,
)

MAX_TOKENS = 10**18
MAX_BATCH_TOKENS = 1 << 40
MAX_DEVICES = 1 << 17
MAX_AXIS = 64
MAX_COUNTS = 256
MAX_OPTIONS = 100
OBJECTIVES = ("cost", "time", "devices")
RISKS = ("upper", "expected")
OFFLOAD_WORDS = ("none", "cpu", "nvme")
"""`cpu` and `nvme`: optimizer states there; an object says more."""


def _any_of(item: Kind, longest: int = 256) -> Sequence:
    return Sequence(item, longest=longest)


def _axis(high: int, longest: int = MAX_AXIS) -> Either:
    return Either(word=Word(("auto",)), items=Sequence(Whole(1, high), longest=longest, shortest=1))


WORKLOAD = Record(
    {
        "tokens": Member(Whole(1, MAX_TOKENS), nullable=True, help="null: cost is per hour"),
        "sequence_length": Member(Whole(1, MAX_SEQUENCE), required=True),
        "global_batch_tokens": Member(
            Whole(1, MAX_BATCH_TOKENS), nullable=True, help="tokens of one optimizer step; null: the search chooses"
        ),
    }
)
HARDWARE = Record(
    {
        "accelerators": Member(_any_of(Text()), default=[], help="empty: any of the catalog"),
        "providers": Member(_any_of(Text()), default=[], help="empty: any"),
        "regions": Member(_any_of(Text()), default=[], help="empty: any"),
        "pricing": Member(_any_of(Word(PRICING), 3), default=["on-demand"], help="empty: any"),
        "max_count": Member(Whole(1, MAX_DEVICES), default=64, help="at most so many devices"),
        "min_count": Member(Whole(1, MAX_DEVICES), default=1),
        "counts": Member(
            _axis(MAX_DEVICES, MAX_COUNTS), default="auto", help="device counts to try, within min_count and max_count"
        ),
        "pool": Member(Text(), nullable=True, help="slug of devices the team already has"),
    }
)
SEARCH = Record(
    {
        "zero_stages": Member(Sequence(Whole(0, 3), longest=4), default=[0, 1, 2, 3], help="empty: any"),
        **{axis: Member(_axis(MAX_STAGES), default="auto") for axis in ("tp", "pp", "vpp", "cp", "ep")},
        "micro_batch_sizes": Member(_axis(MAX_MICRO_BATCH), default="auto"),
        "recompute": Member(_any_of(RECOMPUTE, 16), default=["none", "selective", "full"], help="empty: any"),
        "offload": Member(
            _any_of(Either(word=Word(OFFLOAD_WORDS), record=OFFLOAD), 16), default=["none"], help="empty: any"
        ),
    }
)
CONSTRAINTS = Record(
    {
        "deadline_hours": Member(Number(0, 1e6, above=True), nullable=True),
        "budget_usd": Member(Number(0, 1e15), nullable=True),
        "memory_headroom": Member(Number(0, 0.99), default=0.05),
        "risk": Member(Word(RISKS), default="upper"),
        "max_price_age_days": Member(Whole(0, 36_500), nullable=True),
        "min_tokens_per_second": Member(Number(0, 1e15), nullable=True, help="of all devices together"),
    }
)
GOODPUT = Record(
    {
        "checkpoint_seconds": Member(Number(0, 1e6), default=60),
        "restart_seconds": Member(Number(0, 1e6), default=600),
        "failures_per_device_hour": Member(Number(0, 1), default=5e-6),
        "preemptions_per_device_hour": Member(
            Number(0, 10), nullable=True, help="of devices at spot prices; null: not known, and not counted"
        ),
    }
)
PLAN = Record(
    {
        "model": Member(MODEL, required=True),
        "workload": Member(WORKLOAD, required=True),
        "hardware": Member(HARDWARE),
        "optimizers": Member(_any_of(OPTIMIZER, 32), default=["adamw"], help="empty: the default"),
        "precisions": Member(_any_of(PRECISION, 16), default=["bf16-mixed"], help="empty: any preset"),
        "engines": Member(_any_of(Word(tuple(Engine)), 6), default=[], help="empty: any real engine"),
        "attention": Member(Word(tuple(Attention)), default="flash"),
        "adapter": Member(ADAPTER, nullable=True, help="null: all weights train"),
        "search": Member(SEARCH),
        "constraints": Member(CONSTRAINTS),
        "goodput": Member(GOODPUT),
        "objective": Member(Word(OBJECTIVES), default="cost"),
        "options": Member(Whole(1, MAX_OPTIONS), default=10, help="how many options to list"),
        "webhook": Member(Text(), nullable=True, help="slug of an endpoint that is told when the plan has ended"),
    }
)
