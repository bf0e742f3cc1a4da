"""The ten worked plans, as rows. What they say of an answer must stay true when a constant moves by a few percent."""

from __future__ import annotations

from typing import Any

from planner.plans.scenarios import Scenario

H100, H200, A100 = "h100-sxm5-80gb", "h200-sxm-141gb", "a100-sxm4-80gb"
SMALL_CARDS = ["l4", "a10g", "rtx-4090"]


def work(tokens: float, sequence: int, batch: int) -> dict[str, int]:
    """A workload in tokens, tokens a sequence, sequences a step."""
    return {"tokens": int(tokens), "sequence_length": sequence, "global_batch_tokens": sequence * batch}


def hardware(accelerators: list[str], most: int, least: int = 1, **more: Any) -> dict[str, Any]:
    """Devices by slug, at most and at least so many."""
    return {"accelerators": accelerators, "max_count": most, "min_count": least, **more}


SCENARIOS: tuple[Scenario, ...] = (
    Scenario(
        key="full-fine-tune-7b",
        title="Full fine-tune of a 7B model on one node",
        request={
            "model": "llama-2-7b",
            "workload": work(1e9, 4096, 64),
            "hardware": hardware([H100, A100, "l40s"], 8),
            "engines": ["fsdp2", "deepspeed"],
        },
        checks="States first: 6.7 billion parameters · 16 bytes = 108 GB, more than one card and 13.5 GB on each of "
        "eight. What is left of 80 GB holds the activations of a micro-batch without recomputing them.",
        right="An H100 costs less than twice an A100 an hour here and does more than twice the work in 16 bits, so "
        "the node with the faster card is cheaper as well. Sharding inside one node costs little: NVLink "
        "hides the gathers.",
    ),
    Scenario(
        key="seventy-on-64",
        title="A 70B model on 64 H100",
        request={
            "model": "llama-3-70b",
            "workload": work(1e10, 8192, 256),
            "hardware": hardware([H100], 64, 64),
        },
        checks="States: 70.6 billion · 18 bytes = 1,270 GB, 20 GB on each of 64; activations of one sequence of "
        "8,192 in 80 blocks are what recomputation is for. The rate an H100 reaches on models of this size is "
        "published at 35 to 45 % of its peak.",
        right="Tensor parallelism stays inside the node and pipelines cross it: that is where each costs least. "
        "Fully sharded data parallelism does the job too and stands among the options, with more waiting for "
        "its gathers.",
    ),
    Scenario(
        key="405b-with-a-deadline",
        title="A 405B model within a week",
        request={
            "model": "llama-3.1-405b",
            "workload": work(1e10, 8192, 512),
            "hardware": hardware([H100, H200, "b200-sxm"], 1024),
            "constraints": {"deadline_hours": 168},
        },
        checks="States alone are 7.3 TB: fewer than 92 cards of 80 GB cannot hold them. 126 layers divide by 2, 3, "
        "6, 7, 9 and not by 4: a pipeline of 4, 8 or 16 has uneven stages.",
        right="The deadline rules out the smaller counts; among what meets it the price of a device hour decides. "
        "126 layers share into no interleaved pipeline of 4, 8 or 16 stages, and a plain one over uneven stages "
        "waits for the fullest: full sharding beside tensor parallelism in the node comes out a little cheaper. "
        "The two are within each other's likely range: measure both.",
    ),
    Scenario(
        key="lora-8b-on-24-gb",
        title="LoRA on an 8B model with one 24 GB card",
        request={
            "model": "llama-3.1-8b",
            "workload": work(5e7, 1024, 32),
            "hardware": hardware(SMALL_CARDS, 1),
            "adapter": {"method": "lora", "rank": 16, "targets": "all-linear"},
            "precisions": ["bf16-pure", "bf16-mixed"],
            "options": 3,
        },
        checks="The frozen base in bf16 is 16.1 GB of the 24; logits of 1,024 tokens over 128,256 words are half a GB "
        "in fp32, several times over in a loss that is not fused. Everything is recomputed, one sequence at a time; "
        "adapters, their gradients and states are a quarter of a GB.",
        right="It fits with the upper end of the likely range, which is wider for plain PyTorch on one card than for "
        "DeepSpeed: with `risk` at `expected` DDP fits as well, for as much. On one rank ZeRO 1 shards nothing; it "
        "stands here because DeepSpeed has no 16-bit states without it. With sequences of 2,048 the logits alone "
        "take what is left: then a fused loss or a 4-bit base. A card that costs less an hour wins although it is "
        "slower.",
    ),
    Scenario(
        key="mixtral",
        title="Mixtral 8x7B",
        request={
            "model": "mixtral-8x7b",
            "workload": work(1e10, 4096, 256),
            "hardware": hardware([H100, H200], 64),
        },
        checks="All 46.7 billion parameters take memory, 12.9 billion work on a token: states of 840 GB against the "
        "arithmetic of a 13B model.",
        right="Sixteen cards hold the states; more of them buy speed, and wide micro-batches hide the gathers of "
        "sharded experts. A practitioner expects expert parallelism to win, and it may: the order rests on one "
        "constant, the speed of the experts' grouped products, which was measured on other runs for each "
        "engine (experts of 768 columns under Megatron-Core, another library's kernels under FSDP2) and on none of "
        "this model. At an equal speed the expert-parallel layouts come out ahead. Measure both before choosing.",
    ),
    Scenario(
        key="deepseek-v3",
        title="A mixture like DeepSeek-V3",
        request={
            "model": "deepseek-v3",
            "workload": work(1e11, 4096, 4096),
            "hardware": hardware([H100, H200], 512, 128),
            "engines": ["megatron"],
        },
        checks="671 billion parameters, 37 billion of them active. 61 layers share into no even pipeline: the launch "
        "file lists the stages, its latent attention and which three layers are dense. DeepSeek's own run "
        "did 1,475 tokens a second and device with 8-bit products "
        "on 2,048 of them.",
        right="Expert parallelism within a node and a deep pipeline across nodes is the shape of the published "
        "runs. 16-bit products and far fewer devices explain a lower rate.",
    ),
    Scenario(
        key="million-tokens",
        title="A context of a million tokens",
        request={
            "model": "llama-3.1-8b",
            "workload": work(1e9, 1 << 20, 4),
            "hardware": hardware([H100, H200], 64),
        },
        checks="One sequence is the micro-batch: its activations must be split over context and tensor ranks. MFU "
        "counts the full square of attention, of which causal kernels do half: at this length it reads up to "
        "twice too high.",
        right="Context parallelism of eight and more with tensor parallelism is the only way the activations fit; "
        "engines without it are counted under memory. Four sequences a step leave room for few replicas.",
    ),
    Scenario(
        key="slow-ethernet",
        title="A pool behind slow Ethernet",
        request={
            "model": "llama-2-13b",
            "workload": work(2e9, 4096, 256),
            "hardware": {"pool": "ethernet", "min_count": 32, "max_count": 32},
        },
        checks="ZeRO 3 gathers 26 GB of weights in every forward and every backward: over 3.1 GB/s a node that is "
        "seconds a pass, many times the arithmetic. Gradients once a step are what such a link can carry.",
        right="The winner sends activations between stages and reduces gradients once a step. Every fully sharded "
        "layout over four nodes is slower, however well it would do on InfiniBand.",
    ),
    Scenario(
        key="spot-with-a-deadline",
        title="Spot prices with a deadline",
        request={
            "model": "llama-3.1-8b",
            "workload": work(1e10, 8192, 128),
            "hardware": hardware([H100, A100], 64, pricing=["spot", "on-demand"]),
            "constraints": {"deadline_hours": 24},
            "goodput": {"preemptions_per_device_hour": 0.002},
        },
        checks="A device taken back twice in a thousand hours costs a restart and half a checkpoint's interval of "
        "all of them: with n devices that happens n times as often, so goodput falls as the job grows.",
        right="Spot stays cheaper at this rate of preemption, and the deadline asks for more devices than the "
        "cheapest job would take; the misses say what a slower one would have cost.",
    ),
    Scenario(
        key="infeasible",
        title="A 70B model on eight cards of 24 GB",
        request={
            "model": "llama-2-70b",
            "workload": work(1e9, 4096, 256),
            "hardware": hardware(["a10g"], 8),
        },
        checks="States of 69 billion parameters are 1.1 TB; eight cards of 24 GB have 0.19 TB together. No layout "
        "can help.",
        right="The answer names by how much the closest layout misses and which single changes would do: a 4-bit "
        "base under an adapter on the same cards, or many more cards.",
    ),
)
