"""Convergence check: a small character model trained with the candidate and with fp32 AdamW from the same seeds.

With `ranks` the candidate trains under its engine on so many processes, each on its share of the same batches.
"""

from __future__ import annotations

import contextlib
import copy
import math
import random
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional

from planner.validation.measure.models import DTYPES
from planner.validation.measure.noise import noise_of
from planner.validation.measure.optimizers import built_optimizers
from planner.validation.measure.ranks import on_ranks
from planner.validation.measure.states import ENGINES
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
    """Losses of both, seed by seed; how many updates vanish; the noise of compressed moments by seed and layer."""
    torch.set_num_threads(1)
    corpus = text(CHARACTERS)
    letters = sorted(set(corpus))
    data = torch.tensor([letters.index(letter) for letter in corpus])
    runs, start, noise = [], [], []
    for seed in range(job["seeds"]):
        torch.manual_seed(seed)
        model = Characters(len(letters))
        start.append(_first_loss(model, data, seed))
        key = (seed, job["steps"])
        if key not in _REFERENCES:
            losses, reference, optimizer = _train(_reference(job), copy.deepcopy(model), data, seed)
            _REFERENCES[key] = (_curve(losses, job["steps"]), reference, optimizer)
        curve, trained, optimizer = _REFERENCES[key]
        noise.append(noise_of(trained, optimizer))
        runs.append({"seed": seed, "candidate": _candidate(job, model, data, seed), "reference": curve})
        job["progress"](progress=(seed + 1) / job["seeds"])
    return {
        "seeds": runs,
        "start_loss": sum(start) / len(start),
        "ranks": job["ranks"],
        "parameters": sum(parameter.numel() for parameter in model.parameters()),
        "characters": CHARACTERS,
        "noise": noise,
    }


def _candidate(job: dict[str, Any], model: Any, data: Any, seed: int) -> dict[str, Any]:
    """Curve of the candidate: on one process as it is, on several under its engine, their losses averaged."""
    if job["ranks"] == 1:
        losses, _, _ = _train(job, model, data, seed)
        return _curve(losses, job["steps"])
    answers = on_ranks(job["ranks"], lambda: _train_rank(job, model, data, seed))
    shares = [answer["unchanged"] for answer in answers]
    step = [sum(found) / len(answers) for found in zip(*(answer["losses"] for answer in answers), strict=False)]
    held = {name: (sum(same[name][0] for same in shares), sum(same[name][1] for same in shares)) for name in shares[0]}
    return _curve(Losses(step, held), job["steps"])


def _train_rank(job: dict[str, Any], model: Any, data: Any, seed: int) -> dict[str, Any]:
    """One rank's losses and vanished updates; NaN is told as text would be, by the losses that end there."""
    losses, _, _ = _train(job, model, data, seed)
    return {"losses": losses.each, "unchanged": losses.unchanged}


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


@dataclass(slots=True)
class Losses:
    """Of every step, until one is no number; weights left unchanged and all that had a gradient, by matrix."""

    each: list[float]
    unchanged: dict[str, tuple[int, int]]


def _train(job: dict[str, Any], model: Any, data: Any, seed: int) -> tuple[Losses, Any, Any]:
    """(losses, the trained model, its first optimizer); under the job's engine where there is a group."""
    precision, steps = job["precision"], job["steps"]
    model = model.to(DTYPES[precision["parameters"]])
    mixed, share = precision["compute"] != precision["parameters"], slice(None)
    if dist.is_initialized():
        model = ENGINES[job["engine"]](job, model)
        mixed = job["autocast"]
        share = slice(dist.get_rank(), None, dist.get_world_size())
    rate = job.get("learning_rate") or RATES.get(job["optimizer"]["name"], REFERENCE_RATE)
    optimizers = built_optimizers(job, model, rate)
    losses = Losses([], {})
    for number, (ids, targets) in enumerate(_batches(data, seed, steps)):
        cast = torch.autocast("cpu", DTYPES[precision["compute"]]) if mixed else contextlib.nullcontext()
        with cast:
            loss = model(ids[share], targets[share])
        losses.each.append(float(loss.detach()))
        if _hopeless(losses.each[-1]):
            break
        loss.backward()
        looked = number >= steps // 2 and number % 10 == 0
        before = _remembered(model) if looked else {}
        for one in optimizers:
            one.step()
        _count_unchanged(losses.unchanged, before, model)
        if number < steps - 1:
            for one in optimizers:
                one.zero_grad(set_to_none=True)
    return losses, model, optimizers[0]


def _hopeless(loss: float) -> bool:
    """True on every rank as soon as it is on one: they stop together."""
    lost = not math.isfinite(loss) or loss > NEVER
    if not dist.is_initialized():
        return lost
    any_lost = torch.tensor(float(lost))
    dist.all_reduce(any_lost)
    return bool(any_lost > 0)


def _curve(losses: Losses, steps: int) -> dict[str, Any]:
    """Final loss (None where it is no number), some twenty points of the curve, and the share of vanished updates."""
    last = losses.each[-max(1, int(steps * FINAL_SHARE)) :]
    finished = len(losses.each) == steps and all(math.isfinite(loss) for loss in losses.each)
    every = max(1, steps // 20)
    points = [[number, round(loss, 5)] for number, loss in enumerate(losses.each) if number % every == 0]
    total = sum(moving for _, moving in losses.unchanged.values())
    same = sum(same for same, _ in losses.unchanged.values())
    return {
        "final_loss": sum(last) / len(last) if finished else None,
        "curve": [point for point in points if math.isfinite(point[1])],
        "steps": len(losses.each),
        "unchanged_share": {
            "all": same / total if total else None,
            "by_layer": {name: same / moving for name, (same, moving) in losses.unchanged.items() if moving},
        },
    }


def _matrices(model: Any) -> dict[str, Any]:
    return {name: parameter for name, parameter in model.named_parameters() if parameter.ndim > 1}


def _own(tensor: Any) -> Any:
    """The shard that this rank holds."""
    return tensor.to_local() if hasattr(tensor, "to_local") else tensor


def _remembered(model: Any) -> dict[str, Any]:
    return {name: _own(parameter.detach()).clone() for name, parameter in _matrices(model).items()}


def _count_unchanged(found: dict[str, tuple[int, int]], before: dict[str, Any], model: Any) -> None:
    """Weights of matrices that a step left exactly as they were although their gradient was not zero."""
    matrices = _matrices(model)
    for name, old in before.items():
        moving = _own(matrices[name].grad) != 0
        still = (_own(matrices[name].detach()) == old) & moving
        same, all_moving = found.get(name, (0, 0))
        found[name] = (same + int(still.sum()), all_moving + int(moving.sum()))
