"""ImageLocality: nodes that have a pod's images are better, the larger those are. No IO."""

from __future__ import annotations

from collections.abc import Hashable
from typing import ClassVar

import numpy as np

from koord_scheduler.plugin import MAX_SCORE, Dependence, Plugin, RowScore, Score
from koord_scheduler.plugins.image_locality.columns import IMAGES, ImageColumns, ImageState
from koord_scheduler.state.arrays import Amounts, Rows
from koord_scheduler.state.cluster_state import ClusterState
from koord_scheduler.state.pod_class import PodClass

_LEAST = 23 * 2**20
_MOST_OF_A_CONTAINER = 1000 * 2**20
"""Kubernetes': bytes of images that count as none, and as much as it gets."""


class ImageLocality(Plugin):
    """Kubernetes' plugin of that name.

    An image that few nodes have counts less, so that they do not get all the pods that use it.
    It has no signature, though it looks at nodes alone: nearly each class has images of its own.
    """

    name: ClassVar[str] = "ImageLocality"
    reads_labels: ClassVar[bool] = False

    def prepare(self, nodes: ClusterState) -> None:
        nodes.use(ImageColumns)

    def score(self, pod: PodClass, nodes: ClusterState) -> Score | None:
        most = max(_MOST_OF_A_CONTAINER * pod.of(IMAGES).containers, _LEAST + 1)
        known = _KnownImages(pod, nodes)

        def score(rows: Rows) -> Amounts:
            sums = np.zeros(len(rows))
            images = known.now()
            if not images:
                return sums
            total = np.count_nonzero(nodes.is_node)
            for image in images:
                sums += int(image.size * (image.number / total)) * image.mask(len(nodes))[rows]
            clipped = np.clip(sums, _LEAST, most)
            found: Amounts = np.floor(MAX_SCORE * (clipped - _LEAST) / (most - _LEAST))
            return found

        return score

    def score_row(self, pod: PodClass, nodes: ClusterState) -> RowScore | None:
        of_many, known = self.score(pod, nodes), _KnownImages(pod, nodes)
        if of_many is None:
            return None

        def score(row: int) -> float:
            return float(of_many(np.array([row]))[0]) if known.now() else 0.0

        return score

    def depends_on(self, pod: PodClass, nodes: ClusterState) -> Dependence | None:
        return _KnownImages(pod, nodes).spread if pod.of(IMAGES).images else None


class _KnownImages:
    """The images of a class that some nodes have, looked up when those of any node change."""

    def __init__(self, pod: PodClass, nodes: ClusterState) -> None:
        self._names = pod.of(IMAGES).images
        self._nodes = nodes
        self._columns = nodes.use(ImageColumns)
        self._changes = -1
        self._found: list[ImageState] = []

    def now(self) -> list[ImageState]:
        """Those that are there now."""
        columns = self._columns
        if self._changes != columns.changes:
            self._changes = columns.changes
            found = map(columns.get, self._names)
            self._found = [image for image in found if image is not None]
        return self._found

    def spread(self) -> Hashable:
        """A value that changes with what scores of all nodes depend on."""
        images = self.now()
        if not images:
            return None
        spread = ((image.size, image.number) for image in images)
        return (np.count_nonzero(self._nodes.is_node), *spread)
