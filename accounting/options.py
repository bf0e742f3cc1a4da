"""The closed list of `options`: one field a knob, by the engines' own names. None = the engine's default."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    # what is run
    loss: str = "standard"
    dropout: float | None = None
    """None = the model's own."""
    compile: bool = False
    fused_norm: bool | None = None
    flash_attention_version: int | None = None
    masked_softmax_fusion: bool | None = None
    tiled_mlp_compute: bool = False
    expert_imbalance: float = 1.0
    """Load of the busiest expert-parallel rank over the mean."""
    moe_token_dispatcher_type: str | None = None
    # optimizer
    optimizer_in_backward: bool = False
    foreach: bool | None = None
    fused: bool | None = None
    grad_accum_dtype: str | None = None
    # allocator
    expandable_segments: bool = False
    # cluster, over the node type's facts
    devices_per_node: int | None = None
    inter_node_gbps: float | None = None
    """Gigabit per second of the whole node."""
    # DDP
    gradient_as_bucket_view: bool = False
    bucket_cap_mb: int | None = None
    no_sync: bool = False
    # FSDP
    reshard_after_forward: bool | None = None
    fsdp_auto_wrap_policy: str | None = None
    use_orig_params: bool = True
    enable_fsdp_float8_all_gather: bool = False
    float8_recipe_name: str | None = None
    # DeepSpeed
    reduce_bucket_size: int | None = None
    allgather_bucket_size: int | None = None
    overlap_comm: bool | None = None
    contiguous_gradients: bool = True
    sub_group_size: int | None = None
    stage3_max_live_parameters: int | None = None
    stage3_max_reuse_distance: int | None = None
    stage3_prefetch_bucket_size: int | None = None
    stage3_param_persistence_threshold: int | None = None
    # recompute and parallelism
    recompute_modules: tuple[str, ...] | None = None
    selective_ac_option: str | None = None
    cp_comm_type: str | None = None
    enable_async_tensor_parallel: bool = False
    # adapters
    target_modules: tuple[str, ...] | None = None
    modules_to_save: tuple[str, ...] = ()
    bnb_4bit_use_double_quant: bool = False
    prepare_model_for_kbit_training: bool = False
