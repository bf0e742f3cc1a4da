"""Convergence check: a small character model trained with the candidate and with fp32 AdamW from the same seeds."""

from __future__ import annotations

import contextlib
import copy
import math
import random
from typing import Any

import torch
from torch import nn
from torch.nn import functional

from planner.validation.measure.models import DTYPES
from planner.validation.measure.noise import noise_of
from planner.validation.measure.optimizers import built_optimizers
from planner.validation.measure.text import text

CHARACTERS = 60_000
CONTEXT = 32
BATCH = 8
WIDTH = 64
HEADS = 4
BLOCKS = 2
FINAL_SHARE = 0.15
"""Of the steps: their mean is the final loss."""
REFERENCE_RATE = 3e-3
RATES = {"sgd": 0.3, "muon": 0.02, "lion": 6e-4, "lion-8bit": 6e-4, "adafactor": 1e-2, "adafactor-hf": 3e-3}
"""Rates at which each candidate trains this model well; the others take the reference's."""
NEVER = 1e6
"""A loss beyond this is divergence, whatever follows."""


_REFERENCES: dict[tuple[int, int], tuple[dict[str, Any], Any, Any]] = {}
"""By seed and steps: several candidates of one work order share them."""


class Block(nn.Module):  # type: ignore[misc]  # torch is not there when types are checked
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.mix, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x: Any) -> Any:
        batch, length, _ = x.shape
        q, k, v = self.mix(self.first(x)).view(batch, length, 3, HEADS, WIDTH // HEADS).permute(2, 0, 3, 1, 4)
        seen = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(seen.transpose(1, 2).reshape(batch, length, WIDTH))
        return x + self.down(functional.gelu(self.up(self.second(x))))


class Characters(nn.Module):  # type: ignore[misc]
    """About 110,000 parameters: its matrices are above the sizes from which 8-bit states are quantised."""

    def __init__(self, letters: int) -> None:
        super().__init__()
        self.embed = nn.Embedding(letters, WIDTH)
        self.position = nn.Parameter(torch.randn(CONTEXT, WIDTH) * 0.02)
        self.blocks = nn.ModuleList([Block() for _ in range(BLOCKS)])
        self.norm = nn.LayerNorm(WIDTH)
        self.lm_head = nn.Linear(WIDTH, letters)

    def forward(self, ids: Any, targets: Any) -> Any:
        x = self.embed(ids) + self.position
        for block in self.blocks:
            x = block(x)
        return functional.cross_entropy(self.lm_head(self.norm(x)).float().flatten(0, 1), targets.flatten())


def measure(job: dict[str, Any]) -> dict[str, Any]:
    """Losses of both, seed by seed; how many updates vanish; the noise of compressed moments by layer."""
    torch.set_num_threads(1)
    corpus = text(CHARACTERS)
    letters = sorted(set(corpus))
    data = torch.tensor([letters.index(letter) for letter in corpus])
    runs, start, trained = [], [], None
    for seed in range(job["seeds"]):
        torch.manual_seed(seed)
        model = Characters(len(letters))
        start.append(_first_loss(model, data, seed))
        key = (seed, job["steps"])
        if key not in _REFERENCES:
            _REFERENCES[key] = _train(_reference(job), copy.deepcopy(model), data, seed)
        reference, trained, optimizer = _REFERENCES[key]
        candidate, _, _ = _train(job, copy.deepcopy(model), data, seed)
        runs.append({"seed": seed, "candidate": candidate, "reference": reference})
        job["progress"](progress=(seed + 1) / job["seeds"])
    return {
        "seeds": runs,
        "start_loss": sum(start) / len(start),
        "parameters": sum(parameter.numel() for parameter in model.parameters()),
        "characters": CHARACTERS,
        "noise": noise_of(trained, optimizer),
    }


def _reference(job: dict[str, Any]) -> dict[str, Any]:
    plain = {"compute": "fp32", "parameters": "fp32", "reduce": "fp32"}
    return {
        **job,
        "precision": plain,
        "optimizer": {"name": "adamw", "options": {}},
        "learning_rate": REFERENCE_RATE,
    }


def _batches(data: Any, seed: int, steps: int) -> Any:
    chance = random.Random(seed)  # noqa: S311 - the same batches for both
    for _ in range(steps):
        starts = [chance.randrange(len(data) - CONTEXT - 1) for _ in range(BATCH)]
        rows = torch.stack([data[start : start + CONTEXT + 1] for start in starts])
        yield rows[:, :-1], rows[:, 1:]


def _first_loss(model: Any, data: Any, seed: int) -> float:
    with torch.no_grad():
        return float(model(*next(_batches(data, seed, 1))))


def _train(job: dict[str, Any], model: Any, data: Any, seed: int) -> tuple[dict[str, Any], Any, Any]:
    """(losses and vanished updates, the trained model, its first optimizer)."""
    precision = job["precision"]
    model = model.to(DTYPES[precision["parameters"]])
    rate = job.get("learning_rate") or RATES.get(job["optimizer"]["name"], REFERENCE_RATE)
    optimizers = built_optimizers(job, model, rate)
    mixed = precision["compute"] != precision["parameters"]
    losses: list[float] = []
    vanished = _Vanished(model)
    for number, (ids, targets) in enumerate(_batches(data, seed, job["steps"])):
        cast = torch.autocast("cpu", DTYPES[precision["compute"]]) if mixed else contextlib.nullcontext()
        with cast:
            loss = model(ids, targets)
        losses.append(float(loss.detach()))
        if not math.isfinite(losses[-1]) or losses[-1] > NEVER:
            break
        loss.backward()
        looked = number >= job["steps"] // 2 and number % 10 == 0
        before = vanished.remember() if looked else None
        for one in optimizers:
            one.step()
        if before is not None:
            vanished.count(before)
        if number < job["steps"] - 1:
            for one in optimizers:
                one.zero_grad(set_to_none=True)
    return {**_curve(losses, job["steps"]), "unchanged_share": vanished.share()}, model, optimizers[0]


def _curve(losses: list[float], steps: int) -> dict[str, Any]:
    """Final loss (None where it is no number) and some twenty points of the curve."""
    last = losses[-max(1, int(steps * FINAL_SHARE)) :]
    finished = len(losses) == steps and all(math.isfinite(loss) for loss in losses)
    every = max(1, steps // 20)
    points = [[number, round(loss, 5)] for number, loss in enumerate(losses) if number % every == 0]
    return {
        "final_loss": sum(last) / len(last) if finished else None,
        "curve": [point for point in points if math.isfinite(point[1])],
        "steps": len(losses),
    }


class _Vanished:
    """Weights of matrices that a step left exactly as they were although their gradient was not zero."""

    def __init__(self, model: Any) -> None:
        self.named = [(name, parameter) for name, parameter in model.named_parameters() if parameter.ndim > 1]
        self.same: dict[str, int] = {}
        self.all: dict[str, int] = {}

    def remember(self) -> list[Any]:
        return [parameter.detach().clone() for _, parameter in self.named]

    def count(self, before: list[Any]) -> None:
        for (name, parameter), old in zip(self.named, before, strict=True):
            moving = parameter.grad != 0
            self.same[name] = self.same.get(name, 0) + int(((parameter.detach() == old) & moving).sum())
            self.all[name] = self.all.get(name, 0) + int(moving.sum())

    def share(self) -> dict[str, Any]:
        by_layer = {name: self.same[name] / self.all[name] for name in self.all if self.all[name]}
        total = sum(self.all.values())
        return {"all": sum(self.same.values()) / total if total else None, "by_layer": by_layer}
