"""The members of an estimate request: what each takes, and its default; one table for every door."""

from __future__ import annotations

from accounting.facts.knobs import KNOBS, Knob, KnobKind
from accounting.facts.precisions import PRESETS
from accounting.vocabulary import Attention, Engine, Place, RecomputeMode, Schedule
from planner.requests.fields import Anything, Either, Flag, Kind, Member, Number, Record, Sequence, Text, Whole, Word

MAX_COUNT = 1 << 20
MAX_STAGES = 4096
MAX_SEQUENCE = 1 << 27
MAX_MICRO_BATCH = 1 << 20
MAX_GLOBAL_BATCH = 1 << 31
MAX_PARAMETERS = 10**15
MAX_BYTES = 1 << 50
MAX_TENSORS = 10_000
MAX_LAYERS = 10_000

PRICING = ("on-demand", "spot", "reserved")
COMMITMENTS = ("", "1y", "3y")
COMPUTE_DTYPES = ("fp32", "tf32", "bf16", "fp16", "fp8", "mxfp8", "nvfp4")
STORED_DTYPES = ("fp32", "bf16", "fp16")
OWN_RULE = "auto"
STATE_DTYPES = (OWN_RULE, "fp32", "bf16", "fp16", "fp8", "int8")
"""`auto`: the optimizer's own rule (the dtype of what it steps, or its quantised format)."""
BASE_DTYPES = ("bf16", "fp16", "fp32", "fp8", "int8", "nf4", "gptq-int4")
EXTRA_DTYPES = ("bf16", "fp16", "fp32", "fp8", "int8", "nf4")
EXTRA_ROLES = ("ema", "reference", "reward", "value", "draft")
ADAPTER_METHODS = ("lora", "qlora", "dora")
ADAPTER_TARGETS = ("attention", "all-linear")
RECOMPUTE_MODULES = ("attention", *KNOBS["recompute_modules"].choices)

_DEGREE = Whole(1, MAX_COUNT)
_PLACE = Word((Place.NONE, Place.CPU))
_ANY_PLACE = Word(tuple(Place))
NAMES = Sequence(Text(), longest=64, shortest=1)

MODEL = Either(
    word=Text(),
    record=Record(
        {
            "config": Member(Anything(), help="a Hugging Face config.json"),
            "architecture": Member(Anything(), help="our own fields, where a config.json does not exist"),
            "tensors": Member(
                Sequence(Anything(), longest=MAX_TENSORS, shortest=1),
                help="parameter tensors: name, shape, count, trainable",
            ),
            "parameters": Member(Whole(1, MAX_PARAMETERS), help="a bare count: model states only"),
        }
    ),
)
OFFER = Record(
    {
        "provider": Member(Text(), required=True),
        "region": Member(Text(), required=True),
        "instance": Member(Text(), required=True),
        "pricing": Member(Word(PRICING), default="on-demand"),
        "commitment": Member(Word(COMMITMENTS), default=""),
    }
)
HARDWARE = Record(
    {
        "accelerator": Member(Text(), required=True, help="catalog slug"),
        "count": Member(_DEGREE, default=1, help="devices"),
        "node_type": Member(Text(), nullable=True, help="catalog slug; null: the accelerator's default_node"),
        "offer": Member(OFFER, nullable=True, help="the price to bill by; default: the cheapest on-demand one"),
        "pool": Member(Text(), nullable=True, help="slug of devices the team already has: their machine and price"),
        "overrides": Member(
            Record(
                {
                    "memory_bytes": Member(Whole(1, MAX_BYTES)),
                    "bf16_tflops": Member(Number(0, 1e6, above=True)),
                    "memory_bandwidth_gbps": Member(Number(0, 1e6, above=True), help="10^9 byte per second"),
                    "power_watts": Member(Number(0, 1e6, above=True)),
                    "host_memory_bytes": Member(Whole(1, MAX_BYTES)),
                }
            ),
            help="facts that the catalog lacks or that differ here",
        ),
    }
)
PARALLELISM = Record(
    {
        "dp_replicate": Member(_DEGREE, default=1, help="what is left of count under ddp and at ZeRO stage 0"),
        "dp_shard": Member(_DEGREE, help="default: what is left of count"),
        "tp": Member(_DEGREE, default=1),
        "cp": Member(_DEGREE, default=1),
        "pp": Member(Whole(1, MAX_STAGES), default=1),
        "vpp": Member(Whole(1, MAX_STAGES), default=1, help="virtual stages per pipeline stage"),
        "ep": Member(_DEGREE, default=1),
        "etp": Member(_DEGREE, help="tensor parallelism inside an expert; default tp"),
        "sequence_parallel": Member(Flag(), help="default: true where tp > 1"),
    },
    notes={"dp": "; say dp_shard (sharded) or dp_replicate (copies)"},
)
SHARDING = Record(
    {
        "engine": Member(Word(tuple(Engine)), default="fsdp2"),
        "zero_stage": Member(Whole(0, 3), help="default: 3; ddp 0; megatron 1"),
    }
)
PIPELINE = Record(
    {
        "schedule": Member(Word(tuple(Schedule)), help="default: 1f1b, interleaved where vpp > 1"),
        "layout": Member(
            Sequence(Whole(0, MAX_LAYERS), longest=MAX_STAGES, shortest=1), nullable=True, help="layers per stage"
        ),
    }
)
PRECISION = Either(
    word=Word(tuple(PRESETS)),
    record=Record(
        {
            "compute": Member(Word(COMPUTE_DTYPES), required=True),
            "parameters": Member(Word(STORED_DTYPES), required=True),
            "gradients": Member(Word(STORED_DTYPES), nullable=True, help="default: the parameters' dtype"),
            "master_weights": Member(Word(STORED_DTYPES), nullable=True, help="default: null, not held"),
            "optimizer_states": Member(
                Word(STATE_DTYPES), nullable=True, default="auto", help="auto: the optimizer's own rule"
            ),
            "reduce": Member(Word(STORED_DTYPES), nullable=True, help="default: the gradients' dtype"),
        }
    ),
)
OPTIMIZER = Either(word=Text(64), record=Anything())
BATCH = Record(
    {
        "sequence_length": Member(Whole(1, MAX_SEQUENCE), required=True, help="tokens"),
        "micro_batch_size": Member(Whole(1, MAX_MICRO_BATCH), default=1, help="sequences per device"),
        "global_batch_size": Member(
            Whole(1, MAX_GLOBAL_BATCH), nullable=True, help="sequences; default: one micro-batch a rank"
        ),
        "packed": Member(Flag(), default=False),
        "mean_sequence_length": Member(Whole(1, MAX_SEQUENCE), nullable=True),
    }
)
RECOMPUTE = Either(
    word=Word(tuple(RecomputeMode)),
    record=Record(
        {
            "mode": Member(Word(tuple(RecomputeMode)), required=True),
            "every": Member(Whole(1, MAX_LAYERS), help="full: one block in so many"),
            "layers": Member(Whole(1, MAX_LAYERS), help="full: this many blocks of a stage"),
            "modules": Member(Sequence(Word(RECOMPUTE_MODULES), shortest=1), help="selective: what is recomputed"),
        }
    ),
)
OFFLOAD = Record(
    {
        "optimizer": Member(_ANY_PLACE, default="none"),
        "parameters": Member(_ANY_PLACE, default="none"),
        "activations": Member(_PLACE, default="none"),
    }
)
ADAPTER = Record(
    {
        "method": Member(Word(ADAPTER_METHODS), required=True),
        "rank": Member(Whole(1, 65_536), default=16),
        "targets": Member(
            Either(word=Word(ADAPTER_TARGETS), items=NAMES),
            default="all-linear",
            help="attention, all-linear, or a list of names",
        ),
        "base_dtype": Member(Word(BASE_DTYPES), help="default: bf16; nf4 for qlora"),
    }
)
EXTRA_MODEL = Record(
    {
        "role": Member(Word(EXTRA_ROLES), required=True),
        "dtype": Member(Word(EXTRA_DTYPES), default="bf16"),
        "parameters": Member(Whole(1, MAX_PARAMETERS), nullable=True, help="null: a copy of the model"),
        "trainable": Member(Flag(), default=False),
    }
)


def knob_kind(knob: Knob) -> Kind:
    """The reader of one knob."""
    kinds: dict[KnobKind, Kind] = {
        KnobKind.FLAG: Flag(),
        KnobKind.WHOLE: Whole(int(knob.low), int(knob.high)),
        KnobKind.NUMBER: Number(knob.low, knob.high),
        KnobKind.WORD: Word(knob.choices),
        KnobKind.TEXT: Text(64),
        KnobKind.NAMES: Sequence(Word(knob.choices), shortest=1) if knob.choices else NAMES,
    }
    return kinds[knob.kind]


OPTIONS = Record({name: Member(knob_kind(knob), help=knob.help) for name, knob in KNOBS.items()})
ESTIMATE = Record(
    {
        "model": Member(MODEL, required=True),
        "hardware": Member(HARDWARE, required=True),
        "headroom": Member(Number(0, 0.99), default=0),
        "parallelism": Member(PARALLELISM),
        "sharding": Member(SHARDING),
        "pipeline": Member(PIPELINE),
        "precision": Member(PRECISION, default="bf16-mixed"),
        "optimizer": Member(OPTIMIZER, default="adamw"),
        "batch": Member(BATCH, required=True),
        "recompute": Member(RECOMPUTE, default="none"),
        "attention": Member(Word(tuple(Attention)), default="flash"),
        "offload": Member(OFFLOAD),
        "adapter": Member(ADAPTER, nullable=True),
        "extra_models": Member(Sequence(EXTRA_MODEL, longest=16), default=[]),
        "options": Member(OPTIONS),
    }
)
