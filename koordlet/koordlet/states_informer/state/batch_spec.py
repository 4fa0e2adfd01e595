"""Batch resources of a pod in the kubelet's list, where no annotation has them. No IO.

The manager's webhook writes the annotation. Where no manager answered, or its gate is off, the pod
was created without it, and would run with the least weight and without any limit.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
from koord_kube.views.pod import PodSpec
from koord_model.batch_spec import batch_spec
from koord_model.keys import ANNOTATION_EXTENDED_RESOURCE_SPEC


def with_batch_spec(annotations: Mapping[str, str], spec: PodSpec) -> Mapping[str, str]:
    """The annotations, with the one that the webhook would have written if it is missing."""
    if ANNOTATION_EXTENDED_RESOURCE_SPEC in annotations:
        return annotations
    found = batch_spec(spec.containers or [], spec.init_containers or [])
    if not found:
        return annotations
    text = msgspec.json.encode(found, order="deterministic").decode()
    return {**annotations, ANNOTATION_EXTENDED_RESOURCE_SPEC: text}
