"""Metrics of services as their ServiceProfileDescriptors have them in ``status.aggMetrics``. No IO.

Katalyst serves them as the external metric ``spd_agg_metrics``, by labels that name a descriptor, a
resource and a container; somebody else, a forecast say, has written them there. After
katalyst-core at d8c28ea, ``pkg/custom-metric/store/custom/spd_metric_store.go``. On purpose
different: the label of a scope counts, and items may be in any order.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import msgspec
from koord_model import duration
from koord_model.excerpt import excerpt
from koord_model.fields import quantity
from koord_model.label_selector import Operator, Requirement
from koord_model.quantity import milli, milli_text
from koord_model.times import from_rfc3339

METRIC = "spd_agg_metrics"

_PREFIX = "metric.katalyst.kubewharf.io/spd-"
NAME, RESOURCE = f"{_PREFIX}name", f"{_PREFIX}resource-name"
SCOPE, CONTAINER = f"{_PREFIX}scope-name", f"{_PREFIX}container-name"
_LABELS = (NAME, RESOURCE, SCOPE, CONTAINER)

_USUAL_SCOPE = "ResourcePortraitIndicatorPlugin"
"""The only one that Katalyst reads."""


class _Container(msgspec.Struct):
    name: str = ""
    usage: dict[str, Any] | None = None


class _Item(msgspec.Struct):
    timestamp: str = ""
    window: str = ""
    containers: list[_Container] | None = None


class _Aggregated(msgspec.Struct):
    scope: str = ""
    items: list[_Item] | None = None


class _Status(msgspec.Struct):
    aggregated: msgspec.Raw = msgspec.field(default_factory=msgspec.Raw, name="aggMetrics")


class _Descriptor(msgspec.Struct):
    status: _Status | None = None


_DESCRIPTOR = msgspec.json.Decoder(_Descriptor)
_AGGREGATED = msgspec.json.Decoder(list[_Aggregated] | None)


class ServiceValue(NamedTuple):
    """Usage of a service at ``time``, seconds since the epoch; its text is a quantity."""

    scope: str
    container: str
    resource: str
    time: float
    window: float | None
    value: str


class ServiceQuestion(NamedTuple):
    """The value that the labels of a selector ask for."""

    descriptor: str
    resource: str
    scope: str
    container: str

    def answer(self, values: Iterable[ServiceValue], now: float) -> ServiceValue | None:
        """The newest value that is not of the future; ``None`` if there is none."""
        found = [
            value
            for value in values
            if (value.scope, value.container, value.resource)
            == (self.scope, self.container, self.resource)
            and value.time <= now
        ]
        return max(found, key=lambda value: value.time, default=None)

    @property
    def labels(self) -> Mapping[str, str]:
        """Return them as the labels that were asked for."""
        return dict(
            zip(_LABELS, (self.descriptor, self.resource, self.scope, self.container), strict=True)
        )


def read_packed(raw: bytes) -> bytes:
    """The values of a ServiceProfileDescriptor, compressed: there may be those of a whole day.

    Raises:
        msgspec.MsgspecError: it is none.
    """
    status = _DESCRIPTOR.decode(raw).status
    return zlib.compress(bytes(status.aggregated) if status else b"", 1)


def unpacked(packed: bytes) -> Iterator[ServiceValue]:
    """Every usable value; none of what is not as Katalyst defines it."""
    raw = zlib.decompress(packed)
    try:
        scopes = _AGGREGATED.decode(raw) if raw else None
    except (msgspec.MsgspecError, RecursionError):
        return
    for scope in scopes or ():
        for item in scope.items or ():
            for container in item.containers or ():
                for resource, amount in (container.usage or {}).items():
                    value = _value(scope.scope, item, container.name, resource, amount)
                    if value is not None:
                        yield value


def _value(
    scope: str, item: _Item, container: str, resource: str, amount: object
) -> ServiceValue | None:
    try:
        text = milli_text(milli(quantity(amount)))
        window = duration.seconds(item.window) if item.window else None
        return ServiceValue(scope, container, resource, from_rfc3339(item.timestamp), window, text)
    except ValueError:
        return None


def read_question(requirements: tuple[Requirement, ...]) -> ServiceQuestion:
    """The question in a selector's requirements.

    Raises:
        ValueError: one line says what is missing, or too much.
    """
    given = {requirement.key: _only(requirement) for requirement in requirements}
    unknown = sorted(given.keys() - set(_LABELS))
    if unknown:
        raise ValueError(
            f"{METRIC} has no label {excerpt(unknown[0])}; it has {', '.join(_LABELS)}"
        )
    for name in (NAME, RESOURCE):
        if not given.get(name):
            raise ValueError(f"labelSelector lacks {name}, by which {METRIC} is found")
    scope = given.get(SCOPE) or _USUAL_SCOPE
    return ServiceQuestion(given[NAME], given[RESOURCE], scope, given.get(CONTAINER, ""))


def _only(requirement: Requirement) -> str:
    if requirement.operator is not Operator.IN or len(requirement.values) != 1:
        raise ValueError(f"labelSelector has no single value for {requirement.key}")
    (value,) = requirement.values
    return value
