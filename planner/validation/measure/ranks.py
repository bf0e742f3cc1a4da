"""Ranks of a gloo group as forked processes: all do the same, each answers once, none outlives the call."""

from __future__ import annotations

import multiprocessing
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from planner.validation.measure.limits import end_with_parent
from planner.validation.measure.models import Refused
from planner.validation.measure.zero import environment


def on_ranks(world: int, work: Callable[[], dict[str, Any]]) -> list[dict[str, Any]]:
    """What `work` answers on each of `world` ranks, in order. Raises Refused with the first fault of any."""
    context = multiprocessing.get_context("fork")
    with tempfile.TemporaryDirectory() as scratch:
        meeting = str(Path(scratch) / "meeting")
        pairs = [context.Pipe(duplex=False) for _ in range(world)]
        ranks = [
            context.Process(target=_rank, args=(work, (rank, world), meeting, pairs[rank][1]), daemon=True)
            for rank in range(world)
        ]
        for process in ranks:
            process.start()
        for _, sender in pairs:
            sender.close()
        try:
            answers = [_received(receiver) for receiver, _ in pairs]
        finally:
            for process in ranks:
                process.kill()
                process.join()
    refused = [answer["error"] for answer in answers if "error" in answer]
    if refused:
        raise Refused(refused[0])
    return answers


def _received(receiver: Any) -> dict[str, Any]:
    try:
        answer: dict[str, Any] = receiver.recv()
    except EOFError:
        return {"error": "a rank ended without an answer"}
    return answer


def _rank(work: Callable[[], dict[str, Any]], place: tuple[int, int], meeting: str, sender: Any) -> None:
    end_with_parent()
    torch.set_num_threads(1)
    rank, world = place
    environment(rank, world)
    try:
        store = dist.FileStore(meeting, world)
        dist.init_process_group("gloo", store=store, rank=rank, world_size=world)
        sender.send(work())
        dist.barrier()
        dist.destroy_process_group()
    except Refused as fault:
        sender.send({"error": str(fault)[:600]})
    except Exception as fault:  # noqa: BLE001 - told to the process that asked, whatever it is
        sender.send({"error": f"{type(fault).__name__}: {fault}"[:600]})
