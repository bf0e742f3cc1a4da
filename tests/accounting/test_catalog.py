"""Finding rows by what people type, and the machine behind a price."""

from __future__ import annotations

import pytest

from accounting.naming import NameLookupError, nearest_names, resolve_name, slug_of
from hardware.loader import catalog_from_csv

CATALOG = catalog_from_csv()


@pytest.mark.parametrize(
    ("text", "slug"),
    [
        ("h100-sxm5-80gb", "h100-sxm5-80gb"),
        ("H100-SXM5-80GB", "h100-sxm5-80gb"),
        (" H100 SXM ", "h100-sxm5-80gb"),
        ("NVIDIA L4", "l4"),
        ("B200", "b200-sxm"),
        ("gb200", "gb200"),
        ("a100_sxm4_40gb", "a100-sxm4-40gb"),
        ("A100-SXM4-80GB MIG 3g.40gb", "a100-sxm4-80gb-mig-3g.40gb"),
        ("cpu", "cpu-server-1tib"),
    ],
)
def test_device_is_found(text: str, slug: str) -> None:
    assert CATALOG.find_accelerator(text).slug == slug


def test_ambiguous_name_lists_whole_devices_only() -> None:
    with pytest.raises(NameLookupError) as caught:
        CATALOG.find_accelerator("A100")
    assert caught.value.code == "ambiguous"
    assert caught.value.candidates == ("a100-pcie-40gb", "a100-pcie-80gb", "a100-sxm4-40gb", "a100-sxm4-80gb")
    assert "'A100' could be any of" in caught.value.detail


@pytest.mark.parametrize(("text", "nearest"), [("h100-sxm5-90gb", "h100-sxm5-80gb"), ("mi300z", "mi300x")])
def test_unknown_name_lists_the_nearest(text: str, nearest: str) -> None:
    with pytest.raises(NameLookupError) as caught:
        CATALOG.find_accelerator(text)
    assert caught.value.code == "unknown"
    assert nearest in caught.value.candidates
    assert text in caught.value.detail


@pytest.mark.parametrize("text", ["", "   ", "-", "/", "\x00", "é" * 50, "a" * 1_000_000])
def test_any_text_gets_a_short_answer(text: str) -> None:
    with pytest.raises(NameLookupError) as caught:
        CATALOG.find_accelerator(text)
    assert len(caught.value.detail) < 1000


@pytest.mark.parametrize(
    "text", ["aws-p5-48xlarge", "AWS p5.48xlarge", "p5.48xlarge", "Aws_P5_48XLARGE", "aws-p5-48xlarge-"]
)
def test_machine_is_found(text: str) -> None:
    assert CATALOG.find_node_type(text).slug == "aws-p5-48xlarge"


def test_slug_follows_the_rule_to_the_letter() -> None:
    assert slug_of("coreweave", "GB200 4x (GB200 NVL72)") == "coreweave-gb200-4x-gb200-nvl72-"
    assert CATALOG.find_node_type("coreweave-gb200-4x-gb200-nvl72").slug in CATALOG.node_types


def test_no_names_no_candidates() -> None:
    assert nearest_names("anything", []) == ()
    with pytest.raises(NameLookupError, match="is not in the catalog$"):
        resolve_name("anything", [], kind="model")


def offer(instance: str) -> object:
    return next(offer for offer in CATALOG.offers if offer.instance == instance and offer.pricing_kind == "on-demand")


def test_price_with_its_own_machine() -> None:
    node, assumption = CATALOG.node_of_offer(offer("p5.48xlarge"))  # type: ignore[arg-type]
    assert (node.slug if node else None, assumption) == ("aws-p5-48xlarge", None)


def test_price_without_machine_takes_one_of_the_same_count() -> None:
    node, assumption = CATALOG.node_of_offer(offer("g5.2xlarge"))  # type: ignore[arg-type]
    assert node is not None
    assert (node.slug, node.accelerator_count) == ("aws-g5-xlarge", 1)
    assert assumption is not None
    assert "aws-g5-xlarge" in assumption


def test_price_without_any_such_machine_takes_part_of_the_default() -> None:
    cut = [found for found in map(CATALOG.node_of_offer, CATALOG.offers) if found[1] and "proportion" in found[1]]
    assert cut
    for node, _ in cut:
        assert node is not None
        whole = CATALOG.default_node(CATALOG.accelerators[node.accelerator])
        assert whole is not None
        assert node.assumed
        assert node.scaleup_domain_size <= max(node.accelerator_count, whole.scaleup_domain_size)
        if node.host_memory_bytes is not None and node.accelerator_count < whole.accelerator_count:
            assert node.host_memory_bytes < (whole.host_memory_bytes or 0)
        if node.accelerator_count == 1:
            assert node.topology == "single"


def test_every_price_leads_to_a_machine_of_its_own_count() -> None:
    for priced in CATALOG.offers:
        node, _ = CATALOG.node_of_offer(priced)
        assert node is not None
        assert (node.accelerator, node.accelerator_count) == (priced.accelerator, priced.accelerator_count)
