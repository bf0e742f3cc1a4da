"""One of several gloo ranks: wraps a tiny model as an exported FSDP configuration says and takes one step.

Called as `worker.py RANK FOLDER`: FOLDER/fsdp.yaml and FOLDER/model.json in, FOLDER/RANK.json out.
"""

# ruff: noqa: PLC0415 - the libraries are imported where they are known to be installed
from __future__ import annotations

import json
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT))

from tests.reallib.exports.reading import accelerate_environment, fsdp_plugin  # noqa: E402 - after the path

PATIENCE = timedelta(seconds=120)


def wrapped(config: dict[str, Any], plugin: Any) -> Any:
    """The model with every block and the whole under `fully_shard`, with the plugin's own values."""
    import torch
    import transformers
    from torch.distributed.fsdp import fully_shard

    torch.manual_seed(0)
    known = transformers.AutoConfig.for_model(**config)
    model = transformers.AutoModelForCausalLM.from_config(known, torch_dtype=torch.float32)
    values = {"reshard_after_forward": plugin.reshard_after_forward, "mp_policy": plugin.mixed_precision_policy}
    for block in model.model.layers:
        fully_shard(block, **values)
    return fully_shard(model, **values)


def local_bytes(tensors: Any) -> int:
    """Bytes of this rank's own part of distributed tensors; gradients of a block lie in one storage."""
    storages = (tensor.to_local().untyped_storage() for tensor in tensors)
    return sum({storage.data_ptr(): storage.nbytes() for storage in storages}.values())


def one_step(model: Any, vocabulary: int) -> dict[str, Any]:
    """A forward, a backward and a step of AdamW; what the rank holds afterwards."""
    import torch
    from torch.distributed.tensor import DTensor, Shard

    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    before = [parameter.to_local().clone() for parameter in model.parameters()]
    ids = torch.arange(64).remainder(vocabulary).view(1, 64)
    loss = model(input_ids=ids, labels=ids).loss
    loss.backward()
    optimizer.step()
    parameters = list(model.parameters())
    states = [optimizer.state[parameter] for parameter in parameters]
    return {
        "loss": float(loss.detach()),
        "sharded": all(isinstance(p, DTensor) and p.placements == (Shard(0),) for p in parameters),
        "moved": sum(bool((p.to_local() != old).any()) for p, old in zip(parameters, before, strict=True)),
        "tensors": len(parameters),
        "dtype": str(parameters[0].dtype),
        "parameters": local_bytes(parameters),
        "gradients": local_bytes(p.grad for p in parameters),
        "optimizer": local_bytes(state[name] for state in states for name in ("exp_avg", "exp_avg_sq")),
    }


def main(rank: int, folder: Path) -> None:
    import torch.distributed as dist

    path = folder / "fsdp.yaml"
    plugin = fsdp_plugin(path)
    with accelerate_environment(path):
        from accelerate.commands.config.config_args import load_config_from_file

        world = load_config_from_file(str(path)).num_processes
    meeting = f"file://{folder / 'meeting'}"
    dist.init_process_group("gloo", init_method=meeting, rank=rank, world_size=world, timeout=PATIENCE)
    config = json.loads((folder / "model.json").read_text())
    found = one_step(wrapped(config, plugin), config["vocab_size"])
    (folder / f"{rank}.json").write_text(json.dumps(found | {"world": world}))
    dist.destroy_process_group()


if __name__ == "__main__":
    main(int(sys.argv[1]), Path(sys.argv[2]))
