"""Profiles of services that the manager found for this node's pods. No IO.

The manager reads ServiceProfileDescriptors, or ConfigMaps with the same content, and writes those
that have pods here into the NodeSLO::

    extensions:
      pykoord:
        services:
        - {name: shop/web, namespace: shop, selector: {matchLabels: {app: web}},
           targets: {sched_wait: 460}, memoryOffload: true, weightCores: 4, baseline: [web-1]}

Pods of the baseline are those that others are compared with: no profile touches them. There is one
for the targets, and one for each of ``memoryOffload`` and ``weightCores``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from koord_model import label_selector
from koord_model.fields import Fields, text
from koord_model.pod import Pod
from koord_model.service_targets import ServiceTargets, read_targets

MOST_PROFILES = 256
"""Profiles of one node; by default a kubelet runs 110 pods."""


MOST_CORES = 1024.0
"""Largest weight of a pod, in cores."""


@dataclass(frozen=True)
class ServiceProfile(ServiceTargets):
    """Treatment of one service's pods; ``memory_offload`` is ``None`` where nothing is said."""

    memory_offload: bool | None = None
    baseline: frozenset[str] = frozenset()
    """Names of pods to which targets do not apply."""
    memory_baseline: frozenset[str] = frozenset()
    """Names of pods to which ``memory_offload`` does not apply."""
    weight_cores: float | None = None
    """Each pod competes for CPUs as if it requested so many cores; ``None``: nothing is said."""
    weight_baseline: frozenset[str] = frozenset()
    """Names of pods to which ``weight_cores`` does not apply."""

    def sets_targets(self, pod: Pod) -> bool:
        """True if its targets apply to a pod."""
        return bool(self.targets) and pod.name not in self.baseline and self.selects(pod)

    def offloads(self, pod: Pod) -> bool | None:
        """Return whether a pod's memory is offloaded; ``None`` if this does not say."""
        if self.memory_offload is None or pod.name in self.memory_baseline:
            return None
        return self.memory_offload if self.selects(pod) else None

    def weighs(self, pod: Pod) -> bool:
        """True if ``weight_cores`` applies to a pod."""
        is_set = self.weight_cores is not None and pod.name not in self.weight_baseline
        return is_set and self.selects(pod)


def cores(given: object) -> float:
    """Return a number of cores that a pod can compete with.

    Raises:
        ValueError: it is none.
    """
    if isinstance(given, bool) or not isinstance(given, int | float):
        raise ValueError(given)  # noqa: TRY004 - bad input, not a defect
    if not 0 < given <= MOST_CORES:
        raise ValueError(given)
    return float(given)


def read(fields: Iterable[Fields]) -> Iterator[ServiceProfile]:
    """The profiles of a NodeSLO; one without a name, namespace or selector is left out."""
    for given in fields:
        name, namespace = given.text("name"), given.text("namespace")
        selected = dict(given.of("selector").entries())
        try:
            label_selector.parse(selected, "selector")
        except ValueError:
            given.refuse("selector", "a label selector", "profile left out")
            continue
        missing = next((key for key in ("name", "namespace", "selector") if not given.has(key)), "")
        if missing or not selected:
            given.refuse(missing or "selector", "one", "profile left out")
            continue
        yield ServiceProfile(
            name,
            selected,
            namespace,
            dict(read_targets(given.of("targets"))),
            given.flag("memoryOffload", None),
            given.take("baseline", frozenset(), _names, "a list of pod names"),
            given.take("memoryBaseline", frozenset(), _names, "a list of pod names"),
            given.take("weightCores", None, cores, f"above 0, {MOST_CORES:.0f} at most"),
            given.take("weightBaseline", frozenset(), _names, "a list of pod names"),
        )


def _names(given: object) -> frozenset[str]:
    if not isinstance(given, list):
        raise ValueError(given)  # noqa: TRY004 - bad input, not a defect
    return frozenset(text(name) for name in given)
