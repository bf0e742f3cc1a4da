"""A launch file as the real library reads it, and what it then does with it."""

# ruff: noqa: PLC0415 - the libraries are imported where they are known to be installed
from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

PARTS = ("fsdp_config", "deepspeed_config", "parallelism_config")


@contextmanager
def accelerate_environment(path: Path) -> Iterator[dict[str, str]]:
    """The variables that `accelerate launch --config_file PATH` gives every process, set while the block runs.

    Raises ValueError for what Accelerate refuses, and for a member of the file's parts that its launcher has no
    option for: Accelerate itself would pass over that without a word.
    """
    from accelerate.commands.config.config_args import load_config_from_file
    from accelerate.commands.launch import _validate_launch_command, launch_command_parser
    from accelerate.utils.launch import prepare_deepspeed_cmd_env, prepare_multi_gpu_env

    config: Any = load_config_from_file(str(path))
    parser = launch_command_parser()
    options = {action.dest for action in parser._actions}
    for part in PARTS:
        unknown = set(getattr(config, part, None) or {}) - options
        if unknown:
            raise ValueError(f"accelerate launch has no options {sorted(unknown)}")
    arguments = parser.parse_args(["--config_file", str(path), "--main_process_ip", "127.0.0.1", "train.py"])
    arguments, _, _ = _validate_launch_command(arguments)
    arguments.main_process_port = 0
    if arguments.use_deepspeed:
        # As accelerate's own launch_command goes on.
        arguments.deepspeed_multinode_launcher = "standard"
        arguments.deepspeed_fields_from_accelerate_config = ",".join(config.deepspeed_config)
        _, environment = prepare_deepspeed_cmd_env(arguments)
    else:
        environment = prepare_multi_gpu_env(arguments)
    with patch.dict(os.environ, environment, clear=True):
        yield environment


def fsdp_plugin(path: Path) -> Any:
    """Accelerate's own FSDP plugin, as a launched process would make it."""
    from accelerate.utils import FullyShardedDataParallelPlugin

    with accelerate_environment(path) as environment:
        plugin = FullyShardedDataParallelPlugin()
        plugin.set_mixed_precision(environment["ACCELERATE_MIXED_PRECISION"])
        return plugin


def deepspeed_plugin(path: Path) -> Any:
    """Accelerate's own DeepSpeed plugin."""
    from accelerate.utils import DeepSpeedPlugin

    with accelerate_environment(path):
        return DeepSpeedPlugin()


def deepspeed_config(path: Path, ranks: int) -> Any:
    """DeepSpeed's configuration object, on so many data-parallel ranks."""
    from deepspeed.runtime.config import DeepSpeedConfig

    class Ranks:
        @staticmethod
        def get_data_parallel_world_size() -> int:
            return ranks

    with patch("deepspeed.comm.get_rank", return_value=0):
        return DeepSpeedConfig(str(path), mpu=Ranks())
