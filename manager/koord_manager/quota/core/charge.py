"""Pods charged to a quota before they are created: how much, and whether it still fits. No IO."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from koord_model.demand import Amounts
from koord_model.elastic_quota import amounts_in, parse
from koord_model.excerpt import excerpt
from koord_model.json_objects import inside
from koord_model.keys import (
    ANNOTATION_CHILD_REQUEST,
    ANNOTATION_QUOTA_ADMISSION,
    BATCH_CPU,
    BATCH_MEMORY,
    CPU,
    GPU,
    GPU_MEMORY_RATIO,
    GPU_SHARED,
    MEMORY,
    MID_CPU,
    MID_MEMORY,
    NVIDIA_GPU,
)
from koord_model.quantity import quantity_text

from koord_manager.quota.core.amounts import encode, total

_CHARGED = {
    *(CPU, MEMORY, "ephemeral-storage"),
    *("requests.cpu", "requests.memory", "requests.ephemeral-storage"),
    *(BATCH_CPU, BATCH_MEMORY, MID_CPU, MID_MEMORY),
    *(GPU, NVIDIA_GPU, GPU_SHARED, GPU_MEMORY_RATIO),
}
"""A quota that bounds none of these is charged for nothing."""


@dataclass(frozen=True, slots=True)
class QuotaCharge:
    """One pod's charge to the quota with this name; nothing is written for a ``dry_run``."""

    name: str
    namespace: str
    requests: Amounts
    dry_run: bool = False

    @property
    def key(self) -> str:
        """The quota's "namespace/name"."""
        return f"{self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True)
class QuotaAccount:
    """A quota at a resource version: what is charged to it, and up to where it may be.

    Resources that ``bound`` does not name are unlimited.
    """

    name: str
    version: str = ""
    charged: Amounts = field(default_factory=dict)
    bound: Amounts = field(default_factory=dict)
    resources: frozenset[str] = frozenset()


def read_account(document: Mapping[str, Any]) -> QuotaAccount:
    """The account of a quota.

    Raises:
        ValueError: an annotation that it depends on cannot be read.
    """
    quota, _ = parse(document)
    metadata = inside(dict(document), "metadata")
    annotations = inside(metadata, "annotations")
    charged = _annotated(quota.name, annotations, ANNOTATION_CHILD_REQUEST)
    admission = _annotated(quota.name, annotations, ANNOTATION_QUOTA_ADMISSION)
    return QuotaAccount(
        quota.name,
        str(metadata.get("resourceVersion", "")),
        charged,
        admission or quota.max,
        frozenset(quota.max),
    )


def _annotated(quota: str, annotations: Mapping[str, object], key: str) -> Amounts:
    given = annotations.get(key)
    try:
        return (amounts_in(given) if given is not None else None) or {}
    except ValueError:
        raise ValueError(
            f"ElasticQuota {excerpt(quota)}: annotation {key} is {excerpt(str(given))}; expected "
            "a JSON object of quantities"
        ) from None


def charge_all(
    found: QuotaAccount, charges: Sequence[QuotaCharge]
) -> tuple[Amounts, tuple[str, ...]]:
    """Return the quota's charge after these, and for each of them a refusal ("": none).

    They are charged in this order; what does not fit leaves its room to those that follow.
    """
    charged = found.charged
    refusals: list[str] = []
    for charge in charges:
        requests = _counted(found, charge)
        after = total([charged, requests])
        refusal = _refusal(found, requests, charged, after)
        refusals.append(refusal)
        charged = charged if refusal or charge.dry_run else after
    return charged, tuple(refusals)


def charge_patch(charged: Amounts) -> dict[str, Any]:
    """The merge patch of a quota to which so much is charged."""
    return {"metadata": {"annotations": {ANNOTATION_CHILD_REQUEST: encode(charged)}}}


def _counted(found: QuotaAccount, charge: QuotaCharge) -> Amounts:
    if not found.resources & _CHARGED:
        return {}
    return {
        name: amount
        for name, amount in charge.requests.items()
        if amount and name in found.resources
    }


def _refusal(found: QuotaAccount, requests: Amounts, before: Amounts, after: Amounts) -> str:
    over = [
        f"{name}: {quantity_text(name, amount)} more than the "
        f"{quantity_text(name, before.get(name, 0))} in use, "
        f"{quantity_text(name, found.bound[name])} at most"
        for name, amount in sorted(requests.items())
        if name in found.bound and after[name] > found.bound[name]
    ]
    return f"ElasticQuota {excerpt(found.name)} is exceeded ({'; '.join(over)})" if over else ""
