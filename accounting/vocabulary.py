"""The closed word lists of the contract, used on every floor."""

from __future__ import annotations

from enum import StrEnum


class Engine(StrEnum):
    DDP = "ddp"
    FSDP1 = "fsdp1"
    FSDP2 = "fsdp2"
    DEEPSPEED = "deepspeed"
    MEGATRON = "megatron"
    IDEAL = "ideal"
    """The ZeRO paper's bookkeeping: no padding, no engine buffers."""


class Bucket(StrEnum):
    """Where a byte is shown, in display order."""

    PARAMETERS = "parameters"
    GRADIENTS = "gradients"
    MASTER_WEIGHTS = "master_weights"
    OPTIMIZER_STATES = "optimizer_states"
    ACTIVATIONS = "activations"
    LOGITS_AND_LOSS = "logits_and_loss"
    COMMUNICATION_BUFFERS = "communication_buffers"
    TEMPORARIES = "temporaries"
    FRAMEWORK = "framework"


class Phase(StrEnum):
    INITIALISATION = "initialisation"
    FORWARD = "forward"
    BACKWARD = "backward"
    OPTIMIZER_STEP = "optimizer_step"
    CHECKPOINT_SAVE = "checkpoint_save"


class Attention(StrEnum):
    FLASH = "flash"
    SDPA = "sdpa"
    EAGER = "eager"


class RecomputeMode(StrEnum):
    NONE = "none"
    SELECTIVE = "selective"
    FULL = "full"


class Schedule(StrEnum):
    ONE_F_ONE_B = "1f1b"
    GPIPE = "gpipe"
    INTERLEAVED = "interleaved"
    ZERO_BUBBLE = "zero-bubble"
    DUALPIPE = "dualpipe"


class Place(StrEnum):
    """Where offloaded things live."""

    NONE = "none"
    CPU = "cpu"
    NVME = "nvme"
