"""Allocation of a claim as written into its status. No IO."""

from __future__ import annotations

from typing import Any

import msgspec
from koord_model.quantity import nano_text

from koord_scheduler.plugins.dynamic_resources.allocator import ChosenDevice, ClaimDevices
from koord_scheduler.plugins.dynamic_resources.objects import (
    DeviceClaimConfiguration,
    ResourceClaimSpec,
)

Document = dict[str, Any]


def allocation_result(found: ClaimDevices, claim: ResourceClaimSpec, node: str) -> Document:
    """An AllocationResult; shares of devices still need their ids."""
    devices: Document = {"results": [*map(_result, found.devices)]}
    config = [*_class_config(found), *_claim_config(found, claim)]
    if config:
        devices["config"] = config
    result: Document = {"devices": devices}
    selector = _node_selector(found, node)
    if selector is not None:
        result["nodeSelector"] = selector
    return result


def _result(chosen_device: ChosenDevice) -> Document:
    device, request = chosen_device.device, chosen_device.alternative.request
    found: Document = {
        "request": chosen_device.alternative.name,
        "driver": device.id.driver,
        "pool": device.id.pool,
        "device": device.id.device,
    }
    if request.admin_access:
        found["adminAccess"] = True
    if request.tolerations:
        found["tolerations"] = msgspec.to_builtins(request.tolerations)
    if chosen_device.consumed:
        found["consumedCapacity"] = {
            name: nano_text(amount) for name, amount in chosen_device.consumed.items()
        }
    if device.device.binding_conditions:
        found["bindingConditions"] = device.device.binding_conditions
    if device.device.binding_failure_conditions:
        found["bindingFailureConditions"] = device.device.binding_failure_conditions
    return found


def _class_config(found: ClaimDevices) -> list[Document]:
    """The settings of each class, once, with the requests that they are for."""
    by_class: dict[str, list[Document]] = {}
    for alternative in found.alternatives:
        known = by_class.get(alternative.device_class.metadata.name)
        if known is None:
            by_class[alternative.device_class.metadata.name] = [
                _configuration("FromClass", given, [alternative.name])
                for given in alternative.device_class.spec.config
            ]
        else:
            for document in known:
                document["requests"].append(alternative.name)
    return [document for documents in by_class.values() for document in documents]


def _claim_config(found: ClaimDevices, claim: ResourceClaimSpec) -> list[Document]:
    """Those settings of the claim that concern requests, or alternatives, that were taken."""
    documents = []
    for given in claim.devices.config:
        concerned = 1
        if given.requests:
            taken = found.alternatives
            concerned = sum(
                (one.parent or one.name) in given.requests or one.name in given.requests
                for one in taken
            )
        # Once for each request, as kube-scheduler writes them.
        documents += [_configuration("FromClaim", given, given.requests)] * concerned
    return documents


def _configuration(source: str, given: DeviceClaimConfiguration, requests: list[str]) -> Document:
    found: Document = {"source": source}
    if requests:
        found["requests"] = requests
    if given.opaque is not None:
        found["opaque"] = given.opaque
    return found


def _node_selector(found: ClaimDevices, node: str) -> Document | None:
    """The nodes where all devices can be used; ``None`` for all nodes."""
    kinds: dict[str, list[Document]] = {"matchExpressions": [], "matchFields": []}
    for one in found.devices:
        spec, device = one.device.slice.spec, one.device.device
        where = device if spec.per_device_node_selection else spec
        if where.node_name is not None or device.binds_to_node:
            field = {"key": "metadata.name", "operator": "In", "values": [node]}
            return {"nodeSelectorTerms": [{"matchFields": [field]}]}
        for term in (where.node_selector or {}).get("nodeSelectorTerms") or ():
            for kind, requirements in kinds.items():
                for requirement in term.get(kind) or ():
                    if not any(map(_is_same(requirement), requirements)):
                        requirements.append(requirement)
    term = {kind: requirements for kind, requirements in kinds.items() if requirements}
    return {"nodeSelectorTerms": [term]} if term else None


def _is_same(document: Document) -> Any:
    def is_same(other: Document) -> bool:
        return _requirement(document) == _requirement(other)

    return is_same


def _requirement(document: Document) -> tuple[str, str, frozenset[str]]:
    return document["key"], document["operator"], frozenset(document.get("values") or ())
