"""The inputs of the forms, one row each: its name, the member of the request it fills, and its words."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class FieldRow:
    """One input: its name, the member it fills, how its text is read, its words and what it starts with."""

    name: str
    pointer: str
    kind: str
    label: str
    help: str = ""
    start: str | tuple[str, ...] = ""
    nullable: bool = False
    """Whether an empty field is sent as null, instead of being left out."""

    @property
    def folded(self) -> bool:
        """Whether the page keeps it in a fold."""
        return self.name in FOLDED


MODEL_KINDS = ("catalog", "config", "count")
MODEL_ROWS: tuple[FieldRow, ...] = (
    FieldRow("model", "/model", "text", "Model", "Type to search the catalog."),
    FieldRow(
        "config", "/model/config", "json", "Hugging Face config.json", "Stays in this service. Nothing is fetched."
    ),
    FieldRow("parameters", "/model/parameters", "whole", "Parameters", "7e9 or 7B. Gives model states only."),
)
"""The three ways to give a model, in the order of MODEL_KINDS."""

PLAN_ROWS: tuple[FieldRow, ...] = (
    FieldRow(
        "tokens",
        "/workload/tokens",
        "whole",
        "Tokens",
        "15e9, 15B. Leave empty for dollars per hour.",
        "15e9",
        nullable=True,
    ),
    FieldRow("sequence_length", "/workload/sequence_length", "whole", "Sequence, tokens", "", "8192"),
    FieldRow(
        "global_batch_tokens",
        "/workload/global_batch_tokens",
        "whole",
        "Global batch, tokens",
        "All sequences of one optimizer step.",
        "1048576",
    ),
    FieldRow("deadline_hours", "/constraints/deadline_hours", "number", "Deadline, hours"),
    FieldRow("budget_usd", "/constraints/budget_usd", "number", "Budget, USD"),
    FieldRow("memory_headroom", "/constraints/memory_headroom", "percent", "Keep free, %", "", "5"),
    FieldRow("objective", "/objective", "text", "Prefer", "", "cost"),
    FieldRow("accelerators", "/hardware/accelerators", "list", "GPUs to consider", "None ticked means any."),
    FieldRow("max_count", "/hardware/max_count", "whole", "Most GPUs", "", "64"),
    FieldRow("pool", "/hardware/pool", "text", "Pool of the team", "GPUs you already have, at your own price."),
    FieldRow("pricing", "/hardware/pricing", "list", "Pricing", "", ("on-demand",)),
    FieldRow("engines", "/engines", "list", "Engines", "None ticked means any.", ("fsdp2", "deepspeed")),
    FieldRow("optimizers", "/optimizers", "list", "Optimizer", "None ticked means adamw.", ("adamw",)),
    FieldRow("precisions", "/precisions", "list", "Precision", "", ("bf16-mixed",)),
    FieldRow("zero_stages", "/search/zero_stages", "wholes", "ZeRO stages", "", ("0", "1", "2", "3")),
    FieldRow("recompute", "/search/recompute", "list", "Recompute", "", ("none", "selective", "full")),
    FieldRow("tp", "/search/tp", "autolist", "Tensor parallel", "auto, or 1 2 4 8", "auto"),
    FieldRow("pp", "/search/pp", "autolist", "Pipeline parallel", "auto, or 1 2 4 8", "auto"),
    FieldRow("micro_batch_sizes", "/search/micro_batch_sizes", "autolist", "Micro-batch", "auto, or 1 2 4 8", "auto"),
    FieldRow("risk", "/constraints/risk", "text", "Memory risk", "", "upper"),
    FieldRow(
        "max_price_age_days",
        "/constraints/max_price_age_days",
        "whole",
        "Oldest price, days",
        "Empty: any, flagged by age.",
    ),
    FieldRow("options", "/options", "whole", "Options to list", "", "10"),
    FieldRow("more", "", "object", "More of the request, as JSON", "Members without a field of their own."),
)

ESTIMATE_ROWS: tuple[FieldRow, ...] = (
    FieldRow("accelerator", "/hardware/accelerator", "text", "GPU", "", "h100-sxm5-80gb"),
    FieldRow("count", "/hardware/count", "whole", "Count", "", "8"),
    FieldRow("engine", "/sharding/engine", "text", "Engine", "", "fsdp2"),
    FieldRow("zero_stage", "/sharding/zero_stage", "whole", "ZeRO stage", "", ""),
    FieldRow("tp", "/parallelism/tp", "whole", "Tensor parallel", "", "1"),
    FieldRow("pp", "/parallelism/pp", "whole", "Pipeline parallel", "", "1"),
    FieldRow("optimizer", "/optimizer", "text", "Optimizer", "", "adamw"),
    FieldRow("precision", "/precision", "text", "Precision", "", "bf16-mixed"),
    FieldRow("sequence_length", "/batch/sequence_length", "whole", "Sequence, tokens", "", "4096"),
    FieldRow("micro_batch_size", "/batch/micro_batch_size", "whole", "Micro-batch per GPU", "", "1"),
    FieldRow("recompute", "/recompute", "text", "Recompute", "", "none"),
    FieldRow("attention", "/attention", "text", "Attention", "", "flash"),
    FieldRow("node_type", "/hardware/node_type", "text", "Node type", "Empty: the GPU's usual node."),
    FieldRow("global_batch_size", "/batch/global_batch_size", "whole", "Global batch, sequences", "Empty: one step."),
    FieldRow("dp_replicate", "/parallelism/dp_replicate", "whole", "Copies (dp_replicate)"),
    FieldRow("dp_shard", "/parallelism/dp_shard", "whole", "Shards (dp_shard)", "Empty: what is left."),
    FieldRow("cp", "/parallelism/cp", "whole", "Context parallel"),
    FieldRow("ep", "/parallelism/ep", "whole", "Expert parallel"),
    FieldRow("vpp", "/parallelism/vpp", "whole", "Virtual stages"),
    FieldRow("offer", "/hardware/offer", "object", "Offer, as JSON", "Whose price is used; empty: the cheapest."),
    FieldRow("loss", "/options/loss", "text", "Loss kernel"),
    FieldRow("offload_optimizer", "/offload/optimizer", "text", "Optimizer states to"),
    FieldRow("offload_parameters", "/offload/parameters", "text", "Parameters to"),
    FieldRow("adapter", "/adapter", "object", "Adapter, as JSON", '{"method": "lora", "rank": 16}'),
    FieldRow("headroom", "/headroom", "percent", "Keep free, %", "Part of the card that must stay empty.", "5"),
    FieldRow("more", "", "object", "More of the request, as JSON", "Members without a field of their own."),
)

POOL_ROWS: tuple[FieldRow, ...] = (
    FieldRow("slug", "/slug", "text", "Slug", "How requests name it: our-h100."),
    FieldRow("name", "/name", "text", "Name", "For people."),
    FieldRow("accelerator", "/accelerator", "text", "GPU"),
    FieldRow("node_type", "/node_type", "text", "Node type", "The machine the GPUs are in."),
    FieldRow("count", "/count", "whole", "GPUs", "All of them, not per node."),
    FieldRow(
        "usd_per_device_hour", "/usd_per_device_hour", "number", "USD per GPU-hour", "Your own price; empty: unknown."
    ),
)

FOLDED = frozenset(
    ("zero_stages", "recompute", "tp", "pp", "micro_batch_sizes", "risk", "max_price_age_days", "options")
    + ("node_type", "global_batch_size", "dp_replicate", "dp_shard", "cp", "ep", "vpp", "offer", "more")
    + ("loss", "offload_optimizer", "offload_parameters", "adapter")
)
"""Fields in a fold of their page."""

EXAMPLES = frozenset(("tokens", "sequence_length", "global_batch_tokens", "engines"))
"""Fields whose first value is an example and not the contract's default."""
