"""Refitting: a moved constant comes back, bands follow residuals, rendered rows are the set again."""

from __future__ import annotations

from dataclasses import fields, replace
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest

from accounting.facts.calibration import CALIBRATION, Calibration
from accounting.partition import partition_of
from accounting.step_time import step_time
from accounting.step_time.fit import Free, Observation, fit, value_of, with_values
from accounting.step_time.free import default_free, touches
from accounting.step_time.judge import judged, scores, with_bands
from accounting.step_time.render import render_rows
from tests.accounting.step_time.scenes import H100, scene

GEMM = Free(table="devices", row="hopper", field="gemm_efficiency", spread=0.5, most=0.97)
OVERLAP = Free(table="engines", row="torch", field="overlap", spread=0.5, most=1.0)


def _observations(truth: Calibration) -> list[Observation]:
    scenario = scene(
        dp_shard=[8, 8, 16, 32, 64, 8],
        micro_batch_size=[1, 2, 4, 1, 1, 8],
        sequence_length=[4096, 4096, 2048, 1024, 512, 2048],
    )
    partition = partition_of(scenario)
    measured = step_time(scenario, partition, truth).step_seconds
    return [Observation(scenario=scenario, partition=partition, measured=measured, weight=np.full_like(measured, 1e4))]


def test_a_fit_finds_the_constants_that_made_the_measurements() -> None:
    truth = with_values(CALIBRATION, [GEMM, OVERLAP], [0.6, 0.5])
    found = fit(_observations(truth), CALIBRATION, [GEMM, OVERLAP], iterations=20)
    assert value_of(found, GEMM) == pytest.approx(0.6, rel=0.01)
    assert value_of(found, OVERLAP) == pytest.approx(0.5, rel=0.05)


def test_a_fit_never_passes_the_physical_limit() -> None:
    truth = with_values(CALIBRATION, [GEMM], [1.5])
    found = fit(_observations(truth), CALIBRATION, [GEMM], iterations=10)
    assert value_of(found, GEMM) <= GEMM.most


def test_only_constants_that_are_touched_are_free() -> None:
    observations = _observations(CALIBRATION)
    free = default_free(CALIBRATION, observations)
    rows = {(one.table, one.row) for one in free}
    assert ("devices", "hopper") in rows
    assert ("engines", "torch") in rows
    assert ("devices", "ampere") not in rows
    assert ("engines", "megatron") not in rows
    assert all(touches(CALIBRATION, one, observations[0]) for one in free)


def test_scores_stand_beside_the_null_model() -> None:
    rows = judged(_observations(with_values(CALIBRATION, [GEMM], [0.5]))[0], ["one"] * 6, CALIBRATION)
    score = scores(rows)["one"]
    assert score.rows == 6
    assert -1 < score.bias < 0
    assert score.error == pytest.approx(np.mean([abs(row.error) for row in rows]))
    assert score.null_error is not None
    assert scores(judged(_observations(CALIBRATION)[0], ["one"] * 6, CALIBRATION))["one"].error < 1e-12


def test_bands_widen_where_few_were_measured() -> None:
    rows = judged(_observations(with_values(CALIBRATION, [GEMM], [0.5]))[0], ["one"] * 6, CALIBRATION)
    found = with_bands(CALIBRATION, rows, {H100.slug: H100.architecture}).devices["hopper"]
    assert found.rows == 6
    low, high = found.band
    assert low < 1 < high
    assert high > max(1 / (1 + row.error) for row in rows)


def test_rendered_rows_are_the_same_set() -> None:
    space: dict[str, Any] = {}
    exec(compile(render_rows(CALIBRATION), "rows", "exec"), space)  # noqa: S102 - our own text
    again = replace(CALIBRATION, devices=MappingProxyType({row.name: row for row in space["DEVICE_ROWS"]}))
    for name, row in CALIBRATION.devices.items():
        for item in fields(row):
            ours, theirs = getattr(row, item.name), getattr(again.devices[name], item.name)
            assert theirs == pytest.approx(ours, rel=1e-3) if isinstance(ours, float) else theirs == ours
