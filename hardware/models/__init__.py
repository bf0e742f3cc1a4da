"""The catalog people edit: what devices, machines and links are, and what they cost."""

from hardware.models.accelerators import Accelerator
from hardware.models.machines import Interconnect, NodeType
from hardware.models.offers import Offer
from hardware.models.revision import CatalogRevision

__all__ = ["Accelerator", "CatalogRevision", "Interconnect", "NodeType", "Offer"]
