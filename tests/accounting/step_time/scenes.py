"""Small scenarios for the time model: one H100 and A100 cluster, dense and mixture models, any layout."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from accounting.catalog import Accelerator, NodeType
from accounting.facts.optimizers import find_optimizer
from accounting.facts.precisions import PRESETS
from accounting.machine import Choice, Tables, machine_columns
from accounting.model import model_from_architecture
from accounting.model.model import Model
from accounting.options import Options
from accounting.partition import partition_of
from accounting.scenario import Layout, Recipe, Scenario, column
from accounting.step_time import Timing, step_time
from accounting.vocabulary import Engine, Schedule

H100 = Accelerator(
    slug="h100-sxm5-80gb",
    name="H100-SXM5-80GB",
    vendor="nvidia",
    architecture="Hopper",
    kind="gpu",
    form_factor="SXM5",
    memory_bytes=85_520_809_984,
    memory_gb_marketing=80,
    torch_total_gib=79.1,
    memory_bandwidth_bytes_per_second=3.35e12,
    fp32_tflops=66.9,
    tf32_tflops=494.7,
    fp16_tflops=989.4,
    bf16_tflops=989.4,
    fp8_tflops=1978.9,
    fp4_tflops=None,
    int8_tops=1978.9,
    measured_max_bf16_tflops=794.5,
    scaleup_link="NVLink 4",
    scaleup_bytes_per_second=450e9,
    pcie_generation=5,
    pcie_bytes_per_second=63e9,
    power_watts=700.0,
    supports_bf16=True,
    supports_fp8=True,
    compute_capability="9.0",
    default_node="dgx",
    confidence="high",
    source="test",
)
NODE = NodeType(
    slug="dgx",
    provider="reference",
    instance="dgx",
    accelerator="h100-sxm5-80gb",
    accelerator_count=8,
    vcpus=192,
    host_memory_bytes=2 * 2**40,
    local_nvme_bytes=None,
    intra_link="NVLink 4",
    intra_interconnect=None,
    intra_bytes_per_second=450e9,
    topology="switched",
    scaleup_domain_size=8,
    inter_link="InfiniBand",
    inter_interconnect=None,
    inter_bytes_per_second_total=400e9,
    inter_bytes_per_second_per_accelerator=50e9,
    assumed=False,
    confidence="high",
    source="test",
)


def _model(**changes: Any) -> Model:
    shape: dict[str, Any] = {
        "family": "llama",
        "layers": 32,
        "hidden_size": 4096,
        "heads": 32,
        "kv_heads": 8,
        "head_dim": 128,
        "ffn_size": 14336,
        "vocab_size": 128256,
        "max_positions": 8192,
    }
    return model_from_architecture(shape | changes)


DENSE = _model()
MIXTURE = _model(
    family="mixtral",
    vocab_size=32000,
    moe={"experts": 8, "top_k": 2, "expert_ffn_size": 14336},
)
GPT = _model(
    family="gpt2",
    layers=24,
    hidden_size=2048,
    heads=16,
    kv_heads=16,
    ffn_size=8192,
    gated_mlp=False,
    vocab_size=51200,
    learned_positions=True,
    tied_embeddings=True,
)
TINY = _model(layers=4, hidden_size=512, heads=8, kv_heads=8, head_dim=64, ffn_size=1536, vocab_size=32000)
TIED = _model(tied_embeddings=True)
LEARNED = _model(learned_positions=True)
_COLUMNS: Mapping[str, int] = {
    "dp_replicate": 1,
    "dp_shard": 1,
    "tp": 1,
    "cp": 1,
    "pp": 1,
    "vpp": 1,
    "ep": 1,
    "sequence_length": 4096,
    "micro_batch_size": 1,
    "micro_batches": 1,
}


def scene(
    model: Model = DENSE,
    *,
    accelerator: Accelerator = H100,
    node: NodeType = NODE,
    recipe: Mapping[str, Any] | None = None,
    **columns: Any,
) -> Scenario:
    """A scenario of one row per element of the longest column; `count` follows from the degrees."""
    degrees = {name: column(columns.get(name, default)) for name, default in _COLUMNS.items()}
    rows = max(len(values) for values in degrees.values())
    degrees = {name: np.broadcast_to(values, (rows, 1)).copy() for name, values in degrees.items()}
    count = degrees["dp_replicate"] * degrees["dp_shard"] * degrees["tp"] * degrees["cp"] * degrees["pp"]
    etp = np.where(degrees["ep"] > 1, 1, degrees["tp"])
    split = (degrees["tp"] > 1) & bool(columns.get("sequence_parallel", True))
    layout = Layout(**degrees, count=count, etp=etp, sequence_parallel=split)
    virtual = bool((degrees["vpp"] > 1).any())
    fields: dict[str, Any] = {
        "engine": Engine.FSDP2,
        "zero_stage": 3,
        "precision": PRESETS["bf16-mixed"],
        "optimizer": find_optimizer("adamw"),
        "options": Options(),
        "schedule": Schedule.INTERLEAVED if virtual else Schedule.ONE_F_ONE_B,
    }
    made = Recipe(model=model, **(fields | dict(recipe or {})))
    zero = np.zeros((rows, 1), dtype=np.int64)
    tables = Tables(accelerators=(accelerator,), node_types=(node,), offers=(None,))
    machine = machine_columns(
        tables, Choice(accelerator=zero, node_type=zero, offer=zero, count=count), made.precision.compute
    )
    return Scenario(recipe=made, layout=layout, machine=machine)


def timed(*arguments: Any, **keywords: Any) -> Timing:
    """The step of `scene(...)`."""
    scenario = scene(*arguments, **keywords)
    return step_time(scenario, partition_of(scenario))


def seconds(*arguments: Any, **keywords: Any) -> float:
    """Its seconds, first row."""
    return float(timed(*arguments, **keywords).step_seconds[0, 0])


def slower(node: NodeType = NODE, **changes: Any) -> NodeType:
    """The node with other facts."""
    return replace(node, **changes)
