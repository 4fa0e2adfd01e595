"""Extended resources that DeviceClasses back: a pod that names one gets devices of the class.

No IO. As Kubernetes' feature DRAExtendedResource: on nodes where no device plugin has the resource
the scheduler makes a claim for the pod, with a request for each container that needs devices.
Init containers that end use devices that later containers get anyway, as far as these suffice.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from koord_model.quantity import nano

from koord_scheduler.objects.pod import PodInfo, SchedulingContainer
from koord_scheduler.plugins.dynamic_resources.objects import (
    ClaimRequest,
    DeviceClaim,
    DeviceClass,
    DeviceRequest,
    ResourceClaimSpec,
)
from koord_scheduler.state.pod_parts import PodPart

IMPLICIT_PREFIX = "deviceclass.resource.kubernetes.io/"
"""Before the name of a DeviceClass, a resource that it backs without saying so."""
_BILLION = 10**9


class ContainerRequest(NamedTuple):
    """So many ``pieces`` of an extended resource a container asks for.

    ``number`` is the container's place, init containers first; it ``ends`` before later ones run.
    ``name`` is that of the claim's request, if there has to be one.
    """

    container: str
    number: int
    ends: bool
    resource: str
    name: str
    pieces: int


EXTENDED: PodPart[tuple[ContainerRequest, ...]] = PodPart("extended resources", ())


class RequestMapping(NamedTuple):
    """A request of the claim that is for a container's resource."""

    container: str
    resource: str
    request: str


class ExtendedClaim(NamedTuple):
    """Claim of a pod's extended resources, and the containers that it is for."""

    spec: ResourceClaimSpec
    mappings: tuple[RequestMapping, ...]


def may_be_backed(resource: str) -> bool:
    """True if a DeviceClass can back a resource: its domain is not Kubernetes'."""
    if resource.startswith(IMPLICIT_PREFIX):
        return True
    is_own = "kubernetes.io/" in resource or resource.startswith("requests.")
    return "/" in resource and not is_own


def container_requests(pod: PodInfo) -> tuple[ContainerRequest, ...]:
    """The extended resources that containers of a pod ask for.

    Raises:
        ValueError: a quantity is not one.
    """
    inits = pod.spec.init_containers or []
    containers = [*inits, *(pod.spec.containers or ())]
    return tuple(
        found
        for number, container in enumerate(containers)
        for found in _requests(container, number, number < len(inits) and not container.is_sidecar)
    )


def _requests(
    scheduling_container: SchedulingContainer, number: int, ends: bool
) -> Iterator[ContainerRequest]:
    asked = scheduling_container.resources.requests if scheduling_container.resources else None
    for place, resource in enumerate(sorted(asked or ())):
        amount = (asked or {})[resource]
        if may_be_backed(resource) and amount is not None:
            count, rest = divmod(nano(amount), _BILLION)
            if count > 0 and not rest:
                name = f"container-{number}-request-{place}"
                yield ContainerRequest(
                    scheduling_container.name, number, ends, resource, name, count
                )


def backing_classes(classes: Mapping[str, DeviceClass]) -> dict[str, str]:
    """The name of the class behind each resource; of several the newest, then the first."""
    found = {f"{IMPLICIT_PREFIX}{name}": name for name in classes}
    by_name = sorted(classes.items(), reverse=True)
    for name, one in sorted(by_name, key=lambda each: each[1].metadata.creation_timestamp or ""):
        if one.spec.extended_resource_name is not None:
            found[one.spec.extended_resource_name] = name
    return found


def extended_claim(
    asked: Sequence[ContainerRequest], classes: Mapping[str, str]
) -> ExtendedClaim | None:
    """The claim to devices of ``classes``, by resource; ``None`` if no container needs any."""
    requests: dict[str, ClaimRequest] = {}
    mappings: list[RequestMapping] = []
    for resource, name in sorted(classes.items()):
        of = [one for one in asked if one.resource == resource]
        staying = [one for one in of if not one.ends]
        counts = {one.name: one.pieces for one in staying}
        mappings += [RequestMapping(one.container, resource, one.name) for one in staying]
        further, ending = _ending([one for one in of if one.ends], staying)
        for request, count in (counts | further).items():
            requests[request] = ClaimRequest(
                request, DeviceRequest(device_class_name=name, count=count)
            )
        mappings += ending
    if not requests:
        return None
    in_order = [requests[name] for name in sorted(requests)]
    return ExtendedClaim(ResourceClaimSpec(DeviceClaim(in_order)), tuple(mappings))


def _ending(
    asked: Iterable[ContainerRequest], staying: Sequence[ContainerRequest]
) -> tuple[dict[str, int], list[RequestMapping]]:
    """For containers that end: devices of later ones; one request has what all lack beside."""
    lacking: dict[str, int] = {}
    mappings = []
    for one in asked:
        missing = one.pieces
        for other in staying:
            if other.number > one.number and missing > 0:
                mappings.append(RequestMapping(one.container, one.resource, other.name))
                missing -= other.pieces
        if missing > 0:
            lacking[one.name] = missing
            mappings.append(RequestMapping(one.container, one.resource, one.name))
    if not lacking:
        return {}, mappings
    most = max(lacking, key=lambda name: lacking[name])
    shared = [
        mapping._replace(request=most) if mapping.request in lacking else mapping
        for mapping in mappings
    ]
    return {most: lacking[most]}, shared
