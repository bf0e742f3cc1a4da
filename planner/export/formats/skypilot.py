"""A SkyPilot task. Source: SkyPilot's YAML specification and its list of accelerators."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from planner.export.base import SLUG, Format, Launch, NotExportable, commented
from planner.export.commands import command_of
from planner.export.texts import heredoc, yaml_text

ACCELERATORS: Mapping[str, str] = {
    "a10": "A10",
    "a100-pcie-40gb": "A100",
    "a100-sxm4-40gb": "A100",
    "a100-pcie-80gb": "A100-80GB",
    "a100-sxm4-80gb": "A100-80GB",
    "a10g": "A10G",
    "a30": "A30",
    "a40": "A40",
    "b200-sxm": "B200",
    "b300-sxm": "B300",
    "gb200": "GB200",
    "gh200-96gb": "GH200",
    "h100-nvl-94gb": "H100-NVL",
    "h100-pcie-80gb": "H100",
    "h100-sxm5-80gb": "H100",
    "h200-sxm-141gb": "H200",
    "l4": "L4",
    "l40": "L40",
    "l40s": "L40S",
    "mi300x": "MI300X",
    "p100-pcie-16gb": "P100",
    "rtx-3090": "RTX3090",
    "rtx-4090": "RTX4090",
    "rtx-5090": "RTX5090",
    "rtx-6000-ada": "RTX6000-Ada",
    "rtx-a5000": "RTXA5000",
    "rtx-a6000": "RTXA6000",
    "t4": "T4",
    "v100-pcie-16gb": "V100",
    "v100-sxm2-16gb": "V100",
    "v100-sxm2-32gb": "V100-32GB",
}
CLOUDS: Mapping[str, str] = {
    "aws": "aws",
    "azure": "azure",
    "cudo": "cudo",
    "gcp": "gcp",
    "lambda": "lambda",
    "nebius": "nebius",
    "oci": "oci",
    "runpod": "runpod",
}


def write(launch: Launch) -> str:
    """A whole task: `sky launch FILE`."""
    device = ACCELERATORS.get(launch.accelerator)
    if device is None:
        raise NotExportable(f"SkyPilot has no name for {launch.accelerator}")
    command = command_of(launch)
    resources: dict[str, Any] = {"accelerators": f"{device}:{launch.devices_per_node}"}
    resources |= _place(launch)
    files = "".join(heredoc(f'"$WORK/{name}"', text) for name, text in command.files.items())
    script = (
        "set -euo pipefail\n"
        'export NODE_RANK="$SKYPILOT_NODE_RANK"\n'
        'read -r MASTER_ADDR <<< "$SKYPILOT_NODE_IPS"\n'
        'export MASTER_ADDR MASTER_PORT="${MASTER_PORT:-29500}"\n'
        f'export WORK="$PWD/{launch.name}"\n'
        'mkdir -p "$WORK"\n'
        f"{files}{command.script}\n"
    )
    task = {
        "name": launch.name,
        "num_nodes": launch.nodes,
        "resources": resources,
        "workdir": ".",
        "run": script,
    }
    return commented(launch.comment()) + yaml_text(task)


def _place(launch: Launch) -> dict[str, Any]:
    """The cloud of the plan's price, where SkyPilot knows it."""
    cloud = CLOUDS.get(launch.provider or "")
    place: dict[str, Any] = {"use_spot": launch.pricing == "spot"}
    if cloud is None:
        launch.note("The plan's price is of a provider SkyPilot does not know: it will look for a price of its own.")
        return place
    place = {"cloud": cloud} | place
    region = launch.region or ""
    # Some price lists name a continent or "all regions": only what can be a region's name is passed on.
    if SLUG.fullmatch(region) and "-" in region:
        place |= {"region": region}
    return place


FORMAT = Format(key="skypilot", title="SkyPilot", media_type="application/yaml", suffix=".yaml", write=write)
