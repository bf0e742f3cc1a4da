"""Every registry row against its real library: two real steps on a CPU, held bytes equal to the byte.

The shapes stand in no table of measurements, and neither do the option sets at the end.
"""

from __future__ import annotations

import importlib.util
import os
import sys
import warnings
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from accounting.facts.optimizers import OPTIMIZERS, Optimizer
from accounting.model import model_from_config
from accounting.model.tensors import Tensor
from accounting.optimizer_laws import ModelFacts, TensorView, constant_bytes, state_bytes
from tests.reallib.sharding.cells import GPT2, LLAMA, QWEN, WEIGHT_ROLES

pytestmark = [pytest.mark.reallib, pytest.mark.filterwarnings("ignore")]
SKIP = "NOT RUN AGAINST THE REAL LIBRARY: {} is not installed; pip install -r tests/requirements-reallib.txt"

MATRICES = (
    ("layers.0.attn.q_proj.weight", (64, 64), "attention"),
    ("layers.0.attn.v_proj.weight", (80, 64), "attention"),
    ("layers.0.mlp.up_proj.weight", (173, 64), "mlp"),
    ("layers.0.mlp.down_proj.weight", (64, 173), "mlp"),
    ("layers.0.router", (3, 64), "router"),
    ("embed_tokens.weight", (211, 64), "embedding"),
    ("lm_head.weight", (211, 64), "head"),
)
LONG_VECTOR = (4099,)
VECTORS = (
    ("layers.0.norm.weight", (64,), "norm"),
    ("layers.0.mlp.bias", (173,), "bias"),
    ("odd.weight", LONG_VECTOR, "other"),
)
CONVOLUTIONS = (("conv.weight", (9, 3, 5, 5), "other"), ("stack.weight", (5, 7, 11), "other"))
SCALARS = (("scale", (), "other"), ("one", (1,), "other"))
PLAIN = (*MATRICES, *VECTORS, *CONVOLUTIONS, *SCALARS)
STRUCTURED = (*MATRICES, *VECTORS, *CONVOLUTIONS)
"""Without 0-d tensors and single elements, which the sweep's libraries do not take."""
NO_LONG_VECTORS = {"shampoo"}
"""Takes roots of a square matrix for every vector: minutes for one of 4,099."""
NO_CONVOLUTIONS = {"lomo", "adalomo", "adam-mini", "apollo-adamw", "galore-adamw", "galore-adamw-8bit"}
STRUCTURED_LIBRARIES = {"pytorch_optimizer", "heavyball", "galore-torch", "apollo-torch", "adam-mini", "lomo-optim"}
GROUPED = {"galore-torch", "apollo-torch"}
STEPS_RUN_HERE = {"lbfgs", "adashift-pytorch-optimizer"}
"""Their state grows with the steps; two are run here."""
DEFAULT_OPTIONS: dict[str, dict[str, Any]] = {
    **{name: {"momentum": 0.9} for name in ("sgd-8bit", "sgd-bitsandbytes", "lars-8bit", "lars")},
    **{name: {"rank": 16} for name in ("galore-adamw", "galore-adafactor", "galore-adamw-8bit", "apollo-adamw")},
}
UNLISTED: tuple[tuple[str, dict[str, Any]], ...] = (
    ("sgd", {"momentum": 0.5}),
    ("adam", {"fused": True, "amsgrad": True}),
    ("adamw", {"tensor_lr": True, "foreach": False}),
    ("rmsprop", {"momentum": 0.5, "centered": True}),
    ("adafactor-hf", {"beta1": 0.5}),
    ("lion-8bit", {"min_8bit_size": 1000}),
    ("ademamix-8bit", {"min_8bit_size": 100}),
    ("adamw-8bit-torchao", {"block_size": 64}),
    ("adamw-4bit", {"block_size": 32}),
    ("prodigy", {"slice_p": 7}),
    ("adamw-optimi", {"kahan_sum": False}),
    ("galore-adamw", {"rank": 5}),
    ("apollo-adamw", {"rank": 150}),
    ("soap", {"max_precondition_dim": 100}),
    ("shampoo-scalable", {"block_size": 48}),
    ("soap-heavyball", {"storage": "bfloat16"}),
)
FP32_ONLY = {"lbfgs"}
SPARSE = {"sparse-adam"}
"""Needs sparse gradients: covered by the measured table."""
THEIR_ERROR = {("psgd-pro-heavyball", "bf16"): "expected scalar type Float but found BFloat16"}
"""Run eagerly, its preconditioner mixes dtypes on some shapes."""
STILL_A_FLOAT = {"dadaptadan-pytorch-optimizer": 4}
"""Its step size is a Python float until it first grows, then a tensor of four bytes."""


def _available(library: str, modules: dict[str, str]) -> bool:
    return importlib.util.find_spec(modules[library].partition(".")[0]) is not None


@pytest.fixture(scope="module")
def real() -> Iterator[ModuleType]:
    if importlib.util.find_spec("torch") is None:
        pytest.skip(SKIP.format("torch"))
    import torch  # noqa: PLC0415 - only where it is installed

    torch.set_num_threads(1)
    patch = pytest.MonkeyPatch()
    # Their compiled or device-only calls, on a CPU without a compiler; none touches state.
    patch.setattr(torch, "compile", _uncompiled)
    patch.setattr(torch.cuda, "synchronize", lambda *_, **__: None)
    patch.setattr(torch.Tensor, "cuda", lambda self, *_, **__: self)
    patch.setenv("TORCH_COMPILE_DISABLE", "1")
    spec = importlib.util.spec_from_file_location("reallib_build", Path(__file__).with_name("build.py"))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["reallib_build"] = module
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        spec.loader.exec_module(module)
    yield module
    patch.undo()


def _same(function: Any) -> Any:
    return function


def _uncompiled(function: Any = None, **_: object) -> Any:
    return function or _same


def _tensors(optimizer: Optimizer) -> tuple[tuple[str, tuple[int, ...], str], ...]:
    shapes = STRUCTURED if optimizer.library in STRUCTURED_LIBRARIES else PLAIN
    if optimizer.name in NO_CONVOLUTIONS:
        shapes = (*MATRICES, *VECTORS)
    if optimizer.name in NO_LONG_VECTORS:
        shapes = tuple(one for one in shapes if one[1] != LONG_VECTOR)
    return shapes


def _views(optimizer: Optimizer) -> list[TensorView]:
    shapes = _tensors(optimizer)
    facts = ModelFacts(hidden_size=64, heads=4, elements=sum(int(np.prod(shape)) for _, shape, _ in shapes))
    return [
        TensorView(
            dims=tuple(np.asarray(size, dtype=np.int64) for size in shape),
            name=name,
            role=role,
            zero_initialised=role == "bias",
            model=facts,
        )
        for name, shape, role in shapes
    ]


def _predicted(optimizer: Optimizer, options: dict[str, Any], views: list[TensorView], width: int) -> int:
    total = sum(constant_bytes(optimizer, options, groups=2 if optimizer.library in GROUPED else 1))
    return total + sum(int(state_bytes(optimizer, options, view, width).total) for view in views)


def _held(real: ModuleType, optimizer: Optimizer, options: dict[str, Any], dtype: str) -> int:
    import torch  # noqa: PLC0415 - only where it is installed

    generator = torch.Generator().manual_seed(7)
    named = []
    for name, shape, role in _tensors(optimizer):
        value = torch.rand(shape, generator=generator) * 0.04 - 0.02
        value = torch.zeros(shape) if role == "bias" else value
        named.append((name, torch.nn.Parameter(value.to(getattr(torch, dtype))), role))
    made = real.build(optimizer, options, named)
    real.run_step(optimizer, made, named)
    held: int = real.held_bytes(made, named)
    return held


def _check(real: ModuleType, name: str, options: dict[str, Any], dtype: str) -> None:
    optimizer = OPTIMIZERS[name]
    if not _available(optimizer.library, real.MODULES):
        pytest.skip(SKIP.format(optimizer.library))
    short = {"float32": "fp32", "bfloat16": "bf16"}[dtype]
    if name in SPARSE or (name in FP32_ONLY and short != "fp32"):
        pytest.skip(f"{name} does not step these gradients")
    if optimizer.parameter_dtypes and short not in optimizer.parameter_dtypes:
        pytest.skip(f"{name} refuses {short} parameters, as its row says")
    steps = {"steps": 2} if name in STEPS_RUN_HERE else {}
    expected = _predicted(optimizer, {**options, **steps}, _views(optimizer), {"fp32": 4, "bf16": 2}[short])
    try:
        held = _held(real, optimizer, options, dtype)
    except RuntimeError as error:
        if THEIR_ERROR.get((name, short)) != str(error):
            raise
        pytest.skip(f"the library's own step fails: {error}")
    assert held == expected or expected - held == STILL_A_FLOAT.get(name)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("name", list(OPTIMIZERS))
def test_a_real_optimizer_holds_the_bytes_of_its_row(real: ModuleType, name: str, dtype: str) -> None:
    _check(real, name, DEFAULT_OPTIONS.get(name, {}), dtype)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize(("name", "options"), UNLISTED, ids=str)
def test_option_sets_that_no_table_lists(real: ModuleType, name: str, options: dict[str, Any], dtype: str) -> None:
    _check(real, name, options, dtype)


TRANSFORMERS = {"qwen2": QWEN, "gpt2": GPT2, "llama": LLAMA}
EVERYTHING = os.environ.get("REALLIB_EVERYTHING") == "1"
ON_TRANSFORMERS = [
    (name, model)
    for place, name in enumerate(OPTIMIZERS)
    for turn, model in enumerate(TRANSFORMERS)
    if EVERYTHING or place % len(TRANSFORMERS) == turn
]
"""Each optimizer on one of them, in turn; all on all with REALLIB_EVERYTHING=1."""


@cache
def _inventory(model: str) -> tuple[tuple[Tensor, ...], ModelFacts]:
    """Every tensor of the model by our own reading of its config, blocks one after the other."""
    ours = model_from_config(TRANSFORMERS[model])
    inventory, architecture = ours.inventory, ours.architecture
    assert inventory is not None
    assert architecture is not None
    blocks = [tensor for kind in inventory.pattern for tensor in inventory.kinds[kind].tensors]
    tensors = tuple(t for tensor in (*inventory.first, *blocks, *inventory.last) for t in [tensor] * tensor.count)
    elements = sum(int(np.prod(tensor.shape)) for tensor in tensors)
    return tensors, ModelFacts(hidden_size=architecture.hidden_size, heads=architecture.heads, elements=elements)


def _real_parameters(model: str, dtype: str) -> list[tuple[str, Any, str]]:
    import torch  # noqa: PLC0415 - only where it is installed
    import transformers  # noqa: PLC0415

    torch.manual_seed(3)
    config = transformers.AutoConfig.for_model(**TRANSFORMERS[model])
    module = transformers.AutoModelForCausalLM.from_config(config, torch_dtype=getattr(torch, dtype))
    known = {tensor.name: tensor.role for tensor in _inventory(model)[0] if tensor.role in WEIGHT_ROLES}
    return [(name, parameter, known.get(name, "other")) for name, parameter in module.named_parameters()]


@pytest.mark.parametrize(("name", "model"), ON_TRANSFORMERS)
def test_states_on_real_transformers(real: ModuleType, name: str, model: str) -> None:
    optimizer = OPTIMIZERS[name]
    if not _available(optimizer.library, real.MODULES) or importlib.util.find_spec("transformers") is None:
        pytest.skip(SKIP.format(f"{optimizer.library} or transformers"))
    if name in SPARSE:
        pytest.skip(f"{name} does not step these gradients")
    if name == "lbfgs":
        pytest.skip("how many pairs of steps it keeps depends on the path it takes, not on shapes alone")
    dtype, width = ("bfloat16", 2) if optimizer.parameter_dtypes == ("bf16",) else ("float32", 4)
    options = DEFAULT_OPTIONS.get(name, {})
    tensors, facts = _inventory(model)
    steps = {"steps": 2} if name in STEPS_RUN_HERE else {}
    expected = _predicted(optimizer, {**options, **steps}, [TensorView.of(t, model=facts) for t in tensors], width)
    named = _real_parameters(model, dtype)
    made = real.build(optimizer, options, named, facts)
    real.run_step(optimizer, made, named)
    held = real.held_bytes(made, named)
    assert held == expected or expected - held == STILL_A_FLOAT.get(name)
