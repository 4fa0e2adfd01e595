"""Targets of services: how pods may fare beside best-effort pods. No IO.

A pod names its own in the annotation ``koordinator.sh/serviceTargets``::

    {"service": "web", "targets": {"sched_wait": 50, "psi": 5}}

Others are given for the pods that a selector finds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from typing import Annotated

from msgspec import Meta

from koord_model.annotations import fields_of
from koord_model.fields import Fields, text
from koord_model.keys import ANNOTATION_SERVICE_TARGETS
from koord_model.label_selector import LabelSelector, parse
from koord_model.pod import Pod

HIGHEST_TARGET = 1e6
_LONGEST_NAME = 63


class Indicator(StrEnum):
    """Measurement that has a target; a lower value is better."""

    PSI = "psi"  # percent of the time in which some task waits for a CPU
    SCHED_WAIT = "sched_wait"  # ms that tasks wait for a CPU, by second of CPU used
    CPI = "cpi"  # cycles by instruction
    USAGE = "usage"  # CPU used, as part of the request, or of the pod's own CPUs


Targets = Mapping[Indicator, Annotated[float, Meta(gt=0, le=HIGHEST_TARGET)]]


@dataclass(frozen=True)
class ServicePods:
    """Pods of one service.

    Raises:
        ValueError: the selector is not one.
    """

    name: Annotated[str, Meta(min_length=1, max_length=_LONGEST_NAME)]
    """Name of the service, for people."""
    selector: Mapping[str, object] = field(default_factory=dict)
    """Label selector of its pods (matchLabels, matchExpressions); without one, all pods."""
    namespace: str = ""
    """Namespace of its pods; without one, all."""

    def __post_init__(self) -> None:
        _ = self._labels

    @cached_property
    def _labels(self) -> LabelSelector:
        return parse(self.selector, "selector")

    def selects(self, pod: Pod) -> bool:
        """True if the pod belongs to this service."""
        return self.namespace in ("", pod.namespace) and self._labels.matches(pod.labels)


@dataclass(frozen=True)
class ServiceTargets(ServicePods):
    """Targets of one service."""

    targets: Targets = field(default_factory=dict)
    """Highest value by indicator: psi, sched_wait, cpi, usage."""


def of_pod(pod: Pod) -> tuple[ServiceTargets | None, tuple[str, ...]]:
    """Return the pod's own targets, ``None`` without any, and lines on ignored parts."""
    ignored: list[str] = []
    fields = fields_of(pod, ANNOTATION_SERVICE_TARGETS, ignored)
    if fields is None:
        return None, tuple(ignored)
    expected = f"text of {_LONGEST_NAME} characters at most"
    service = fields.take("service", pod.name, _name, expected, "the pod's name used")
    targets = dict(read_targets(fields.of("targets")))
    found = ServiceTargets(f"{pod.namespace}/{service}", targets=targets) if targets else None
    return found, tuple(ignored)


def read_targets(fields: Fields) -> list[tuple[Indicator, float]]:
    """The targets by indicator in an object; what is none is left out with a line."""
    found = []
    for name, _ in fields.entries():
        if name not in set(Indicator):
            fields.refuse(name, f"one of {', '.join(Indicator)} as its name", "left out")
            continue
        expected = f"a number above 0, {HIGHEST_TARGET:.0f} at most"
        target = fields.take(name, 0.0, _target, expected, "left out")
        if target:
            found.append((Indicator(name), target))
    return found


def _target(given: object) -> float:
    if isinstance(given, bool) or not isinstance(given, int | float):
        raise ValueError(given)  # noqa: TRY004 - bad input, not a defect
    if not 0 < given <= HIGHEST_TARGET:
        raise ValueError(given)
    return float(given)


def _name(given: object) -> str:
    name = text(given)
    if not 0 < len(name) <= _LONGEST_NAME or not name.isprintable():
        raise ValueError(given)
    return name
