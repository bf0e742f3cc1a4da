"""Lower bounds: what a candidate takes at least, cheap enough to spare it the whole evaluation.

A bound only ever rules out what cannot be shown: a candidate that is slower at best than another layout of the same
machine and count costs more as well (a place has one rate), so that the other is before it in every order.
"""

from __future__ import annotations

import numpy as np

from accounting.scenario import Scenario
from accounting.step_time import Repeated
from accounting.units import Floats
from accounting.vocabulary import Schedule

FULL_BUBBLE = (Schedule.ONE_F_ONE_B, Schedule.GPIPE, Schedule.INTERLEAVED)
"""Schedules whose stages wait for one another for a whole pass of the pipeline."""
SLACK = 1 - 1e-9
"""The bound adds the same seconds up in another order: more than rounding can differ in, less than anybody can see."""


def least_seconds(scenario: Scenario, repeated: Repeated) -> Floats:
    """What a step takes at least. [second, (N, 1)]

    (1 - 1e-9) · m · (blocks and ends of the whole model on their device) / pp, · (1 + (pp - 1) / (v · m)): no stage is
    shorter than their mean. `repeated` are the candidates' blocks and ends. NaN where a fact of the machine is unknown.
    """
    layout, inventory = scenario.layout, scenario.recipe.inventory
    passes = repeated.passes([inventory.pattern.count(unit) for unit in range(len(inventory.kinds))])
    least: Floats = SLACK * layout.micro_batches * passes / layout.pp
    if scenario.recipe.schedule not in FULL_BUBBLE:
        return least
    return least * (1.0 + (layout.pp - 1) / (np.maximum(layout.vpp, 1) * layout.micro_batches))
