"""Pods of a service compete for CPUs as if they requested other amounts.

The kubelet makes a pod's weight of its request. A service that needs its CPUs at once in the peaks
for which it requests little, or one that requests more than it deserves, has another weight here:
that of a number of cores. Only the group of the pod is changed, the containers in it share as
before. Set in the NodeSLO::

    extensions:
      pykoord:
        strategies:
          cpu_weight:
            services:
            - {name: web, selector: {matchLabels: {app: web}}, cores: 4}

A service's profile (``weightCores``) goes before these settings.

Best-effort pods, whose weight is batch-cpu's, are left alone, as are pods in virtual machines and
idle groups, whose weight the kernel does not let anybody write.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from koord_model.node_slo import NodeSLO
from koord_model.qos import QoSClass
from koord_model.service_targets import ServicePods
from msgspec import Meta

from koordlet.qos_manager.core.strategy import (
    Decision,
    Plan,
    PodView,
    StrategyView,
    Term,
    desired_value,
)

GATE = "ServiceCPUWeight"
INTERVAL = 10.0

_SHARES, _IDLE = "cpu.shares", "cpu.idle"
_OF_A_CORE = 1024
_LEAST, _MOST = 2, 262_144


@dataclass(frozen=True)
class ServiceWeight(ServicePods):
    """Weight of one service's pods."""

    cores: Annotated[float, Meta(gt=0, le=1024)] = 1.0
    """Each pod competes as if it requested so many cores."""


@dataclass(frozen=True)
class Settings:
    """Settings of the NodeSLO's ``extensions``; without them there are no weights."""

    services: tuple[ServiceWeight, ...] = ()
    """Weights of services; a pod belongs to the first that selects it."""


def settings(slo: NodeSLO) -> Settings:
    """No weights: Koordinator's NodeSLO has none."""
    return Settings()


def plan(view: StrategyView, settings: Settings, memory: object) -> Plan:
    """The weights of all selected pods."""
    found = []
    for pod in view.pods:
        service = _service(view, pod, settings) if _has_weight(pod) else None
        if service is not None and view.cgroups.now(pod.group, _IDLE) != 1:
            decision = _decision(pod, service)
            found.append((pod, decision, _shares(service)))
    desired = tuple(
        desired_value(pod.group, _SHARES, shares, decision, pod.name)
        for pod, decision, shares in found
    )
    return Plan(desired, tuple(decision for _, decision, _ in found))


def _service(view: StrategyView, pod: PodView, settings: Settings) -> ServiceWeight | None:
    """The weight in the pod's profile, or else in the settings."""
    of = pod.record.pod
    for profile in view.slo.services:
        if profile.weight_cores is not None and profile.weighs(of):
            return ServiceWeight(profile.name, cores=profile.weight_cores)
    return next((service for service in settings.services if service.selects(of)), None)


def _has_weight(pod: PodView) -> bool:
    return pod.qos is not QoSClass.BE and not pod.in_vm


def _shares(service: ServiceWeight) -> int:
    return min(max(round(service.cores * _OF_A_CORE), _LEAST), _MOST)


def _decision(pod: PodView, service: ServiceWeight) -> Decision:
    shares = _shares(service)
    given = (Term("cores", service.cores, "cores"), Term("shares", shares))
    outcome = f"pods of {service.name} compete for CPU as if they requested {service.cores:g} cores"
    formula = f"shares = min(max(cores × {_OF_A_CORE}, {_LEAST}), {_MOST})"
    return Decision(outcome, formula, given, pod=pod.name, group=pod.group)
