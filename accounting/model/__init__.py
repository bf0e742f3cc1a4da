"""What a model is: a config.json, our own fields, bare tensors or a count, read into one exact inventory of tensors."""

from accounting.model.adapters import Adapted, Adapter, adapted
from accounting.model.architecture import Architecture, LatentAttention, LinearAttention, MixtureOfExperts
from accounting.model.errors import ConfigError, Fault
from accounting.model.families import known_types
from accounting.model.fields import read_architecture
from accounting.model.huggingface import ConfigReading, read_config
from accounting.model.inventory import inventory_of
from accounting.model.model import (
    Model,
    model_from_architecture,
    model_from_config,
    model_from_count,
    model_from_tensors,
)
from accounting.model.tensor_list import inventory_of_tensors
from accounting.model.tensors import Inventory, LayerKind, Tensor

__all__ = [
    "Adapted",
    "Adapter",
    "Architecture",
    "ConfigError",
    "ConfigReading",
    "Fault",
    "Inventory",
    "LatentAttention",
    "LayerKind",
    "LinearAttention",
    "MixtureOfExperts",
    "Model",
    "Tensor",
    "adapted",
    "inventory_of",
    "inventory_of_tensors",
    "known_types",
    "model_from_architecture",
    "model_from_config",
    "model_from_count",
    "model_from_tensors",
    "read_architecture",
    "read_config",
]
