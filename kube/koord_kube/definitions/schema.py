"""The words of structural schemas (apiextensions.k8s.io/v1). No IO.

Each gives one node of a schema; ``about`` is what ``kubectl explain`` says of the field.
"""

from __future__ import annotations

from typing import Any

Schema = dict[str, Any]

QUANTITY = (
    r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))"
    r"(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$"
)
"""Pattern of the quantities that the API server accepts."""

_PART = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"

DURATION = r"^([0-9]+(\.[0-9]+)?(ns|us|µs|ms|s|m|h))+$|^0$"


def object_of(about: str, *required: str, **fields: Schema) -> Schema:
    """An object with these fields; others are pruned."""
    found: Schema = {"type": "object", "description": about}
    # Without fields there is nothing there: the server drops what is empty.
    found |= {"properties": fields} if fields else {}
    return found | ({"required": list(required)} if required else {})


def anything(about: str) -> Schema:
    """An object of whatever kind, kept as it is."""
    return {"type": "object", "description": about, "x-kubernetes-preserve-unknown-fields": True}


def list_of(about: str, items: Schema, *keys: str) -> Schema:
    """A list; with ``keys`` one whose items are identified by these fields."""
    found: Schema = {"type": "array", "description": about, "items": items}
    if keys:
        found |= {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": list(keys)}
    return found


def map_of(about: str, values: Schema) -> Schema:
    """Values by any name."""
    return {"type": "object", "description": about, "additionalProperties": values}


def text(about: str = "", *words: str, pattern: str = "", most: int = 0) -> Schema:
    """Text: one of ``words`` where there are such."""
    found: Schema = {"type": "string"}
    found |= {"description": about} if about else {}
    found |= {"enum": list(words)} if words else {}
    found |= {"pattern": pattern} if pattern else {}
    return found | ({"maxLength": most} if most else {})


def object_name(about: str) -> Schema:
    """The name of an object of most kinds: a DNS subdomain."""
    return text(about, pattern=rf"^{_PART}(\.{_PART})*$", most=253)


def whole(about: str, low: int | None = None, high: int | None = None, bits: int = 64) -> Schema:
    """A whole number."""
    found: Schema = {"type": "integer", "format": f"int{bits}", "description": about}
    found |= {"minimum": low} if low is not None else {}
    return found | ({"maximum": high} if high is not None else {})


def percent(about: str) -> Schema:
    """A whole number from 0 to 100."""
    return whole(about, 0, 100)


def flag(about: str) -> Schema:
    """True or false."""
    return {"type": "boolean", "description": about}


def time(about: str) -> Schema:
    """A moment, RFC 3339."""
    return {"type": "string", "format": "date-time", "description": about}


def duration(about: str = "") -> Schema:
    """A span of time as Go writes it: "5m0s"."""
    return text(about, pattern=DURATION)


def quantity(about: str = "") -> Schema:
    """A Kubernetes quantity: 2, "500m", "1Gi"."""
    return int_or_text(about) | {"pattern": QUANTITY}


def int_or_text(about: str = "") -> Schema:
    """A whole number, or text."""
    found: Schema = {
        "x-kubernetes-int-or-string": True,
        "anyOf": [{"type": "integer"}, {"type": "string"}],
    }
    return found | ({"description": about} if about else {})


def resources(about: str) -> Schema:
    """Quantities by resource name."""
    return map_of(about, quantity())


def labels(about: str) -> Schema:
    """Texts by name."""
    return map_of(about, text())


def label_selector(about: str) -> Schema:
    """A label selector, as Kubernetes has it."""
    requirement = object_of(
        "One condition.",
        "key",
        "operator",
        key=text("The label."),
        operator=text("What it is held against.", "In", "NotIn", "Exists", "DoesNotExist"),
        values=list_of("For In and NotIn.", text()),
    )
    return object_of(
        about,
        matchLabels=labels("Labels that have to be equal."),
        matchExpressions=list_of("Conditions that all have to hold.", requirement),
    )


def reference(about: str, **more: Schema) -> Schema:
    """The identity of an object, with what else is said of it."""
    return object_of(
        about,
        apiVersion=text("Its group and version."),
        kind=text("Its kind."),
        name=text("Its name."),
        namespace=text("Its namespace."),
        uid=text("Its UID."),
        **more,
    )


def object_reference(about: str) -> Schema:
    """Kubernetes' ObjectReference."""
    return reference(
        about,
        fieldPath=text("Not looked at."),
        resourceVersion=text("Not looked at."),
    )


def conditions(about: str) -> Schema:
    """Conditions, as metav1 has them."""
    condition = object_of(
        "One condition.",
        "type",
        "status",
        "lastTransitionTime",
        "reason",
        "message",
        type=text("What it is about.", most=316),
        status=text("Whether it holds.", "True", "False", "Unknown"),
        lastTransitionTime=time("Since when."),
        reason=text("One word.", pattern=r"^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$", most=1024),
        message=text("One line for people.", most=32768),
        observedGeneration=whole("Of which version of the object it speaks.", 0),
    )
    return list_of(about, condition, "type")
