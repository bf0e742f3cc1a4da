"""The truth: what a training run holds, how long a step takes, what it costs. Python and NumPy only, no I/O.

One door: `estimate(scenario) -> Estimate`, for one candidate or a million. Bytes are int64; FLOP, seconds and USD are
float64.

Symbols in formulas: h hidden size, L blocks, a heads, k KV heads, d head dim, q = a·d, g = k·d, f MLP width,
V vocabulary, E experts; s sequence, b micro-batch, T = s·b / cp tokens of a rank; t tensor-, c context-, p pipeline-,
v virtual-stage parallelism, W ranks of a shard group; e bytes of an activation.
"""

from accounting.catalog import Accelerator, Catalog, NodeType, Offer
from accounting.estimate import Estimate, estimate
from accounting.scenario import Layout, Machine, Recipe, Scenario
from accounting.version import ENGINE_VERSION

__all__ = [
    "ENGINE_VERSION",
    "Accelerator",
    "Catalog",
    "Estimate",
    "Layout",
    "Machine",
    "NodeType",
    "Offer",
    "Recipe",
    "Scenario",
    "estimate",
]
