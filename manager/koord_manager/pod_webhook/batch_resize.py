"""Rules on a batch pod that is resized by its annotation. No IO.

Scheduler and quotas count what the spec asks for, which cannot change; the node limits the pod to
what the annotation says. So a pod of a quota may have less by it, but not more than its spec says.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from koord_model.elastic_quota import DEFAULT_QUOTA
from koord_model.excerpt import excerpt
from koord_model.extended_resources import Amount, BatchResources, parse, parse_inits
from koord_model.keys import ANNOTATION_EXTENDED_RESOURCE_SPEC, BATCH_CPU, BATCH_MEMORY

from koord_manager.pod_webhook.document import PodDocument
from koord_manager.pod_webhook.extended_resource_spec import spec_of
from koord_manager.pod_webhook.view import PodWebhookView
from koord_manager.quota.core.view import quota_for_pod

Batch = Mapping[str, BatchResources]

_LIMITS = {BATCH_CPU: "cpu_limit", BATCH_MEMORY: "memory_limit"}
_LEAST = Amount(1, "0")
_NOTHING = BatchResources(_LEAST, _LEAST, _LEAST)
"""Amounts counted for a container whose spec asks for no batch resources."""


class _Raise(NamedTuple):
    """A limit of the annotation that is above the spec's."""

    container: str
    resource: str
    limit: str
    of_spec: str

    def __str__(self) -> str:
        about = f"annotation {ANNOTATION_EXTENDED_RESOURCE_SPEC} limits container"
        return (
            f"{about} {excerpt(self.container)} to {self.resource} {excerpt(self.limit)}, and its "
            f"spec to {self.of_spec}"
        )


def problems(
    pod: PodDocument, old: PodDocument, namespace: str, view: PodWebhookView
) -> tuple[list[str], list[str]]:
    """Return the errors of an update, and warnings for its author."""
    raised = [str(line) for line in _raised(pod, old)]
    if not raised:
        return [], []
    quota = quota_for_pod(pod.labels, namespace, view)
    if quota is None or quota.name == DEFAULT_QUOTA:
        return [], [f"{line}, which is all that the scheduler counts" for line in raised]
    end = f"which is all that its ElasticQuota {excerpt(quota.name)} counts; create another pod"
    return [f"{line}, {end}" for line in raised], []


def _raised(pod: PodDocument, old: PodDocument) -> Iterator[_Raise]:
    text = pod.annotations.get(ANNOTATION_EXTENDED_RESOURCE_SPEC, "")
    before = old.annotations.get(ANNOTATION_EXTENDED_RESOURCE_SPEC, "")
    if text == before:
        return
    try:
        now = _read(text)
    except ValueError:
        return  # koordlet leaves the limits as they are
    was, spec = _read_or_nothing(before), _read(json.dumps(spec_of(pod)))
    for name in {**spec, **now}:
        # A container that the annotation does not name has no limit once it restarts.
        found, had = now.get(name, BatchResources()), was.get(name, BatchResources())
        counted = spec.get(name, _NOTHING)
        for resource, field in _LIMITS.items():
            limit = _limit(found, field)
            if limit > _limit(counted, field) and limit > _limit(had, field):
                yield _Raise(name, resource, _shown(found, field), _shown(counted, field))


def _read(text: str) -> Batch:
    return {**parse_inits(text), **parse(text)} if text else {}


def _read_or_nothing(text: str) -> Batch:
    try:
        return _read(text)
    except ValueError:
        return {}


def _limit(found: BatchResources, field: str) -> float:
    if field in found.unusable:
        return 0  # koordlet leaves the limit as it is
    amount: Amount | None = getattr(found, field)
    return amount.value if amount is not None and amount.value > 0 else math.inf


def _shown(found: BatchResources, field: str) -> str:
    amount: Amount | None = getattr(found, field)
    return amount.text if amount is not None and amount.value > 0 else "no limit"
