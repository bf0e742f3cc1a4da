"""Accelerator: one device as a training framework counts it."""

from __future__ import annotations

from typing import Any, ClassVar

from django.core.validators import MinValueValidator
from django.db import models
from django.db.models import F, Q
from simple_history.models import HistoricalRecords

from hardware.choices import DeviceKind, Vendor
from hardware.columns import ACCELERATORS, Table
from hardware.models.catalog_row import CatalogRow


def _quantity(help_text: str) -> models.FloatField[Any, Any]:
    return models.FloatField(null=True, blank=True, validators=[MinValueValidator(0)], help_text=help_text)


def _dense(what: str, example: str) -> models.FloatField[Any, Any]:
    return _quantity(f"{what}, 10^12 operations a second, DENSE (vendors print the sparse double): {example}.")


class Accelerator(CatalogRow):
    table: ClassVar[Table] = ACCELERATORS

    slug = models.CharField(max_length=80, unique=True, editable=False)
    name = models.CharField(max_length=80, unique=True, help_text="Variant included: H100-SXM5-80GB, not H100.")
    vendor = models.CharField(max_length=10, choices=Vendor)
    architecture = models.CharField(max_length=40, help_text="Hopper, CDNA3, TPU v5p …")
    kind = models.CharField(max_length=10, choices=DeviceKind)
    year = models.PositiveSmallIntegerField(null=True, blank=True)
    form_factor = models.CharField(max_length=40, blank=True, help_text="SXM5, PCIe, OAM …")
    parent = models.ForeignKey(
        "self",
        on_delete=models.PROTECT,
        to_field="slug",
        null=True,
        blank=True,
        related_name="slices",
        help_text="For a slice: the whole device.",
    )
    parent_fraction = _quantity("For a slice: its share of the device's compute units, 0 to 1 (42 of 108 SMs: 0.3889).")
    software_devices = models.PositiveSmallIntegerField(
        default=1, help_text="Devices that software sees in one package (MI250X: 2)."
    )

    memory_gb_marketing = models.FloatField(help_text="The vendor's word, GB or GiB mixed; never used in arithmetic.")
    memory_bytes = models.BigIntegerField(
        null=True,
        blank=True,
        help_text="Capacity the driver reports, bytes: nvidia-smi's MiB × 1,048,576 (H100: 85520809984).",
    )
    memory_reported_by = models.CharField(
        max_length=200, blank=True, help_text="Which tool printed the capacity, where."
    )
    torch_total_gib = _quantity("What a framework sees of it, GiB (H100: 79.10).")
    memory_type = models.CharField(max_length=20, blank=True)
    memory_bandwidth_gigabytes_per_second = _quantity("10^9 bytes a second (H100 SXM: 3350).")

    fp32_teraflops = _dense("fp32", "66.9")
    tf32_teraflops = _dense("TF32", "494.7")
    fp16_teraflops = _dense("fp16 matrix", "989.4")
    bf16_teraflops = _dense("bf16 matrix", "989.4")
    fp8_teraflops = _dense("fp8 matrix", "1978.9")
    fp4_teraflops = _dense("fp4 matrix", "9000")
    int8_teraops = _dense("int8 matrix", "1978.9")
    measured_max_bf16_teraflops = _quantity("Best bf16 matmul anybody measured, 10^12 a second.")

    scaleup_link = models.CharField(max_length=60, help_text="NVLink 4, Infinity Fabric 4, ICI …, or none.")
    scaleup_gigabytes_per_second_per_direction = _quantity("10^9 bytes a second EACH WAY (H100: 450).")
    scaleup_gigabytes_per_second_bidirectional = _quantity("What vendors print, both ways together (H100: 900).")
    pcie_generation = models.PositiveSmallIntegerField(null=True, blank=True)
    pcie_gigabytes_per_second_per_direction = _quantity("10^9 bytes a second each way (Gen5 x16: 63).")
    power_watts = _quantity("Board power, watts.")

    supports_bf16 = models.BooleanField()
    supports_fp8 = models.BooleanField()
    compute_capability = models.CharField(max_length=10, blank=True, help_text="9.0, gfx942 …")
    default_node = models.ForeignKey(
        "hardware.NodeType",
        on_delete=models.PROTECT,
        to_field="slug",
        null=True,
        blank=True,
        related_name="+",
        help_text="The machine assumed where a request names none.",
    )
    history = HistoricalRecords()

    class Meta:
        ordering = ("slug",)
        constraints = (
            models.CheckConstraint(
                name="accelerator_memory_positive",
                condition=Q(memory_bytes__isnull=True) | Q(memory_bytes__gt=0),
                violation_error_message="The capacity must be a positive number of bytes, or empty where unknown.",
            ),
            models.CheckConstraint(
                name="accelerator_software_devices_positive",
                condition=Q(software_devices__gte=1),
                violation_error_message="Software sees at least 1 device: enter 1.",
            ),
            models.CheckConstraint(
                name="accelerator_measured_below_peak",
                condition=Q(measured_max_bf16_teraflops__isnull=True)
                | Q(bf16_teraflops__isnull=True)
                | Q(measured_max_bf16_teraflops__lte=F("bf16_teraflops")),
                violation_error_message="A measured bf16 rate above the peak: one of the two is wrong.",
            ),
            models.CheckConstraint(
                name="accelerator_slice_has_parent",
                condition=Q(kind="gpu-slice", parent__isnull=False, parent_fraction__gt=0, parent_fraction__lte=1)
                | (~Q(kind="gpu-slice") & Q(parent__isnull=True, parent_fraction__isnull=True)),
                violation_error_message="A slice names its device and its share of it (0 to 1); others name neither.",
            ),
        )

    def __str__(self) -> str:
        return self.name
