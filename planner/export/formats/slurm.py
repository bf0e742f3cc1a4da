"""A Slurm batch script that starts the option's engine on every node. Source: Slurm's sbatch page."""

from __future__ import annotations

import math

from planner.export.base import Format, Launch, commented
from planner.export.commands import command_of
from planner.export.texts import heredoc, shell_line

SPARE = 1.1
"""Time asked for over the upper end of the likely hours: a job that is cut off has cost all of it."""


def write(launch: Launch) -> str:
    """A whole script: `sbatch FILE`, with TRAIN_SCRIPT naming the program where it is not the engine's usual one."""
    command = command_of(launch)
    head = {
        "job-name": launch.name,
        "nodes": launch.nodes,
        "ntasks-per-node": 1,
        "gpus-per-node": launch.devices_per_node,
    }
    lines = [f"#SBATCH --{name}={value}" for name, value in head.items()]
    lines.append("#SBATCH --exclusive")
    if launch.hours_high is not None:
        lines.append(f"#SBATCH --time={clock(launch.hours_high * SPARE)}")
    files = "".join(heredoc(f'"$WORK/{name}"', text) for name, text in command.files.items())
    step = shell_line(["bash", "-c", f'export NODE_RANK="$SLURM_NODEID"; {command.script}'])
    return (
        "#!/usr/bin/env bash\n"
        + commented(launch.comment())
        + "\n".join(lines)
        + "\n\nset -euo pipefail\n"
        + f'export WORK="${{SLURM_SUBMIT_DIR:-$PWD}}/{launch.name}"\n'
        + 'mkdir -p "$WORK"\n'
        + 'read -r MASTER_ADDR < <(scontrol show hostnames "$SLURM_JOB_NODELIST")\n'
        + 'export MASTER_ADDR MASTER_PORT="${MASTER_PORT:-29500}"\n'
        + files
        # The shell that the step starts expands what stands in single quotes.
        + "# shellcheck disable=SC2016\n"
        + f"srun --kill-on-bad-exit=1 {step}\n"
    )


def clock(hours: float) -> str:
    """Slurm's days-hours:minutes:seconds, rounded up to a minute."""
    minutes = max(math.ceil(hours * 60), 1)
    return f"{minutes // 1440}-{minutes // 60 % 24:02d}:{minutes % 60:02d}:00"


FORMAT = Format(key="slurm", title="Slurm", media_type="text/x-shellscript", suffix=".sbatch", write=write)
