"""The combinations that are run for real: engine, model, optimizer, precision, and what the library says to them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np

from accounting.catalog import Accelerator
from accounting.facts.optimizers import OPTIMIZERS
from accounting.facts.precisions import PRESETS
from accounting.machine import single_machine
from accounting.memory.ranks import states_by_rank
from accounting.memory.zero_redundancy import owners
from accounting.model import Adapter, Model, model_from_config, model_from_tensors
from accounting.optimizer_laws import ModelFacts, TensorView, constant_bytes, state_bytes
from accounting.options import Options
from accounting.scenario import Layout, Recipe, Scenario, column
from accounting.vocabulary import Engine

QWEN = {
    "architectures": ["Qwen2ForCausalLM"],
    "model_type": "qwen2",
    "vocab_size": 611,
    "hidden_size": 70,
    "intermediate_size": 149,
    "num_hidden_layers": 3,
    "num_attention_heads": 5,
    "num_key_value_heads": 1,
    "max_position_embeddings": 64,
    "tie_word_embeddings": True,
    "hidden_act": "silu",
}
"""Tied embeddings, biases on q, k and v, and sizes that neither 2 nor 4 divide."""
GPT2 = {
    "architectures": ["GPT2LMHeadModel"],
    "model_type": "gpt2",
    "n_embd": 96,
    "n_layer": 2,
    "n_head": 4,
    "vocab_size": 515,
    "n_positions": 33,
}
LLAMA = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "vocab_size": 768,
    "hidden_size": 256,
    "intermediate_size": 512,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 64,
    "tie_word_embeddings": False,
}
"""Large enough for shards of 4,096 elements, which 8-bit states ask for."""
CONFIGS: dict[str, dict[str, Any]] = {"qwen": QWEN, "gpt2": GPT2, "llama": LLAMA}
VISION: tuple[tuple[str, tuple[int, ...]], ...] = (
    ("gain", (3,)),
    ("stem.weight", (13, 3, 5, 5)),
    ("stem.bias", (13,)),
    ("mix.weight", (31, 13)),
    ("mix.bias", (31,)),
    ("head.weight", (7, 31)),
)
"""A convolution with a gain, a mixing layer and a head without bias: no transformer, no size that 2, 3 or 4 divides."""
WEIGHT_ROLES = ("embedding", "position", "head")


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    engine: str
    """`zero1` is DDP with ZeroRedundancyOptimizer."""
    model: str
    optimizer: str = "adamw"
    stage: int = 3
    world: int = 2
    precision: str = "fp32"
    options: dict[str, Any] = field(default_factory=dict)
    optimizer_options: dict[str, Any] = field(default_factory=dict)
    lora: int = 0
    refused: str = ""
    """What the library says where it does not run this."""
    in_ci: bool = True

    @property
    def name(self) -> str:
        stage = "" if self.engine in {"ddp", "zero1"} else str(self.stage)
        words = [self.engine, stage, self.precision, self.model]
        words += [self.optimizer, f"lora{self.lora}" if self.lora else ""]
        words += [f"{key}={value}" for key, value in (self.options | self.optimizer_options).items()]
        return " ".join([*(word for word in words if word), f"W={self.world}"])


def model_of(cell: Cell) -> Model:
    if cell.model == "vision":
        return model_from_tensors([{"name": name, "shape": list(shape)} for name, shape in VISION])
    return model_from_config(CONFIGS[cell.model])


def facts_of(cell: Cell) -> ModelFacts:
    """What Adam-mini asks about the model."""
    architecture = model_of(cell).architecture
    return ModelFacts(hidden_size=architecture.hidden_size, heads=architecture.heads) if architecture else ModelFacts()


def scenario_of(cell: Cell) -> Scenario:
    """Our side of a cell: nothing but the layout, the recipe and a device without properties."""
    engine = Engine.DDP if cell.engine == "zero1" else Engine(cell.engine)
    copies = engine is Engine.DDP or cell.stage == 0
    known = {"slug": "none", "name": "none", "software_devices": 1}
    device = Accelerator(**{item.name: known.get(item.name) for item in fields(Accelerator)})  # type: ignore[arg-type]
    ones = dict.fromkeys(("tp", "cp", "pp", "vpp", "ep", "etp", "micro_batch_size", "micro_batches"), column(1))
    return Scenario(
        recipe=Recipe(
            model=model_of(cell),
            engine=engine,
            zero_stage=0 if engine is Engine.DDP else cell.stage,
            precision=PRESETS[cell.precision],
            optimizer=OPTIMIZERS[cell.optimizer],
            optimizer_options=cell.optimizer_options,
            adapter=Adapter(method="lora", rank=cell.lora, targets="attention", base_dtype="fp32")
            if cell.lora
            else None,
            options=Options(**cell.options),
        ),
        layout=Layout(
            count=column(cell.world),
            dp_replicate=column(cell.world if copies else 1),
            dp_shard=column(1 if copies else cell.world),
            sequence_parallel=column(False, np.bool_),
            sequence_length=column(16),
            **ones,
        ),
        machine=single_machine(device, None, None, cell.world, "fp32"),
    )


SUMMED_RATE = {("fsdp1", "prodigy"): 16}
"""Its rate and the two sums behind it are Python floats until it adds them up over the ranks, then tensors."""


def predicted(cell: Cell) -> list[tuple[int, int, int]]:
    """(parameters, gradients, optimizer with master weights and scalars) of every rank."""
    scenario = scenario_of(cell)
    held = states_by_rank(scenario)
    optimizer = held.optimizer_states + held.master_weights + held.host
    optimizer = optimizer + SUMMED_RATE.get((cell.engine, cell.optimizer), 0)
    rows = [tuple(int(v) for v in row) for row in zip(held.parameters, held.gradients, optimizer, strict=True)]
    if cell.engine == "zero1":
        return [(rows[0][0], rows[0][1], state) for state in _redundant_states(cell, scenario)]
    return rows if len(rows) == cell.world else rows * cell.world  # type: ignore[return-value]


def _redundant_states(cell: Cell, scenario: Scenario) -> list[int]:
    tensors = [t for t, times in _registered(scenario) for _ in range(t.count * times) if t.trainable]
    optimizer = OPTIMIZERS[cell.optimizer]
    held = [sum(constant_bytes(optimizer, cell.optimizer_options))] * cell.world
    for tensor, rank in zip(tensors, owners([tensor.elements for tensor in tensors], cell.world), strict=True):
        one = state_bytes(optimizer, cell.optimizer_options, TensorView.of(tensor), 4)
        held[rank] += int(one.total)
    return held


def _registered(scenario: Scenario) -> Iterator[tuple[Any, int]]:
    """Tensors in the order a model registers them: blocks one after the other."""
    inventory = scenario.recipe.inventory
    yield from ((tensor, 1) for tensor in inventory.first)
    for kind in inventory.pattern:
        yield from ((tensor, 1) for tensor in inventory.kinds[kind].tensors)
    yield from ((tensor, 1) for tensor in inventory.last)
