"""The embedded runtime's records of pods and containers, and their form in CRI."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from typing import Any

from google.protobuf.message import Message

from koord_demo import cri_client_pb2 as pb
from koord_demo.cgroup_tree import CgroupLimits

SANDBOX_LIMITS = CgroupLimits(shares=2)
SANDBOX_OOM_SCORE_ADJ = -998


@dataclasses.dataclass
class DemoSandbox:
    """A pod's sandbox; times are nanoseconds since the epoch."""

    id: str
    config: pb.PodSandboxConfig
    runtime_handler: str
    created_at: int
    ready: bool = True

    @property
    def name(self) -> str:
        """Unique among the sandboxes that exist."""
        m = self.config.metadata
        return f"{m.name}_{m.namespace}_{m.uid}_{m.attempt}"

    @property
    def cgroup(self) -> str:
        return f"{self.config.linux.cgroup_parent}/{self.id}"

    @property
    def state(self) -> pb.PodSandboxState:
        return pb.SANDBOX_READY if self.ready else pb.SANDBOX_NOTREADY

    def listed(self) -> pb.PodSandbox:
        return pb.PodSandbox(
            id=self.id,
            metadata=self.config.metadata,
            state=self.state,
            created_at=self.created_at,
            labels=self.config.labels,
            annotations=self.config.annotations,
            runtime_handler=self.runtime_handler,
        )

    def status(self) -> pb.PodSandboxStatus:
        return pb.PodSandboxStatus(
            id=self.id,
            metadata=self.config.metadata,
            state=self.state,
            created_at=self.created_at,
            labels=self.config.labels,
            annotations=self.config.annotations,
            runtime_handler=self.runtime_handler,
        )

    def info(self) -> str:
        """The verbose part of a status, as containerd writes it."""
        return json.dumps(
            {
                "pid": 0,
                "processStatus": "running" if self.ready else "deleted",
                "runtimeHandler": self.runtime_handler,
                "config": go_json(self.config),
                "runtimeSpec": {
                    "process": {"oomScoreAdj": SANDBOX_OOM_SCORE_ADJ},
                    "linux": {"resources": SANDBOX_LIMITS.spec(), "cgroupsPath": self.cgroup},
                },
            }
        )


@dataclasses.dataclass
class DemoContainer:
    """A container; times are nanoseconds since the epoch."""

    id: str
    sandbox: DemoSandbox
    config: pb.ContainerConfig
    cgroup: str
    """Fixed at creation, below the parent that the request's sandbox_config names."""
    limits: CgroupLimits
    created_at: int
    started_at: int = 0
    finished_at: int = 0
    state: pb.ContainerState = pb.CONTAINER_CREATED
    exit_code: int = 0
    reason: str = ""
    message: str = ""
    pid: int = 0

    @property
    def name(self) -> str:
        """Unique among the containers that exist."""
        m = self.config.metadata
        return f"{m.name}_{self.sandbox.name}_{m.attempt}"

    @property
    def oom_score_adj(self) -> int:
        """As asked for at creation: an update does not change it."""
        return self.config.linux.resources.oom_score_adj

    def listed(self) -> pb.Container:
        return pb.Container(
            id=self.id,
            pod_sandbox_id=self.sandbox.id,
            metadata=self.config.metadata,
            image=self.config.image,
            image_ref=self.config.image.image,
            state=self.state,
            created_at=self.created_at,
            labels=self.config.labels,
            annotations=self.config.annotations,
        )

    def status(self) -> pb.ContainerStatus:
        linux = pb.LinuxContainerResources(
            cpu_period=self.limits.period,
            cpu_quota=self.limits.quota,
            cpu_shares=self.limits.shares,
            memory_limit_in_bytes=self.limits.memory,
            oom_score_adj=self.oom_score_adj,
            cpuset_cpus=self.limits.cpus,
            cpuset_mems=self.limits.mems,
            memory_swap_limit_in_bytes=self.limits.swap,
        )
        return pb.ContainerStatus(
            id=self.id,
            metadata=self.config.metadata,
            state=self.state,
            created_at=self.created_at,
            started_at=self.started_at,
            finished_at=self.finished_at,
            exit_code=self.exit_code,
            image=self.config.image,
            image_ref=self.config.image.image,
            reason=self.reason,
            message=self.message,
            labels=self.config.labels,
            annotations=self.config.annotations,
            mounts=self.config.mounts,
            resources=pb.ContainerResources(linux=linux),
        )

    def info(self) -> str:
        """The verbose part of a status, as containerd writes it.

        ``config`` stays as sent at creation; updates show in the spec only.
        """
        return json.dumps(
            {
                "sandboxID": self.sandbox.id,
                "pid": self.pid,
                "config": go_json(self.config),
                "runtimeSpec": {
                    "process": {"oomScoreAdj": self.oom_score_adj, "env": _variables(self.config)},
                    "linux": {"resources": self.limits.spec(), "cgroupsPath": self.cgroup},
                },
            }
        )


def _variables(config: pb.ContainerConfig) -> list[str]:
    """The environment as the OCI spec has it; this runtime's images have none of their own."""
    return [f"{variable.key}={go_json(variable.value)}" for variable in config.envs]


def go_json(value: Any) -> Any:
    """A message as Go's encoding/json writes it: proto names, numbers as numbers."""
    if isinstance(value, Message):
        return {field.name: go_json(content) for field, content in value.ListFields()}
    if isinstance(value, Mapping):
        return {key: go_json(content) for key, content in value.items()}
    if isinstance(value, bytes):
        return value.decode(errors="replace")
    if isinstance(value, str | int | float):
        return value
    return [go_json(content) for content in value]
