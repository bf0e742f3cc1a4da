"""One rank of a gloo world: runs cells for real and writes what every rank holds.

Called as `worker.py RANK WORLD FOLDER`: FOLDER/cells.json in, FOLDER/RANK.json out, a shared file as meeting place.
"""

# ruff: noqa: PLC0415 - the libraries are imported where they are known to be installed
from __future__ import annotations

import gc
import json
import os
import sys
import traceback
import warnings
from datetime import timedelta
from pathlib import Path
from typing import Any

os.environ.setdefault("DS_ACCELERATOR", "cpu")
os.environ.setdefault("TORCH_COMPILE_DISABLE", "1")
warnings.filterwarnings("ignore")

import torch  # noqa: E402 - after the environment is set
import torch.distributed as dist  # noqa: E402
from torch import nn  # noqa: E402

ROOT = Path(__file__).resolve().parents[3]
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "reallib" / "optimizers")]

import build  # noqa: E402 - the optimizers' own builders

from tests.reallib.sharding import cells as matrix  # noqa: E402

torch.compile = lambda function=None, **_: function or (lambda inner: inner)  # type: ignore[assignment]
torch.cuda.synchronize = lambda *_, **__: None  # type: ignore[assignment]
torch.Tensor.cuda = lambda self, *_, **__: self  # type: ignore[assignment,method-assign]
BF16 = torch.bfloat16
PATIENCE = timedelta(seconds=60)


class Vision(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.gain = nn.Parameter(torch.ones(3))
        self.stem = nn.Conv2d(3, 13, 5)
        self.mix = nn.Linear(13, 31)
        self.head = nn.Linear(31, 7, bias=False)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        features = self.stem(images * self.gain.view(1, 3, 1, 1)).mean(dim=(2, 3))
        return self.head(torch.relu(self.mix(features)))


def make(cell: matrix.Cell) -> nn.Module:
    torch.manual_seed(0)
    if cell.model == "vision":
        module: Any = Vision()
    else:
        import transformers

        config = transformers.AutoConfig.for_model(**matrix.CONFIGS[cell.model])
        module = transformers.AutoModelForCausalLM.from_config(config, torch_dtype=torch.float32)
    if cell.lora:
        import peft

        names = ["q_proj", "k_proj", "v_proj", "o_proj"]
        module = peft.get_peft_model(module, peft.LoraConfig(r=cell.lora, target_modules=names))
    return module.to(BF16) if cell.precision == "bf16-pure" else module


def blocks(module: nn.Module) -> list[nn.Module]:
    for name, inner in module.named_modules():
        if isinstance(inner, nn.ModuleList) and name.rpartition(".")[2] in {"layers", "h"}:
            return list(inner)
    return []


def loss_of(wrapped: Any, cell: matrix.Cell, dtype: torch.dtype) -> torch.Tensor:
    if cell.model == "vision":
        return wrapped(torch.randn(2, 3, 9, 9, dtype=dtype)).float().pow(2).mean()
    ids = torch.arange(16).remainder(matrix.model_of(cell).architecture.vocab_size).view(1, 16)  # type: ignore[union-attr]
    return wrapped(input_ids=ids, labels=ids).loss


def roles(cell: matrix.Cell) -> dict[str, str]:
    inventory = matrix.model_of(cell).inventory
    assert inventory is not None
    return {tensor.name: tensor.role for tensor in (*inventory.first, *inventory.last)}


def named_of(module: nn.Module, cell: matrix.Cell) -> build.Named:
    known = roles(cell)

    def role(name: str) -> str:
        plain = name.replace("_fsdp_wrapped_module.", "").removeprefix("module.")
        return known.get(plain, "other")

    return [(name, p, role(name)) for name, p in module.named_parameters() if p.requires_grad]


def storages(tensors: Any) -> dict[int, int]:
    held = {}
    for tensor in tensors:
        for part in build._plain(tensor):
            storage = part.untyped_storage()
            if storage.nbytes():
                held[storage._cdata] = storage.nbytes()
    return held


def optimizer_bytes(made: list[Any], own: set[int]) -> int:
    found: dict[int, int] = {}
    for one in made:
        attributes = {name: value for name, value in vars(one).items() if name not in {"state", "defaults"}}
        states = [one.state[key] for key in one.state]
        found |= storages(build._reachable([states, attributes], set()))
    return sum(size for key, size in found.items() if key not in own)


def wrap(cell: matrix.Cell, module: nn.Module) -> nn.Module:
    if cell.engine in {"ddp", "zero1"}:
        return nn.parallel.DistributedDataParallel(module, gradient_as_bucket_view=True)
    if cell.engine == "fsdp2":
        from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

        mixed = cell.precision == "bf16-mixed"
        policy = MixedPrecisionPolicy(param_dtype=BF16, reduce_dtype=torch.float32) if mixed else MixedPrecisionPolicy()
        for block in (*blocks(module), module):
            fully_shard(block, mp_policy=policy)
        return module
    return wrap_flat(cell, module)


def wrap_flat(cell: matrix.Cell, module: nn.Module) -> nn.Module:
    from torch.distributed.fsdp import FullyShardedDataParallel, MixedPrecision, ShardingStrategy
    from torch.distributed.fsdp.wrap import ModuleWrapPolicy

    kinds = {type(block) for block in blocks(module)}
    mixed = MixedPrecision(param_dtype=BF16, reduce_dtype=torch.float32) if cell.precision == "bf16-mixed" else None
    return FullyShardedDataParallel(
        module,
        sharding_strategy=ShardingStrategy.SHARD_GRAD_OP if cell.stage == 2 else ShardingStrategy.FULL_SHARD,
        device_id=torch.device("cpu"),
        use_orig_params=cell.options.get("use_orig_params", True),
        auto_wrap_policy=ModuleWrapPolicy(kinds) if kinds else None,
        mixed_precision=mixed,
    )


def optimizers(cell: matrix.Cell, wrapped: nn.Module) -> list[Any]:
    row = matrix.OPTIMIZERS[cell.optimizer]
    if cell.engine != "zero1":
        return build.build(row, dict(cell.optimizer_options), named_of(wrapped, cell), matrix.facts_of(cell))
    from torch.distributed.optim import ZeroRedundancyOptimizer

    options = dict(cell.optimizer_options)
    if row.name == "adafactor-hf":
        options |= {"scale_parameter": False, "relative_step": False}
    parameters = [parameter for parameter in wrapped.parameters() if parameter.requires_grad]
    return [ZeroRedundancyOptimizer(parameters, optimizer_class=build.real_class(row), lr=1e-4, **options)]


def run_torch(cell: matrix.Cell) -> tuple[int, int, int]:
    wrapped = wrap(cell, make(cell))
    made = optimizers(cell, wrapped)
    dtype = BF16 if cell.precision == "bf16-pure" else torch.float32
    for _ in range(2):
        for one in made:
            one.zero_grad(set_to_none=True)
        loss_of(wrapped, cell, dtype).backward()
        # Before the step: some optimizers let the gradients go as they use them.
        gradients = sum(storages(tensors_of(cell, wrapped)[1]).values())
        for one in made:
            one.step()
    weights, left = tensors_of(cell, wrapped)
    held = storages(weights)
    every = storages(wrapped.parameters()) | held | storages(left)
    inner = [one.optim if cell.engine == "zero1" else one for one in made]
    return sum(held.values()), gradients, optimizer_bytes(inner, set(every))


def tensors_of(cell: matrix.Cell, wrapped: nn.Module) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
    """Parameters and gradients as the rank stores them."""
    return flat_tensors(wrapped) if cell.engine == "fsdp1" else plain_tensors(wrapped)


def plain_tensors(module: nn.Module) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
    parameters = list(module.parameters())
    return parameters, [parameter.grad for parameter in parameters if parameter.grad is not None]


def flat_tensors(module: nn.Module) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
    from torch.distributed.fsdp import FullyShardedDataParallel

    flats = [inner._handle.flat_param for inner in FullyShardedDataParallel.fsdp_modules(module) if inner._handle]
    shards = [getattr(flat, "_local_shard", None) for flat in flats]
    held = [flat if shard is None else shard for flat, shard in zip(flats, shards, strict=True)]
    return held, [flat.grad for flat in flats if flat.grad is not None]


def run(cell: matrix.Cell) -> tuple[int, int, int]:
    if cell.engine == "deepspeed":
        import zero

        return zero.run(cell, make(cell), named_of, loss_of)
    return run_torch(cell)


def join(folder: Path, number: int, rank: int, world: int) -> None:
    meeting = f"file://{folder}/meeting-{number}"
    dist.init_process_group("gloo", init_method=meeting, rank=rank, world_size=world, timeout=PATIENCE)


def main(rank: int, world: int, folder: Path) -> None:
    """A group of its own for every cell: a rank alone in an error leaves the others to a timeout, not to the next cell.

    DeepSpeed remembers the first group it saw, so its cells share one.
    """
    os.environ |= {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(world), "LOCAL_SIZE": str(world)}
    torch.set_num_threads(1)
    found: dict[str, Any] = {}
    chosen = [matrix.Cell(**given) for given in json.loads((folder / "cells.json").read_text())]
    chosen.sort(key=lambda cell: cell.engine == "deepspeed")
    for number, cell in enumerate(chosen):
        if not dist.is_initialized():
            join(folder, number, rank, world)
        try:
            found[cell.name] = run(cell)
        except Exception as error:
            found[cell.name] = f"{type(error).__name__}: {error}"[:600]
            if os.environ.get("REALLIB_TRACE"):
                traceback.print_exc()
        print(cell.name, found[cell.name], file=sys.stderr, flush=True)
        gc.collect()
        if cell.engine != "deepspeed":
            dist.destroy_process_group()
    (folder / f"{rank}.json").write_text(json.dumps(found))


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parent))
    main(int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3]))
