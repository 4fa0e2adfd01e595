"""ElasticQuotas as the API has them. No IO."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec
from koord_kube.views.decode import decode_view
from koord_model.demand import Amounts
from koord_model.elastic_quota import ElasticQuota, amounts_in, parse
from koord_model.keys import (
    ANNOTATION_ALLOCATED,
    ANNOTATION_CHILD_REQUEST,
    ANNOTATION_GUARANTEED,
    ANNOTATION_NON_PREEMPTIBLE_REQUEST,
    ANNOTATION_NON_PREEMPTIBLE_USED,
    ANNOTATION_QUOTA_REQUEST,
    ANNOTATION_QUOTA_RUNTIME,
)

REPORTED = (
    ANNOTATION_QUOTA_RUNTIME,
    ANNOTATION_QUOTA_REQUEST,
    ANNOTATION_CHILD_REQUEST,
    ANNOTATION_GUARANTEED,
    ANNOTATION_ALLOCATED,
    ANNOTATION_NON_PREEMPTIBLE_REQUEST,
    ANNOTATION_NON_PREEMPTIBLE_USED,
)
"""Annotations by which schedulers say how a quota stands."""


class ElasticQuotaObject(msgspec.Struct, frozen=True):
    """An ElasticQuota, of which everything is kept for ``parse``."""

    metadata: dict[str, Any]
    spec: dict[str, Any] | None = None
    status: dict[str, Any] | None = None


class ReadQuota(NamedTuple):
    """A quota, lines on what was ``ignored`` in it, and what schedulers ``reported`` last.

    That is by annotation, ``None`` for one that cannot be used. ``version`` is the object's.
    """

    quota: ElasticQuota
    ignored: tuple[str, ...] = ()
    reported: Mapping[str, Amounts | None] = {}
    version: str = ""


_DECODER = msgspec.json.Decoder(ElasticQuotaObject)


def read_elastic_quota(text: bytes) -> ReadQuota:
    """The quota in a JSON document.

    Raises:
        ValueError: it is not an ElasticQuota.
    """
    view = decode_view(_DECODER, text, "a valid ElasticQuota")
    document = {"metadata": view.metadata, "spec": view.spec, "status": view.status}
    quota, ignored = parse(document)
    annotations = view.metadata.get("annotations") or {}
    reported = {key: _amounts(annotations[key]) for key in REPORTED if key in annotations}
    return ReadQuota(quota, ignored, reported, str(view.metadata.get("resourceVersion") or ""))


def _amounts(given: object) -> Amounts | None:
    try:
        return amounts_in(given)
    except ValueError:
        return None
