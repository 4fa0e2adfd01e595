"""Answers to a proxy about containers, for when the runtime asks about them over NRI.

With a proxy and NRI both on, each request comes twice: as the kubelet made it, and then as the
proxy passed it on. The runtime does not show annotations that the proxy wrote, and so nothing says
that limits are those of the answer: a plugin that computes from what was asked would take its own
result for a request, and compute again.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import replace

from koord_model.patch import Patch
from koord_model.pod import Container
from koord_model.resources import SCALARS, LinuxResources

_MOST = 4096
"""Containers; more than run on a node at once."""


class AnsweredRequests:
    """The newest answer about each container, by its pod's UID and its name."""

    def __init__(self) -> None:
        self._answers: OrderedDict[tuple[str, str], Patch] = OrderedDict()

    def keep(self, container: Container, patch: Patch) -> None:
        """Remember an answer."""
        key = container.pod.uid, container.name
        self._answers.pop(key, None)
        if patch.annotations:
            self._answers[key] = patch
            if len(self._answers) > _MOST:
                self._answers.popitem(last=False)

    def recall(self, container: Container) -> Container:
        """The container, with the annotations of the answer if its limits are the answer's."""
        patch = self._answers.get((container.pod.uid, container.name))
        if patch is None or not _is_answer(container.resources, patch.resources):
            return container
        annotations: Mapping[str, str] = {**container.annotations, **patch.annotations}
        return replace(container, annotations=annotations)


def _is_answer(found: LinuxResources, answered: LinuxResources) -> bool:
    both = [(getattr(found, name), getattr(answered, name)) for name in SCALARS]
    shown = [(value, other) for value, other in both if value is not None and other is not None]
    return bool(shown) and all(value == other for value, other in shown)
