"""The catalog as the core sees it: plain frozen records of devices, machines, links and prices; it knows no database.

Units: bytes, bytes per second **per direction**, TFLOP/s **dense**, watts, USD per hour of a whole instance.
None means unknown: `unknown_reasons` says why; nothing here stands in for it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import date
from types import MappingProxyType

from accounting.naming import NameLookupError, resolve_name

__all__ = ["Accelerator", "Catalog", "Interconnect", "NameLookupError", "NodeType", "Offer"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Accelerator:
    """One device as a training framework counts it (a CPU server is one device, a MIG slice is one device)."""

    slug: str
    name: str
    vendor: str
    """`nvidia`, `amd`, `intel`, `google`, `aws`, `generic`."""
    architecture: str
    kind: str
    """`gpu`, `gpu-slice`, `tpu`, `npu`, `cpu`."""
    form_factor: str
    parent: str | None = None
    """The whole device a slice is cut from."""
    parent_fraction: float | None = None
    """Share of the parent's compute that a slice has."""
    software_devices: int = 1
    """Devices that software sees in one package (MI250: 2, each with half of memory and compute)."""
    memory_bytes: int | None
    """Capacity the driver reports (nvidia-smi total); a CPU's host memory."""
    memory_gb_marketing: float
    torch_total_gib: float | None
    """What the framework sees of it, GiB, where somebody printed it."""
    memory_bandwidth_bytes_per_second: float | None
    fp32_tflops: float | None
    tf32_tflops: float | None
    fp16_tflops: float | None
    bf16_tflops: float | None
    fp8_tflops: float | None
    fp4_tflops: float | None
    int8_tops: float | None
    measured_max_bf16_tflops: float | None
    """Best matmul rate anybody measured, where known."""
    scaleup_link: str
    scaleup_bytes_per_second: float | None
    """Per direction, over all links of the device (450e9 for "900 GB/s NVLink")."""
    pcie_generation: int | None
    pcie_bytes_per_second: float | None
    """Per direction."""
    power_watts: float | None
    supports_bf16: bool
    supports_fp8: bool
    compute_capability: str | None
    """NVIDIA "9.0", AMD "gfx942"."""
    default_node: str | None
    """Node type assumed where a request names none."""
    confidence: str
    source: str
    note: str = ""
    unknown_reasons: Mapping[str, str] = field(default_factory=dict)
    """Catalog field name → why it is null."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeType:
    """A machine: how many devices, and what joins them inside and outside."""

    slug: str
    provider: str
    instance: str
    accelerator: str
    accelerator_count: int
    vcpus: int | None
    host_memory_bytes: int | None
    local_nvme_bytes: int | None
    intra_link: str
    """As the source words it ("NVLink 4 + NVSwitch"); `none` for a single device."""
    intra_interconnect: str | None
    """Slug of the Interconnect row with latency and achievable fraction."""
    intra_bytes_per_second: float | None
    """Per direction and device, within the scale-up domain."""
    topology: str
    """`switched`, `mesh`, `torus`, `hybrid-cube-mesh`, `pair`, `pcie`, `single`."""
    scaleup_domain_size: int
    """Devices joined by the intra link: 8 in an HGX board, 72 in an NVL72 rack, 2 with a bridge."""
    inter_link: str
    inter_interconnect: str | None
    inter_bytes_per_second_total: float | None
    """Per direction, whole node."""
    inter_bytes_per_second_per_accelerator: float | None
    assumed: bool
    """True for a generic server nobody sells: say so wherever it is shown."""
    confidence: str
    source: str
    note: str = ""
    unknown_reasons: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Interconnect:
    """A kind of link and what was measured over it."""

    slug: str
    name: str
    scope: str
    """`intra`, `inter`, `host`, `intra-host`."""
    bytes_per_second: float | None
    """Per direction and device (or NIC share of a device)."""
    p2p_bytes_per_second: float | None
    latency_seconds_low: float | None
    latency_seconds_high: float | None
    achievable_fraction: float | None
    fraction_basis: str
    switched: bool
    source: str
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """A price of one whole instance. The newest row of each (provider, region, instance, pricing kind, commitment)."""

    provider: str
    region: str
    instance: str
    node_type: str | None
    """Slug, None where the catalog has no row for this instance: see Catalog.node_of_offer."""
    accelerator: str
    accelerator_count: int
    pricing_kind: str
    """`on-demand`, `spot`, `reserved`."""
    commitment: str
    """`` or `1y`, `3y`."""
    usd_per_hour: float
    price_date: date | None
    date_precision: str
    """`exact`, `bounded`, `undated`."""
    price_not_before: date | None
    price_not_after: date | None
    source: str
    note: str = ""
    billing_period_seconds: float | None = None
    """Usage is rounded up to whole periods: 1, 60, 3600. None = not known: dollars are by the second."""
    billing_minimum_seconds: float | None = None
    """Least that is billed of a run. None = one period."""
    billing_source: str = ""

    @property
    def usd_per_accelerator_hour(self) -> float:
        """The instance's price shared by its devices. [USD per device and hour]"""
        return self.usd_per_hour / self.accelerator_count


@dataclass(frozen=True, slots=True, kw_only=True)
class Catalog:
    """Everything a plan may choose from, in one fixed order, at one revision."""

    revision: int
    content_hash: str
    accelerators: Mapping[str, Accelerator]
    node_types: Mapping[str, NodeType]
    offers: tuple[Offer, ...]
    interconnects: Mapping[str, Interconnect]

    @classmethod
    def of(  # noqa: PLR0913 - one argument per table
        cls,
        *,
        revision: int,
        content_hash: str,
        accelerators: Iterable[Accelerator],
        node_types: Iterable[NodeType],
        offers: Iterable[Offer],
        interconnects: Iterable[Interconnect],
    ) -> Catalog:
        """The same rows give the same catalog, whichever order they came in."""
        return cls(
            revision=revision,
            content_hash=content_hash,
            accelerators=MappingProxyType({row.slug: row for row in sorted(accelerators, key=lambda row: row.slug)}),
            node_types=MappingProxyType({row.slug: row for row in sorted(node_types, key=lambda row: row.slug)}),
            offers=tuple(sorted(_current(offers), key=_offer_order)),
            interconnects=MappingProxyType({row.slug: row for row in sorted(interconnects, key=lambda row: row.slug)}),
        )

    def find_accelerator(self, text: str) -> Accelerator:
        """The device meant by a slug or an unambiguous short name. Raises NameLookupError."""
        return self.accelerators[resolve_name(text, self.accelerators, kind="accelerator")]

    def find_node_type(self, text: str) -> NodeType:
        """The machine meant by a slug or an unambiguous short name. Raises NameLookupError."""
        return self.node_types[resolve_name(text, self.node_types, kind="node type")]

    def default_node(self, accelerator: Accelerator) -> NodeType | None:
        """The machine assumed for a device where none is named."""
        return self.node_types[accelerator.default_node] if accelerator.default_node else None

    def offers_of(self, accelerator: str) -> tuple[Offer, ...]:
        """Every current price of one device, in catalog order."""
        return tuple(offer for offer in self.offers if offer.accelerator == accelerator)

    def node_of_offer(self, offer: Offer) -> tuple[NodeType | None, str | None]:
        """(machine behind a price, the assumption made or None where the catalog has the very instance).

        Without a row for the instance: the slowest-networked known machine with the same device and count, of the same
        provider before others; else the device's default node cut down to the offer's count, in proportion.
        """
        if offer.node_type is not None:
            return self.node_types[offer.node_type], None
        alike = [
            node
            for node in self.node_types.values()
            if node.accelerator == offer.accelerator and node.accelerator_count == offer.accelerator_count
        ]
        if alike:
            chosen = min(alike, key=lambda node: (node.provider != offer.provider, node.assumed, _network_rank(node)))
            return chosen, f"{offer.provider} {offer.instance} has no machine data: taken as {chosen.slug}"
        default = self.default_node(self.accelerators[offer.accelerator])
        if default is None:
            return None, f"{offer.provider} {offer.instance} has no machine data and its device no default node"
        part = _cut_down(default, offer.accelerator_count)
        return part, (
            f"{offer.provider} {offer.instance} has no machine data: taken as {offer.accelerator_count} of the "
            f"{default.accelerator_count} devices of {default.slug}, host and network in proportion"
        )


def _offer_order(offer: Offer) -> tuple[str, ...]:
    return (offer.accelerator, offer.provider, offer.region, offer.instance, offer.pricing_kind, offer.commitment)


def _current(offers: Iterable[Offer]) -> Iterable[Offer]:
    """The newest price of each item: a dated one before an undated one, later before earlier, then the lower."""
    newest: dict[tuple[object, ...], Offer] = {}
    for offer in offers:
        key = (*_offer_order(offer), offer.accelerator_count)
        held = newest.get(key)
        if held is None or _recency(offer) > _recency(held):
            newest[key] = offer
    return newest.values()


def _recency(offer: Offer) -> tuple[date, float]:
    return (offer.price_date or date.min, -offer.usd_per_hour)


def _network_rank(node: NodeType) -> tuple[float, str]:
    """Slowest first, unknown last, then by name so that the choice repeats."""
    rate = node.inter_bytes_per_second_total
    return (float("inf") if rate is None else rate, node.slug)


def _cut_down(node: NodeType, count: int) -> NodeType:
    """`count` devices of a machine as a machine of their own; its share of host, disk and network goes along."""
    share = count / node.accelerator_count
    single = count == 1
    return replace(
        node,
        slug=f"{node.slug}-part-{count}",
        accelerator_count=count,
        vcpus=None if node.vcpus is None else int(node.vcpus * share),
        host_memory_bytes=_scaled(node.host_memory_bytes, share),
        local_nvme_bytes=_scaled(node.local_nvme_bytes, share),
        intra_link="none" if single else node.intra_link,
        intra_interconnect=None if single else node.intra_interconnect,
        intra_bytes_per_second=None if single else node.intra_bytes_per_second,
        topology="single" if single else node.topology,
        scaleup_domain_size=min(node.scaleup_domain_size, count),
        inter_bytes_per_second_total=(
            None if node.inter_bytes_per_second_total is None else node.inter_bytes_per_second_total * share
        ),
        assumed=True,
        confidence="assumed",
    )


def _scaled(size: int | None, share: float) -> int | None:
    return None if size is None else int(size * share)
