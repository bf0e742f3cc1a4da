"""A PyTorchJob of the Kubeflow training operator, queued by Kueue. Source: kubeflow.org/v1 and Kueue's job pages."""

from __future__ import annotations

from typing import Any

from planner.export.base import Format, Launch, NotExportable, commented
from planner.export.commands import Command, command_of
from planner.export.texts import yaml_text

RESOURCES = {"nvidia": "nvidia.com/gpu", "amd": "amd.com/gpu", "intel": "habana.ai/gaudi"}
QUEUE = "user-queue"
IMAGE = "pytorch/pytorch:2.9.1-cuda12.8-cudnn9-devel"
FOLDER = "/etc/shardplan"


def write(launch: Launch) -> str:
    """A config map with the engine's configuration where it has one, and the job."""
    resource = RESOURCES.get(launch.vendor)
    if resource is None:
        raise NotExportable(
            f"no device plugin is known for devices of {launch.vendor}; it is for {', '.join(RESOURCES)}"
        )
    command = command_of(launch)
    launch.note(f"Replace the image with one that holds your script, and {QUEUE} with your LocalQueue.")
    documents = [_job(launch, command, resource)]
    if command.files:
        documents.insert(0, _config_map(launch, command))
    return commented(launch.comment()) + yaml_text(*documents)


def _config_map(launch: Launch, command: Command) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": launch.name},
        "data": dict(command.files),
    }


def _job(launch: Launch, command: Command, resource: str) -> dict[str, Any]:
    template = {"spec": _pod(launch, command, resource)}
    replicas: dict[str, Any] = {"Master": {"replicas": 1, "restartPolicy": "OnFailure", "template": template}}
    if launch.nodes > 1:
        worker = {"spec": _pod(launch, command, resource)}
        replicas["Worker"] = {"replicas": launch.nodes - 1, "restartPolicy": "OnFailure", "template": worker}
    return {
        "apiVersion": "kubeflow.org/v1",
        "kind": "PyTorchJob",
        "metadata": {"name": launch.name, "labels": {"kueue.x-k8s.io/queue-name": QUEUE}},
        "spec": {"pytorchReplicaSpecs": replicas},
    }


def _pod(launch: Launch, command: Command, resource: str) -> dict[str, Any]:
    # The operator gives each pod its rank among the nodes as RANK, and the first one's address.
    script = f'export NODE_RANK="$RANK" WORK={FOLDER}\nunset RANK WORLD_SIZE\n{command.script}\n'
    volumes: list[dict[str, Any]] = [{"name": "shm", "emptyDir": {"medium": "Memory"}}]
    mounts = [{"name": "shm", "mountPath": "/dev/shm"}]
    if command.files:
        volumes.append({"name": "config", "configMap": {"name": launch.name}})
        mounts.append({"name": "config", "mountPath": FOLDER})
    return {
        "containers": [
            {
                "name": "pytorch",
                "image": IMAGE,
                "command": ["bash", "-euc", script],
                "resources": {"limits": {resource: launch.devices_per_node}},
                "volumeMounts": mounts,
            }
        ],
        "volumes": volumes,
    }


FORMAT = Format(
    key="kubernetes",
    title="Kubernetes, PyTorchJob with Kueue",
    media_type="application/yaml",
    suffix=".yaml",
    write=write,
)
