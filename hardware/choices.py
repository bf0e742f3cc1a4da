"""The closed lists of stored kinds: lower-case values, words for people."""

from django.db.models import TextChoices


class Vendor(TextChoices):
    NVIDIA = "nvidia", "NVIDIA"
    AMD = "amd", "AMD"
    INTEL = "intel", "Intel"
    GOOGLE = "google", "Google"
    AWS = "aws", "AWS"
    GENERIC = "generic", "Generic"


class DeviceKind(TextChoices):
    GPU = "gpu", "GPU"
    GPU_SLICE = "gpu-slice", "Slice of a GPU (MIG)"
    TPU = "tpu", "TPU"
    NPU = "npu", "Training or inference chip"
    CPU = "cpu", "CPU server"


class Topology(TextChoices):
    SWITCHED = "switched", "Switched, all to all"
    MESH = "mesh", "Fully connected mesh"
    TORUS = "torus", "Torus"
    HYBRID_CUBE_MESH = "hybrid-cube-mesh", "Hybrid cube mesh"
    PAIR = "pair", "Bridged pairs"
    PCIE = "pcie", "PCIe"
    PCIE_NO_P2P = "pcie-no-p2p", "PCIe without peer to peer"
    SINGLE = "single", "Single device"


class LinkTopology(TextChoices):
    SWITCHED = "switched", "Switched"
    POINT_TO_POINT = "point-to-point", "Point to point"
    PAIR = "pair", "Pair"
    MESH = "mesh", "Mesh"
    TORUS = "torus", "Torus"
    BUS = "bus", "Bus"


class LinkScope(TextChoices):
    INTRA = "intra", "Inside a machine"
    INTER = "inter", "Between machines"
    HOST = "host", "Device to host"
    INTRA_HOST = "intra-host", "Inside a machine and to the host"


class PricingKind(TextChoices):
    ON_DEMAND = "on-demand", "On demand"
    SPOT = "spot", "Spot"
    RESERVED = "reserved", "Reserved"


class Commitment(TextChoices):
    NONE = "", "None"
    ONE_YEAR = "1y", "1 year"
    THREE_YEARS = "3y", "3 years"


class DatePrecision(TextChoices):
    EXACT = "exact", "Exact day"
    BOUNDED = "bounded", "Known to have held until"
    UNDATED = "undated", "Undated, within a window"


class Confidence(TextChoices):
    HIGH = "high", "High"
    MEDIUM = "medium", "Medium"
    LOW = "low", "Low"
    ASSUMED = "assumed", "Assumed, no published source"


class Origin(TextChoices):
    SHIPPED = "shipped", "Shipped with the product"
    EDITED = "edited", "Edited here"
