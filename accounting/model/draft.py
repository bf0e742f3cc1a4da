"""From a draft of fields to an Architecture: what follows from what, and the checks that span fields."""

from __future__ import annotations

from typing import Final

from accounting.model.architecture import Architecture
from accounting.model.errors import ConfigError
from accounting.model.family import Draft
from accounting.model.inventory import inventory_of
from accounting.model.reader import MAX_PARAMETERS, MISSING, Reader

_SCAFFOLD: Final = (
    "window_period",
    "window_from",
    "softcap_defaults",
    "encoder_layers",
    "encoder_draft",
    "pooler",
    "keys",
)
_SIZES: Final = ("layers", "hidden_size", "heads", "ffn_size", "vocab_size")


def finish_windows(draft: Draft) -> None:
    """Which blocks look through the sliding window: a listed pattern, all but each n-th, or those from one on."""
    if draft.get("sliding_window") in (0, MISSING):
        draft["sliding_window"] = None
    layers, period, start = draft["layers"], draft.get("window_period", 1), draft.get("window_from", 0)
    types = draft.get("layer_types", ())
    if draft["sliding_window"] is None:
        # A window switched off leaves a listed pattern of full and linear blocks alone.
        draft["layer_types"] = tuple("full" if kind == "sliding" else kind for kind in types)
        return
    if not types and isinstance(layers, int) and isinstance(period, int) and isinstance(start, int):
        if period == 1 and start == 0:
            return
        draft["layer_types"] = types = tuple(
            "sliding" if layer >= start and (period == 1 or (layer + 1) % period) else "full" for layer in range(layers)
        )
    if types:
        draft["sliding_layers"] = types.count("sliding")
        if not draft["sliding_layers"]:
            draft.update(sliding_window=None, sliding_layers=None)


def build(reader: Reader, draft: Draft) -> Architecture:
    """The Architecture of a finished draft, or ConfigError with every fault the reader holds."""
    _finish_heads(reader, draft)
    for name in _SIZES:
        if draft.get(name) is None and not reader.faults:
            reader.fault("", "required", f"{name} is not stated and cannot be derived")
    if draft.get("learned_positions") is True and draft.get("max_positions") is None and not reader.faults:
        reader.fault("", "required", "a model with learned positions needs the number of positions")
    if reader.faults:
        raise ConfigError(reader.faults)
    architecture = _architecture(reader, draft)
    if inventory_of(architecture).parameters > MAX_PARAMETERS:
        reader.fault(
            "", "too_large", f"these sizes make more than {MAX_PARAMETERS} parameters, the largest counted here"
        )
        raise ConfigError(reader.faults)
    return architecture


def _architecture(reader: Reader, draft: Draft) -> Architecture:
    fields = {key: value for key, value in draft.items() if key not in _SCAFFOLD}
    fields.setdefault("attention_output_bias", fields.get("attention_bias", False))
    pooled = draft["family"] in ("bert", "roberta") or (draft["family"] == "vit" and draft.get("head") == "none")
    if pooled and draft.get("pooler", True):
        fields["extra"] = {**fields.get("extra", {}), "pooler": 1}
    layers = draft.get("encoder_layers")
    if layers is not None:
        fields["encoder"] = Architecture(**{**fields, "layers": layers, "causal": False, "head": "none"})
    tower = draft.get("encoder_draft")
    if tower is not None:
        _finish_heads(reader, tower)
        if reader.faults:
            raise ConfigError(reader.faults)
        fields["encoder"] = _architecture(reader, tower)
    return Architecture(**fields)


def _finish_heads(reader: Reader, draft: Draft) -> None:
    """Heads of keys and values, head width: derived where the class derives them, checked where both are stated."""
    heads, groups, width, hidden = (draft.get(key) for key in ("heads", "kv_heads", "head_dim", "hidden_size"))
    keys = draft.get("keys", {})
    if not isinstance(heads, int) or not isinstance(hidden, int):
        return
    if groups is None:
        draft["kv_heads"] = groups = heads
    if isinstance(groups, int) and heads % groups:
        detail = f"{heads} attention heads cannot share {groups} heads of keys and values; choose a divisor of {heads}"
        reader.fault(keys.get("kv_heads", "kv_heads"), "not_a_divisor", detail)
    if width is None:
        if hidden % heads:
            detail = f"hidden_size {hidden} is not a multiple of {heads} heads, and no head width is stated"
            reader.fault(keys.get("heads", "heads"), "not_a_divisor", detail)
        draft["head_dim"] = hidden // heads
