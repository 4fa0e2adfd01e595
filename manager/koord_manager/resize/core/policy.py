"""Policy of a workload on resizes: the annotation of its Recommendation, or a VPA. No IO."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, Literal

import msgspec
from koord_model.demand import Amounts, amount
from koord_model.excerpt import excerpt
from koord_model.keys import CPU, MEMORY

ANNOTATION = "analysis.koordinator.sh/pykoord-resize"
RECOMMENDER = "pykoord"
"""Name in ``spec.recommenders`` of VPAs that are read here."""
ALL_CONTAINERS = "*"
_Resource = Literal["cpu", "memory"]
RESOURCES = (CPU, MEMORY)
"""All that Kubernetes resizes."""

_Values = Literal["RequestsOnly", "RequestsAndLimits"]


class ResizeMode(StrEnum):
    """Way in which recommendations are applied."""

    OFF = "off"
    INITIAL = "initial"
    IN_PLACE = "inPlace"


@dataclass(frozen=True, slots=True)
class ContainerResizePolicy:
    """Bounds of a container's requests; without ``limits``, these stay as they are."""

    minimum: Amounts = field(default_factory=dict)
    maximum: Amounts = field(default_factory=dict)
    resources: frozenset[str] = frozenset(RESOURCES)
    limits: bool = True


@dataclass(frozen=True, slots=True)
class ResizePolicy:
    """Policy of a workload; in ``shadow`` mode resizes are only reported."""

    mode: ResizeMode = ResizeMode.OFF
    shadow: bool = True
    restart: bool = False
    containers: Mapping[str, ContainerResizePolicy] = field(default_factory=dict)

    def of(self, container: str) -> ContainerResizePolicy:
        """The container's own policy, or else the one of all."""
        default = self.containers.get(ALL_CONTAINERS, ContainerResizePolicy())
        return self.containers.get(container, default)


class _Container(msgspec.Struct, forbid_unknown_fields=True, rename="camel"):
    min_allowed: dict[str, str | int | float] = {}
    max_allowed: dict[str, str | int | float] = {}
    controlled_resources: list[_Resource] = msgspec.field(default_factory=lambda: ["cpu", "memory"])
    controlled_values: _Values = "RequestsAndLimits"


class _Annotation(msgspec.Struct, forbid_unknown_fields=True):
    mode: ResizeMode
    shadow: bool = True
    restart: bool = False
    containers: dict[str, _Container] = {}


_ANNOTATION = msgspec.json.Decoder(_Annotation)


class _VpaContainer(msgspec.Struct, rename="camel"):
    container_name: str = ALL_CONTAINERS
    mode: str = "Auto"
    min_allowed: dict[str, str | int | float] | None = None
    max_allowed: dict[str, str | int | float] | None = None
    controlled_resources: list[str] | None = None
    controlled_values: _Values = "RequestsAndLimits"


class _VpaResourcePolicy(msgspec.Struct, rename="camel"):
    container_policies: list[_VpaContainer] | None = None


class _VpaUpdatePolicy(msgspec.Struct, rename="camel"):
    update_mode: str = "Auto"


class _VpaRecommender(msgspec.Struct):
    name: str = ""


class _VpaSpec(msgspec.Struct, rename="camel"):
    recommenders: list[_VpaRecommender] | None = None
    update_policy: _VpaUpdatePolicy | None = None
    resource_policy: _VpaResourcePolicy | None = None


def parse(text: str) -> ResizePolicy:
    """The policy in the annotation.

    Raises:
        ValueError: it is not valid; one line names what is wrong.
    """
    try:
        given = _ANNOTATION.decode(text)
        containers = {
            name: _container(
                f"containers.{name}",
                container.min_allowed,
                container.max_allowed,
                container.controlled_resources,
                container.controlled_values,
            )
            for name, container in given.containers.items()
        }
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise ValueError(f"annotation {ANNOTATION}: {error} (no pod is resized)") from None
    return ResizePolicy(given.mode, given.shadow, given.restart, containers)


def of_vpa(spec: Mapping[str, Any], opted_in: ResizePolicy) -> ResizePolicy:
    """The policy of a VerticalPodAutoscaler that has our annotation too.

    Bounds are the VPA's, all else the annotation's. VPA's own updater acts on every VPA whatever
    its recommender, so that only one whose update mode is ``Off`` is ours alone.

    Raises:
        ValueError: the VPA is not valid, or not ours alone; one line says why.
    """
    try:
        given = msgspec.convert(spec, _VpaSpec)
    except msgspec.ValidationError as error:
        raise ValueError(f"spec: {error} (no pod is resized)") from None
    if RECOMMENDER not in {recommender.name for recommender in given.recommenders or ()}:
        raise ValueError(f"spec.recommenders does not name {excerpt(RECOMMENDER)}: add it")
    mode = (given.update_policy or _VpaUpdatePolicy()).update_mode
    if mode != "Off":
        shown = f"spec.updatePolicy.updateMode is {excerpt(mode)}"
        raise ValueError(f'{shown}, by which VPA resizes the pods too; expected "Off"')
    policies = (given.resource_policy or _VpaResourcePolicy()).container_policies or ()
    containers = {
        policy.container_name: _container(
            f"spec.resourcePolicy of {policy.container_name}",
            policy.min_allowed or {},
            policy.max_allowed or {},
            _vpa_resources(policy),
            policy.controlled_values,
        )
        for policy in policies
    }
    return replace(opted_in, containers=containers)


def _vpa_resources(policy: _VpaContainer) -> list[str]:
    if policy.mode == "Off":
        return []
    given = policy.controlled_resources
    return list(RESOURCES) if given is None else [name for name in given if name in RESOURCES]


def _container(
    where: str,
    low: Mapping[str, object],
    high: Mapping[str, object],
    resources: list[Any],
    values: str,
) -> ContainerResizePolicy:
    minimum, maximum = _bounds(f"{where}.minAllowed", low), _bounds(f"{where}.maxAllowed", high)
    for name in minimum.keys() & maximum.keys():
        if minimum[name] > maximum[name]:
            bounds = f"{excerpt(str(low[name]))} and {excerpt(str(high[name]))}"
            raise ValueError(f"{where}: {name} has minAllowed and maxAllowed {bounds}; swap them")
    return ContainerResizePolicy(
        minimum, maximum, frozenset(resources), limits=values == "RequestsAndLimits"
    )


def _bounds(where: str, given: Mapping[str, object]) -> Amounts:
    found: dict[str, int] = {}
    for name, quantity in given.items():
        value = amount(name, str(quantity)) if name in RESOURCES else None
        if value is None or value <= 0:
            shown = f"{excerpt(name)} {excerpt(str(quantity))}"
            raise ValueError(f"{where} has {shown}; expected cpu or memory above 0")
        found[name] = value
    return found
