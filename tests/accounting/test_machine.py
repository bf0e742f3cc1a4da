"""Machine columns: gathered by index, unknown stays unknown, one row equals many."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from accounting.catalog import Offer
from accounting.machine import (
    Choice,
    Overrides,
    Tables,
    compute_rate,
    engine_runs_on,
    machine_columns,
    overridden_node,
    single_machine,
)
from accounting.scenario import column
from accounting.vocabulary import Engine
from hardware.records import catalog_from_csv

CATALOG = catalog_from_csv()
H100 = CATALOG.accelerators["h100-sxm5-80gb"]
NODE = CATALOG.node_types["aws-p5-48xlarge"]


def offer_of(price: float, count: int) -> Offer:
    return replace(CATALOG.offers_of(H100.slug)[0], usd_per_hour=price, accelerator_count=count)


@pytest.mark.parametrize(
    ("slug", "compute", "dtype"),
    [
        ("h100-sxm5-80gb", "bf16", "bf16"),
        ("h100-sxm5-80gb", "fp8", "fp8"),
        ("h100-sxm5-80gb", "nvfp4", "fp8"),
        ("a100-sxm4-80gb", "fp8", "bf16"),
        ("v100-sxm2-32gb", "bf16", "fp32"),
        ("v100-sxm2-32gb", "fp16", "fp16"),
        ("rtx-pro-4500-blackwell", "bf16", None),
    ],
)
def test_a_rate_falls_back_to_what_the_device_runs(slug: str, compute: str, dtype: str | None) -> None:
    assert compute_rate(CATALOG.accelerators[slug], compute)[1] == dtype


def test_dense_rates_of_the_datasheet() -> None:
    rate, _ = compute_rate(H100, "bf16")
    assert rate == pytest.approx(989.4e12, rel=1e-3)


def test_whole_instances_are_billed() -> None:
    tables = Tables(accelerators=(H100,), node_types=(NODE,), offers=(offer_of(80.0, 8), None))
    counts = column([1, 8, 9, 16, 8])
    zero = np.zeros_like(counts)
    choice = Choice(accelerator=zero, node_type=zero, offer=column([0, 0, 0, 0, 1]), count=counts)
    price = machine_columns(tables, choice, "bf16").usd_per_device_hour
    assert price[:4, 0] == pytest.approx([80.0, 10.0, 160.0 / 9, 10.0])
    assert np.isnan(price[4, 0])


def test_unknown_facts_stay_unknown() -> None:
    bare = CATALOG.accelerators["rtx-pro-4500-blackwell"]
    machine = single_machine(bare, None, None, 1, "bf16")
    assert (
        int(machine.capacity_bytes[0, 0]) == int(machine.host_memory_bytes[0, 0]) == int(machine.host_cores[0, 0]) == -1
    )
    assert np.isnan(machine.peak_flops[0, 0])
    assert np.isnan(machine.inter_bandwidth[0, 0])
    assert int(machine.devices_per_node[0, 0]) == 1


def test_every_row_of_many_is_that_row_alone() -> None:
    devices = tuple(row for row in CATALOG.accelerators.values() if row.default_node)
    nodes = tuple(CATALOG.default_node(row) for row in devices)
    index = column(np.arange(len(devices)))
    tables = Tables(accelerators=devices, node_types=nodes, offers=(None,))
    together = machine_columns(
        tables,
        Choice(accelerator=index, node_type=index, offer=np.zeros_like(index), count=np.ones_like(index)),
        "bf16",
    )
    for row, (device, node) in enumerate(zip(devices, nodes, strict=True)):
        alone = single_machine(device, node, None, 1, "bf16")
        for name in (
            "capacity_bytes",
            "peak_flops",
            "intra_bandwidth",
            "inter_bandwidth",
            "pcie_bandwidth",
            "scaleup_domain",
        ):
            np.testing.assert_array_equal(getattr(together, name)[row], getattr(alone, name)[0])


def test_a_node_used_in_part_keeps_a_rack_wide_domain() -> None:
    assert overridden_node(NODE, Overrides(devices_per_node=4)).scaleup_domain_size == 4
    rack = next(node for node in CATALOG.node_types.values() if node.scaleup_domain_size > node.accelerator_count)
    assert overridden_node(rack, Overrides(devices_per_node=2)).scaleup_domain_size == rack.scaleup_domain_size


def test_engines_run_where_their_backends_do() -> None:
    assert engine_runs_on(Engine.MEGATRON, H100)
    kinds = {row.kind: row for row in CATALOG.accelerators.values()}
    assert not engine_runs_on(Engine.FSDP2, kinds["tpu"])
    assert not engine_runs_on(Engine.MEGATRON, kinds["cpu"])
    assert all(engine_runs_on(Engine.IDEAL, row) for row in CATALOG.accelerators.values())
    assert {row.kind for row in CATALOG.accelerators.values()} == {"gpu", "gpu-slice", "tpu", "npu", "cpu"}
