"""What a row of constants says. Seconds, bytes and shares; every number is fitted or measured."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Constant = float | NDArray[np.float64]
"""One number in a shipped row; a column of shape (N, 1) where candidates of one scenario use different rows."""


UNMEASURED = 1.3
"""Factor on both ends of the band of a device that only shares its family's constants."""


MEASURED = "published training steps (papers, vendor tables, sweeps), fit part of a 1472-row sample"
"""Source of a row unless it names its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceRow:
    """A family of devices."""

    name: str
    like: str = ""
    """Family whose constants a family without measured steps takes, but for those that its source names: a refit of the
    one moves the other too."""
    slugs: tuple[str, ...] = ()
    architectures: tuple[str, ...] = ()
    """Architecture names of the catalog, lower case, that fall back on this row."""
    gemm_efficiency: float
    """Share of the dense peak that an endless matrix product reaches."""
    full_power: float = 0.0
    """Power limit from which on a device reaches that; below it the rate falls in proportion; 0 = unknown, no fall.
    [W per TFLOP/s of peak]"""
    gemm_padding: float
    """Rows and columns that a product pays for besides its own (tiles). [elements]"""
    gemm_ramp: float
    """The same for the contracted dimension (filling the pipeline). [elements]"""
    kernel_seconds: float
    """Start and end of one kernel on the device."""
    attention_forward: float
    """Share of peak of a fused attention kernel, forward, long sequences."""
    attention_backward: float
    attention_ramp: float
    """Sequence length at which fused attention is at half of that. [tokens]"""
    memory_efficiency: float
    """Share of the specified device bandwidth that streaming kernels reach."""
    narrow_gain: float = 1.0
    """Share of peak of products below 16 bits, over what their dtype's row says (power, operand traffic)."""
    host_factor: float = 1.0
    """Speed of the hosts this family comes with: multiplies every host time."""
    link_factor: float = 1.0
    """Rate of collectives over PCIe where boards cannot reach each other's memory, over that of boards that can."""
    exchange_stall: float = 0.0
    """Wait of each blocking exchange between stages on clusters of more than STALL_NODES nodes, as this family's
    published clusters showed it. [second]"""
    measured: tuple[str, ...] = ()
    """Slugs of the devices fitted on; others of the family get a band wider by UNMEASURED."""
    band: tuple[float, float]
    """Measured step over predicted step: 10th and 90th percentile of the rows fitted on, widened where few."""
    rows: int
    """Measured steps fitted on; 0 = taken from the nearest family."""
    source: str = MEASURED
    date: str

    def band_of(self, slug: str) -> tuple[float, float]:
        """The band of one device of the family."""
        wider = 1.0 if slug in self.measured else UNMEASURED
        return self.band[0] / wider, self.band[1] * wider


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineRow:
    """A family of training engines."""

    name: str
    host_block_seconds: Constant
    """Host time to launch one block's forward; the backward takes `host_backward` times it."""
    host_backward: Constant
    host_mixture: Constant
    """Host time of a mixture block over a dense one (router, permutation, grouped products, counts read back)."""
    host_tensor_parallel_seconds: Constant
    """More of it where tensor parallelism splits the block."""
    host_serial_seconds: Constant
    """More of it per tensor-parallel rank where a plain pipeline's blocking exchanges interleave with sequence-parallel
    collectives."""
    host_serial_across: Constant
    """The same for each further node that the tensor-parallel group spans, over one node's."""
    host_shard_seconds: Constant
    """Once a step and block, where states are sharded but moved once a step: collectives of single tensors."""
    host_bucket_seconds: Constant = 0.0
    """Once a step for each bucket of a rank's whole gradients (25 MB of 16-bit ones, torch's default): the hook that
    casts, adds and reduces it."""
    sharded_overlap: Constant
    """Share of the last backward that hides a once-a-step reduction of sharded gradients, over an unsharded one's."""
    accumulated_overlap: Constant
    """The same for gradients that are accumulated in fp32 beside 16-bit ones, over gradients reduced as they come: 0
    where the reduction waits for the accumulation of the whole micro-batch."""
    gather_overlap: Constant
    """Share of the first forward that hides a once-a-step gather of weights; 0 where it is made beforehand."""
    blocking: Constant
    """1 where a stage waits for every exchange with its neighbours, else 0."""
    host_step_seconds: Constant
    """Once a step: optimizer launch, gradient norm, logging."""
    host_micro_batch_seconds: Constant
    host_exchange_seconds: Constant
    """Host time of one exchange between pipeline stages."""
    tensor_parallel_exposed: Constant
    """Share of tensor-parallel collectives that no computation hides."""
    tensor_parallel_across: Constant
    """Cost of a tensor-parallel collective for each doubling of the nodes it spans, over a large collective's (small,
    blocking messages)."""
    expert_parallel_exposed: Constant
    """Share of dispatch and combine that no computation hides."""
    link_efficiency: Constant
    """Rate of this engine's data-parallel collectives over the library's own (bucketing, small tensors)."""
    pipeline_exposed: Constant
    """Share of the steady exchanges between stages that is not hidden."""
    attention: Constant
    """Speed of the fused attention kernels this engine's runs were published with, over the device's best."""
    overlap: Constant
    """Share of the computation beside a data-parallel collective that can hide it."""
    contention: Constant
    """Slow-down of computation by a hidden collective, as a share of the collective's time."""
    jitter: Constant
    """Share of the step added by each doubling of the nodes."""
    full_card: Constant = 0.0
    """Share of the step added on the card's last bytes. Of the runs fitted on with 97 % of the card or more, 5 of 6 of
    Megatron's lineage took 1.7 to 7 times as long, and 1 or 2 of about 54 of other engines. The lineage's constant says
    that such a layout is the worse one of two, not by how much."""
    reach: tuple[tuple[str, int, int], ...] = ()
    """(measure, least, most) over the measured steps fitted on: what lies outside is extrapolated."""
    computes: tuple[str, ...] = ()
    """Types of matrix products they were measured in."""
    rows: int
    source: str = MEASURED
    date: str


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelRow:
    """How a block's kernels are made: bytes moved per element in the forward, 16-bit activations, and their speed."""

    name: str
    hidden: Constant
    """Norms, residual sums and their casts. [byte per token and hidden unit]"""
    hidden_dropout: Constant
    """Two dropouts. [byte per token and hidden unit]"""
    gated: Constant
    """Activation and product of a gated MLP. [byte per token and MLP unit]"""
    plain: Constant
    """Activation of an ungated MLP. [byte per token and MLP unit]"""
    rotary: Constant
    """Position rotation. [byte per token and unit of q and k]"""
    backward: Constant
    """Backward over forward."""
    logits: Constant
    """Loss, forward and backward. [byte per logit]"""
    scores: Constant
    """Attention probabilities where they are written out, forward. [byte per score]"""
    host: Constant
    """Host time of a block, over the eager one."""
    accumulate: Constant
    """Adding one micro-batch's gradients to the accumulated ones. [byte per parameter, fp32 gradients]"""
    adapted: Constant
    """Casting, dropping out, scaling and adding of a low-rank adapter. [byte per token, input and output unit]"""
    routed: Constant
    """Sorting a token's copies to its experts and back. [byte per copy and hidden unit]"""
    products: Constant
    """Speed of matrix products over the device's own (launch gaps, library, layout)."""
    grouped: Constant
    """Speed of the experts' grouped products over that."""
    attention: Constant
    """Speed of the fused attention kernel over the device's own."""
    rows: int = 0
    """Measured steps fitted on."""
    source: str = MEASURED
    date: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LowPrecisionRow:
    """A compute dtype below 16 bits."""

    name: str
    efficiency: float
    """Share of this dtype's peak over the share of bf16's peak."""
    cast: float
    """Casting inputs and gradients of a linear layer. [byte per element of its input and output]"""
    cast_weights: float = 0.0
    """1 where weights are cast before every product, 0 where the cast ones are kept for the step's micro-batches."""
    rows: int = 0
    """Measured steps fitted on."""
    source: str = MEASURED
    date: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FabricRow:
    """The network between scale-up domains."""

    fraction: float
    """Achievable share of a node's specified rate."""
    latency: float
    """Of each doubling of the nodes that a collective spans. [second]"""
    ramp: float
    """What a rate that rises with the message costs at most. [second]"""
    ramp_bytes: float
    crowding: float
    """Rate lost for each further group that sends from the same node at the same time: rate / (1 + crowding·others)."""
    rows: int = 0
    """Measured steps on more than one node fitted on."""
    source: str = MEASURED
    date: str
