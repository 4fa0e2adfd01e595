"""Pods and containers as hooks see them, whichever transport asks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from koord_model.resources import LinuxResources


@dataclass(frozen=True, slots=True)
class Pod:
    """A pod at the moment of a hook: identity, labels, annotations, limits."""

    name: str
    namespace: str
    uid: str
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    cgroup_parent: str = ""
    runtime_handler: str = ""
    resources: LinuxResources = LinuxResources()
    overhead: LinuxResources = LinuxResources()


@dataclass(frozen=True, slots=True)
class Container:
    """A container at the moment of a hook; ``id`` is empty before it exists."""

    pod: Pod
    name: str
    id: str = ""
    annotations: Mapping[str, str] = field(default_factory=dict)
    resources: LinuxResources = LinuxResources()
    env: Mapping[str, str] = field(default_factory=dict)
