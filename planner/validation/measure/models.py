"""The real model of a job: a transformers class from its config.json, or bare parameters from a list of tensors."""

from __future__ import annotations

import contextlib
from typing import Any

import torch
import transformers
from transformers.initialization import no_init_weights
from transformers.modeling_layers import GradientCheckpointingLayer

DTYPES = {
    "fp32": torch.float32,
    "bf16": torch.bfloat16,
    "fp16": torch.float16,
}


class Refused(Exception):
    """The library does not build what the job describes."""


class Tensors(torch.nn.Module):  # type: ignore[misc]  # torch is not there when types are checked
    """Parameters of given shapes; its loss reads each of them once."""

    def __init__(self, rows: list[dict[str, Any]]) -> None:
        super().__init__()
        for index, row in enumerate(rows):
            for copy in range(row.get("count", 1)):
                parameter = torch.nn.Parameter(torch.randn(row["shape"]) * 0.02, row.get("trainable", True))
                self.register_parameter(f"tensor_{index}_{copy}", parameter)

    def forward(self) -> Any:
        return sum((parameter.float() ** 2).sum() for parameter in self.parameters() if parameter.requires_grad)


def built(job: dict[str, Any], *, dtype: str, device: str, weights: bool = True) -> Any:
    """The model in training mode; without `weights` none is ever set. Raises Refused."""
    described = job["model"]
    if "tensors" in described:
        return Tensors(described["tensors"]).to(DTYPES[dtype])
    default = torch.get_default_dtype()
    torch.set_default_dtype(DTYPES[dtype])
    unset = contextlib.nullcontext() if weights else no_init_weights()
    try:
        kind, config = _kind_of(described["config"], job.get("attention", "sdpa"))
        with torch.device(device), unset:
            model = kind(config)
    except Refused:
        raise
    except Exception as fault:  # whatever a class raises on values it does not like
        raise Refused(f"{type(fault).__name__}: {fault}"[:600]) from fault
    finally:
        torch.set_default_dtype(default)
    model.tie_weights()
    if any(described["config"].get(name) for name in ("num_local_experts", "num_experts", "n_routed_experts")):
        model.set_experts_implementation(job.get("experts", "grouped_mm"))
    model.train()
    return model


def _kind_of(given: dict[str, Any], attention: str) -> tuple[Any, Any]:
    name = (given.get("architectures") or [None])[0]
    kind = getattr(transformers, name, None) if isinstance(name, str) else None
    if not (isinstance(kind, type) and issubclass(kind, transformers.PreTrainedModel)):
        raise Refused(f"transformers {transformers.__version__} has no model class {name!r}")
    config = transformers.AutoConfig.for_model(**{**given, "use_cache": False})
    config._attn_implementation = attention
    return kind, config


def blocks_of(model: Any) -> list[Any]:
    """The repeated blocks that an engine shards or recomputes one by one: the longest list of modules."""
    lists = [module for module in model.modules() if isinstance(module, torch.nn.ModuleList) and len(module)]
    if not lists:
        return []
    decoder = [found for found in lists if isinstance(found[0], GradientCheckpointingLayer)]
    return [block for found in decoder or [max(lists, key=len)] for block in found]


def batch_of(job: dict[str, Any], model: Any, device: str) -> dict[str, Any]:
    """Token ids and labels of the job's shape; rows are full, so no attention mask is handed over."""
    if isinstance(model, Tensors):
        return {}
    shape = (job["batch"]["micro_batch_size"], job["batch"]["sequence_length"])
    ids = torch.arange(shape[0] * shape[1], device=device).remainder(model.config.vocab_size).view(shape)
    batch = {"input_ids": ids, "labels": ids.clone()}
    if job.get("degrees", {}).get("tp", 1) > 1:
        # Else the class counts positions along the hidden states, which sequence parallelism has cut.
        batch["position_ids"] = torch.arange(shape[1], device=device).unsqueeze(0)
    return batch


def loss_of(model: Any, batch: dict[str, Any]) -> Any:
    """The loss alone: the logits are not kept, as in the library's own trainer."""
    answer = model(**batch)
    return answer.loss if hasattr(answer, "loss") else answer


def loss_and_outputs(job: dict[str, Any], model: Any, batch: dict[str, Any]) -> tuple[Any, Any]:
    """The loss, and what the engine's usual loop keeps of the outputs through the backward.

    `dropped`: nothing; `kept`: all (`outputs = model(**batch)`); `fp32`: all, the logits widened as accelerate does.
    """
    answer = model(**batch)
    if not hasattr(answer, "loss"):
        return answer, None
    loss = answer.loss
    if job["outputs"] == "dropped":
        return loss, None
    if job["outputs"] == "fp32":
        answer["logits"] = answer.logits.float()
    return loss, answer


def recompute(model: Any, mode: str) -> None:
    """Full recomputation of every block, as the library does it."""
    if mode == "full":
        model.gradient_checkpointing_enable({"use_reentrant": False})
