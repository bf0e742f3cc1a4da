"""The command that starts an option's training on one node, for the formats that start something."""

from __future__ import annotations

from dataclasses import dataclass

from accounting.vocabulary import Engine
from planner.export.base import Launch, NotExportable
from planner.export.formats import accelerate_fsdp, deepspeed, megatron
from planner.export.texts import shell_line

SCRIPT = '"${TRAIN_SCRIPT:-train.py}"'
MEGATRON_SCRIPT = '"${TRAIN_SCRIPT:-pretrain_gpt.py}"'
MOCK_DATA = "--mock-data --tokenizer-type NullTokenizer --lr 3e-4 --split 100,0,0"
MEGATRON_DATA = f'read -ra DATA <<< "${{DATA_ARGUMENTS:-{MOCK_DATA}}}"'
"""What a plan knows nothing of, as words: without it a dry run on made-up tokens."""


@dataclass(frozen=True, slots=True)
class Command:
    """Shell for every node: it reads NODE_RANK, MASTER_ADDR, MASTER_PORT, WORK (where `files` are) and TRAIN_SCRIPT."""

    line: str
    files: dict[str, str]
    """Name in WORK → text."""
    before: str = ""
    """Shell that stands before the line."""

    @property
    def script(self) -> str:
        """All of it on one line: what goes before, then the program in the shell's place."""
        return f"{self.before}; exec {self.line}" if self.before else f"exec {self.line}"


def command_of(launch: Launch) -> Command:
    """The command of an option's engine. Raises NotExportable where the engine starts nothing."""
    engine = launch.recipe.engine
    if engine in (Engine.FSDP1, Engine.FSDP2):
        config = "accelerate.yaml"
        return Command(_accelerate(launch, config), {config: accelerate_fsdp.FORMAT.write(launch)})
    if engine is Engine.DEEPSPEED:
        config = "deepspeed.json"
        line = f'{_torchrun(launch)} {SCRIPT} --deepspeed "$WORK/{config}"'
        return Command(line, {config: deepspeed.FORMAT.write(launch)})
    if engine is Engine.MEGATRON:
        arguments = shell_line(megatron.arguments(launch))
        before = f"{megatron.environment(launch)}; {MEGATRON_DATA}"
        return Command(f'{_torchrun(launch)} {MEGATRON_SCRIPT} {arguments} "${{DATA[@]}}"', {}, before)
    if engine is Engine.DDP:
        return Command(f"{_torchrun(launch)} {SCRIPT}", {})
    raise NotExportable(f"{engine.value} is a way to count, not a program: choose an option of a real engine")


def _torchrun(launch: Launch) -> str:
    sizes = ["torchrun", f"--nnodes={launch.nodes}", f"--nproc-per-node={launch.devices_per_node}"]
    return f'{shell_line(sizes)} --node-rank="$NODE_RANK" --master-addr="$MASTER_ADDR" --master-port="$MASTER_PORT"'


def _accelerate(launch: Launch, config: str) -> str:
    sizes: list[str | int] = ["--num_machines", launch.nodes, "--num_processes", launch.count]
    where = '--machine_rank "$NODE_RANK" --main_process_ip "$MASTER_ADDR" --main_process_port "$MASTER_PORT"'
    return f'accelerate launch --config_file "$WORK/{config}" {shell_line(sizes)} {where} {SCRIPT}'
