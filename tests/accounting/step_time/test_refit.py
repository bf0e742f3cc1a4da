"""Refitting: a moved constant comes back, bands follow residuals, rendered rows are the set again."""

from __future__ import annotations

from dataclasses import fields, replace
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest

from accounting.facts.calibration import CALIBRATION, Calibration
from accounting.facts.calibration_priors import OWN_PRIORS, PRIORS
from accounting.partition import partition_of
from accounting.step_time import step_time
from accounting.step_time.fit import Free, Observation, fit, leave_one_out, value_of, with_values
from accounting.step_time.free import default_free, touches
from accounting.step_time.judge import Judged, judged, scores, with_bands
from accounting.step_time.observed import Measured, observation_of, stacked
from accounting.step_time.render import render_rows
from accounting.step_time.report import lines_of, markdown_table, plain_table
from tests.accounting.step_time.scenes import H100, scene

GEMM = Free(table="devices", row="hopper", field="gemm_efficiency", spread=0.5, most=0.97)
OVERLAP = Free(table="engines", row="fsdp2", field="overlap", spread=0.5, most=1.0)


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
    assert ("engines", "fsdp2") in rows
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
    banded = with_bands(CALIBRATION, rows, {H100.slug: H100.architecture})
    found = banded.devices["hopper"]
    assert found.rows == 6
    # Four of the six ran on more than one node; all in torch's eager kernels.
    assert (banded.engines["fsdp2"].rows, banded.kernels["eager"].rows, banded.fabric.rows) == (6, 6, 3)
    low, high = found.band
    assert low < 1 < high
    assert high > max(1 / (1 + row.error) for row in rows)


def test_rendered_rows_are_the_same_set() -> None:
    space: dict[str, Any] = {}
    for name, source in render_rows(CALIBRATION).items():
        exec(compile(source, name, "exec"), space)  # noqa: S102 - our own text
    again = replace(CALIBRATION, devices=MappingProxyType({row.name: row for row in space["DEVICE_ROWS"]}))
    assert space["VERSION"] == CALIBRATION.version
    assert [row.name for row in space["ENGINE_ROWS"]] == list(CALIBRATION.engines)
    assert space["FABRIC_ROW"].crowding == pytest.approx(CALIBRATION.fabric.crowding, rel=1e-3)
    for name, row in CALIBRATION.devices.items():
        for item in fields(row):
            ours, theirs = getattr(row, item.name), getattr(again.devices[name], item.name)
            assert theirs == pytest.approx(ours, rel=1e-3) if isinstance(ours, float) else theirs == ours


def test_a_group_left_out_no_longer_pulls_the_constants() -> None:
    slow = with_values(CALIBRATION, [GEMM], [0.4])
    ours, theirs = _observations(CALIBRATION), _observations(slow)
    groups = [["ours"] * 6, ["theirs"] * 6]
    free = [replace(GEMM, centre=value_of(CALIBRATION, GEMM))]
    both = fit(ours + theirs, CALIBRATION, free, iterations=20, robust=10.0)
    alone = dict(leave_one_out(ours + theirs, groups, both, free, robust=10.0))
    assert value_of(slow, GEMM) < value_of(both, GEMM) < value_of(CALIBRATION, GEMM)
    assert value_of(alone["theirs"], GEMM) == pytest.approx(value_of(CALIBRATION, GEMM), rel=0.03)
    assert value_of(alone["ours"], GEMM) == pytest.approx(0.4, rel=0.05)


def test_a_fit_says_how_it_goes_and_rows_of_no_group_stay() -> None:
    told: list[tuple[int, float, float]] = []
    truth = with_values(CALIBRATION, [GEMM], [0.5])
    fit(_observations(truth), CALIBRATION, [GEMM], iterations=2, told=lambda *how: told.append(how))
    assert [how[0] for how in told] == [1, 2]
    assert all(after <= before for _, before, after in told)
    assert list(leave_one_out(_observations(truth), [[""] * 6], CALIBRATION, [GEMM])) == []


def test_a_constant_that_nothing_touches_falls_back_on_its_prior() -> None:
    there = _observations(CALIBRATION)
    free = [replace(GEMM, centre=0.5)]
    alone = dict(leave_one_out(there, [["one"] * 6], CALIBRATION, free))
    assert value_of(alone["one"], GEMM) == pytest.approx(0.5, rel=0.01)


def test_every_free_constant_has_a_prior_within_its_limit() -> None:
    for one in default_free(CALIBRATION, _observations(CALIBRATION)):
        assert one.centre is not None
        assert 0 < one.centre <= one.most
    for table, row, field in OWN_PRIORS:
        assert (table, field) in PRIORS
        assert hasattr(getattr(CALIBRATION, table)[row], field)


def test_steps_of_one_recipe_are_stacked_in_order() -> None:
    ones = [scene(dp_shard=8, micro_batch_size=size) for size in (1, 2, 4)]
    measured = [Measured(one, float(index), 2.0) for index, one in enumerate(ones)]
    item = observation_of(measured)
    assert item.measured.ravel().tolist() == [0.0, 1.0, 2.0]
    together = step_time(item.scenario, item.partition).step_seconds.ravel()
    alone = [step_time(one, partition_of(one)).step_seconds[0, 0] for one in ones]
    np.testing.assert_allclose(together, alone, rtol=1e-12)
    other = scene(accelerator=replace(H100, slug="other"))
    with pytest.raises(ValueError, match="accelerators"):
        stacked([ones[0], other])


def test_the_table_marks_a_source_that_loses_to_the_null_model() -> None:
    good = [_judged("good", 0.01 * index, 0.2 + 0.02 * index) for index in range(12)]
    bad = [_judged("bad", 0.5, 0.4) for _ in range(12)]
    lines = lines_of(good[:4], good + bad, {"good": 0.25})
    assert [line.worse_than_null for line in lines] == [True, False]
    text = plain_table(lines)
    assert "*" in text.splitlines()[1]
    assert "25.0%" in text.splitlines()[2]
    assert markdown_table(lines).count("\n") == 5


def _judged(source: str, error: float, efficiency: float) -> Judged:
    return Judged(source=source, accelerator="h100", engine="torch", error=error, measured_hfu=efficiency)
