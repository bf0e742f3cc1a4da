"""A real step of two processes under `fully_shard`, driven by an exported configuration: rank bytes are the plan's."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from accounting import estimate
from planner.requests import read_estimate
from tests.planner.export.samples import option_of, text_of
from tests.planner.requests.samples import CONTEXT

MISSING = [name for name in ("torch", "transformers", "accelerate") if find_spec(name) is None]
pytestmark = [
    pytest.mark.reallib,
    pytest.mark.skipif(
        bool(MISSING), reason=f"NO REAL STEP: {MISSING} not installed; pip install -r tests/requirements-reallib.txt"
    ),
]
RANKS = 2
TINY: dict[str, Any] = {
    "model_type": "llama",
    "hidden_size": 64,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "intermediate_size": 160,
    "vocab_size": 512,
    "max_position_embeddings": 128,
    "tie_word_embeddings": False,
}


@pytest.fixture(scope="module", params=[2, 3], ids=["zero2", "zero3"])
def option(request: pytest.FixtureRequest) -> dict[str, Any]:
    return option_of(
        ("/model", {"config": TINY}),
        ("/workload", {"tokens": 10**6, "sequence_length": 64, "global_batch_tokens": RANKS * 64}),
        ("/hardware", {"accelerators": ["h100-sxm5-80gb"], "min_count": RANKS, "max_count": RANKS}),
        ("/search", {"zero_stages": [request.param], "tp": [1], "micro_batch_sizes": [1], "recompute": ["none"]}),
    )


@pytest.fixture(scope="module")
def ranks(option: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    folder = tmp_path_factory.mktemp("step")
    (folder / "fsdp.yaml").write_text(text_of("accelerate-fsdp", option))
    (folder / "model.json").write_text(json.dumps(TINY))
    worker = Path(__file__).with_name("worker.py")
    # gloo finds its interface by the host's name, which may have no address.
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}
    processes = [
        subprocess.Popen(
            [sys.executable, str(worker), str(rank), str(folder)],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for rank in range(RANKS)
    ]
    for process in processes:
        said, _ = process.communicate(timeout=300)
        assert process.returncode == 0, said
    return [json.loads((folder / f"{rank}.json").read_text()) for rank in range(RANKS)]


def test_the_parameters_are_sharded_and_move(ranks: list[dict[str, Any]]) -> None:
    for found in ranks:
        assert found["world"] == RANKS
        assert found["sharded"]
        assert found["moved"] == found["tensors"]
        assert found["dtype"] == "torch.float32"
        assert 0 < found["loss"] < 10
    assert ranks[0]["loss"] == ranks[1]["loss"]


def test_the_bytes_of_each_rank_are_the_plans(option: dict[str, Any], ranks: list[dict[str, Any]]) -> None:
    answer = estimate(read_estimate(option["estimate"], CONTEXT)).row(0)
    planned = {line["formula"]: line["bytes_by_phase"] for line in answer["memory"]["lines"]}
    for found in ranks:
        assert found["parameters"] == planned["states.parameters"]["forward"]
        assert found["gradients"] == planned["states.gradients"]["optimizer_step"]
        assert found["optimizer"] == planned["states.optimizer"]["optimizer_step"]
    whole = estimate(read_estimate(option["estimate"], CONTEXT)).scenario.recipe.inventory.parameters
    assert sum(found["parameters"] for found in ranks) == 4 * whole
