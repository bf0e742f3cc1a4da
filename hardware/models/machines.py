"""NodeType, a machine with devices in it, and Interconnect, a kind of link and what was measured over it."""

from __future__ import annotations

from typing import ClassVar

from django.core.validators import MinValueValidator
from django.db import models
from django.db.models import Q
from simple_history.models import HistoricalRecords

from hardware.choices import LinkScope, LinkTopology, Topology
from hardware.columns import INTERCONNECTS, NODES, Table
from hardware.models.catalog_row import CatalogRow


class Interconnect(CatalogRow):
    table: ClassVar[Table] = INTERCONNECTS

    slug = models.CharField(max_length=100, unique=True, editable=False)
    name = models.CharField(max_length=100, unique=True)
    scope = models.CharField(max_length=10, choices=LinkScope)
    gigabytes_per_second_per_direction = models.FloatField(
        null=True, blank=True, validators=[MinValueValidator(0)], help_text="10^9 bytes a second per device EACH WAY."
    )
    gigabytes_per_second_bidirectional = models.FloatField(
        null=True, blank=True, validators=[MinValueValidator(0)], help_text="What vendors print, both ways together."
    )
    p2p_gigabytes_per_second_per_direction = models.FloatField(
        null=True, blank=True, validators=[MinValueValidator(0)], help_text="Between one pair of devices, each way."
    )
    latency_microseconds_low = models.FloatField(null=True, blank=True, validators=[MinValueValidator(0)])
    latency_microseconds_high = models.FloatField(null=True, blank=True, validators=[MinValueValidator(0)])
    latency_basis = models.CharField(max_length=200, blank=True, help_text="What was timed.")
    achievable_fraction = models.FloatField(
        null=True, blank=True, validators=[MinValueValidator(0)], help_text="Measured rate over the rate above (0.74)."
    )
    fraction_basis = models.CharField(max_length=300, blank=True, help_text="Which collective, size and machine.")
    topology = models.CharField(max_length=20, choices=LinkTopology, blank=True)
    used_by = models.CharField(max_length=200, blank=True)
    history = HistoricalRecords()

    class Meta:
        ordering = ("slug",)

    def __str__(self) -> str:
        return self.name


class NodeType(CatalogRow):
    table: ClassVar[Table] = NODES

    slug = models.CharField(max_length=120, unique=True, editable=False)
    provider = models.CharField(max_length=40, help_text="aws, gcp …; reference: sold as hardware; generic: assumed.")
    instance_name = models.CharField(max_length=80, help_text="The provider's own name: p5.48xlarge.")
    accelerator = models.ForeignKey(
        "hardware.Accelerator", on_delete=models.PROTECT, to_field="slug", related_name="node_types"
    )
    accelerator_count = models.PositiveSmallIntegerField(help_text="Devices in ONE machine.")
    vcpus = models.PositiveIntegerField(null=True, blank=True)
    host_memory_bytes = models.BigIntegerField(
        null=True, blank=True, help_text="Bytes: GiB × 1,073,741,824 (2 TiB: 2199023255552)."
    )
    local_nvme_bytes = models.BigIntegerField(
        null=True, blank=True, help_text="Bytes: GB × 10^9; 0 where there is none."
    )
    intra_link = models.CharField(max_length=80, help_text="NVLink 4 + NVSwitch, PCIe Gen5 x16 …, none for one device.")
    intra_interconnect = models.ForeignKey(
        Interconnect, on_delete=models.PROTECT, to_field="slug", null=True, blank=True, related_name="+"
    )
    topology = models.CharField(max_length=20, choices=Topology)
    intra_gigabytes_per_second_per_direction = models.FloatField(
        null=True, blank=True, validators=[MinValueValidator(0)], help_text="10^9 bytes a second per device EACH WAY."
    )
    scaleup_domain_size = models.PositiveIntegerField(
        help_text="Devices the link above joins: 8 in an HGX board, 72 in an NVL72 rack, 2 with a bridge."
    )
    inter_link = models.CharField(max_length=80, help_text="InfiniBand NDR, EFA v2, Ethernet …")
    inter_interconnect = models.ForeignKey(
        Interconnect, on_delete=models.PROTECT, to_field="slug", null=True, blank=True, related_name="+"
    )
    inter_gigabits_per_second_total = models.FloatField(
        null=True,
        blank=True,
        validators=[MinValueValidator(0)],
        help_text="10^9 BITS a second, whole machine (p5: 3200).",
    )
    inter_gigabits_per_second_per_accelerator = models.FloatField(
        null=True,
        blank=True,
        validators=[MinValueValidator(0)],
        help_text="The total divided by the devices (p5: 400).",
    )
    assumed = models.BooleanField(default=False, help_text="A machine nobody sells; shown as an assumption.")
    history = HistoricalRecords()

    class Meta:
        ordering = ("slug",)
        constraints = (
            models.UniqueConstraint(
                name="node_type_provider_instance",
                fields=("provider", "instance_name"),
                violation_error_message="This provider has this instance already: edit that row.",
            ),
            models.CheckConstraint(
                name="node_type_counts_positive",
                condition=Q(accelerator_count__gte=1, scaleup_domain_size__gte=1),
                violation_error_message="A machine has at least 1 device, and a scale-up domain joins at least 1.",
            ),
        )

    def __str__(self) -> str:
        return f"{self.provider} {self.instance_name}"
