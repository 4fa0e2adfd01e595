"""Pods that Services and controllers select, read from their objects. No IO.

A selector that is missing or empty has no requirements; who reads it here takes it for none.
"""

from __future__ import annotations

from typing import Any

import msgspec
from koord_kube.views.decode import decode_view
from koord_model import label_selector
from koord_model.label_selector import LabelSelector


class _EqualitySpec(msgspec.Struct, frozen=True):
    selector: dict[str, str] | None = None


class EqualitySelectorObject(msgspec.Struct, frozen=True):
    """A Service or a ReplicationController."""

    spec: _EqualitySpec = _EqualitySpec()


class _LabelSpec(msgspec.Struct, frozen=True):
    selector: dict[str, Any] | None = None


class LabelSelectorObject(msgspec.Struct, frozen=True):
    """A ReplicaSet or a StatefulSet."""

    spec: _LabelSpec = _LabelSpec()


_EQUALITY = msgspec.json.Decoder(EqualitySelectorObject)
_LABEL = msgspec.json.Decoder(LabelSelectorObject)


def read_service(text: bytes) -> LabelSelector:
    """The selector of a Service in a JSON document.

    Raises:
        ValueError: it is not a Service.
    """
    selector = decode_view(_EQUALITY, text, "a valid Service").spec.selector
    return label_selector.parse({"matchLabels": selector}, "selector")


def read_replication_controller(text: bytes) -> LabelSelector:
    """The selector of a ReplicationController in a JSON document.

    Raises:
        ValueError: it is not a ReplicationController.
    """
    selector = decode_view(_EQUALITY, text, "a valid ReplicationController").spec.selector
    return label_selector.parse({"matchLabels": selector}, "selector")


def read_replica_set(text: bytes) -> LabelSelector:
    """The selector of a ReplicaSet in a JSON document.

    Raises:
        ValueError: it is not a ReplicaSet.
    """
    selector = decode_view(_LABEL, text, "a valid ReplicaSet").spec.selector
    return label_selector.parse(selector or {}, "selector")


def read_stateful_set(text: bytes) -> LabelSelector:
    """The selector of a StatefulSet in a JSON document.

    Raises:
        ValueError: it is not a StatefulSet.
    """
    selector = decode_view(_LABEL, text, "a valid StatefulSet").spec.selector
    return label_selector.parse(selector or {}, "selector")
