"""Images on nodes. No IO."""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from dataclasses import dataclass, field
from sys import intern
from typing import NamedTuple

import numpy as np

from koord_scheduler.objects.node import ContainerImage, Node
from koord_scheduler.objects.pod import PodInfo
from koord_scheduler.objects.requests import PodRequests
from koord_scheduler.state.arrays import Mask
from koord_scheduler.state.cluster_state import ClusterState
from koord_scheduler.state.feature_state import FeatureState, Parts
from koord_scheduler.state.pod_parts import PodPart

_NAME_BYTES, _ROW_BYTES = 400, 24
"""Approximate cost of a name beside its letters, and of each node that has it."""


class PodImages(NamedTuple):
    """The image of each container, with its tag; ``containers`` counts init containers, too."""

    images: tuple[str, ...] = ()
    containers: int = 0


IMAGES: PodPart[PodImages] = PodPart("images", PodImages())


@dataclass(eq=False, slots=True)
class ImageState:
    """An image by one of its names: its size in bytes, and the rows of the nodes that have it.

    Where nodes disagree about the size, that of the first of them counts, as in Kubernetes.
    """

    size: int
    rows: array[int] = field(default_factory=lambda: array("q"))

    @property
    def number(self) -> int:
        """Number of nodes that have it."""
        return len(self.rows)

    def mask(self, length: int) -> Mask:
        """Of each of so many rows, whether its node has it."""
        found = np.zeros(length, np.bool_)
        found[np.frombuffer(self.rows, np.int64)] = True
        return found


class ImageColumns(FeatureState):
    """The images of all nodes, by name; what takes more than ``most_bytes`` is left out."""

    def __init__(self, nodes: ClusterState, most_bytes: int = 64 << 20) -> None:
        super().__init__(nodes)
        self._most_bytes = most_bytes
        self._images: dict[str, ImageState] = {}
        self._on: dict[int, tuple[tuple[str, ...], array[int]]] = {}
        self._is_reported = False
        self.changes = 0
        """Number of changes so far."""
        self.size = 0
        """Approximate size in bytes."""

    def class_parts(self, pod: PodInfo, requests: PodRequests) -> Parts:
        yield IMAGES, pod_images(pod)

    def set_node(self, row: int, node: Node | None, *, is_moved: bool) -> bool:
        return self.set(row, (node.status.images or ()) if node is not None else ())

    def set(self, row: int, images: Iterable[ContainerImage]) -> bool:
        """The images of a row's node, in place of those it had; whether they are others."""
        sizes: dict[str, int] = {}
        for image in images:
            for name in image.names or ():
                sizes.setdefault(name, image.size)
        before = self._sizes(row)
        if sizes == before:
            return False
        self.changes += 1
        kept = {name: size for name, size in before.items() if sizes.get(name) == size}
        for name in before.keys() - kept.keys():
            self._remove(row, name)
        for name in sizes.keys() - kept.keys():
            if self._add(row, name, sizes[name]):
                kept[intern(name)] = sizes[name]
        self._on[row] = tuple(kept), array("q", kept.values())
        if not kept:
            del self._on[row]
        return kept != before

    def get(self, name: str) -> ImageState | None:
        """An image; ``None`` if no node has it."""
        return self._images.get(name)

    def _sizes(self, row: int) -> dict[str, int]:
        names, sizes = self._on.get(row, ((), ()))
        return dict(zip(names, sizes, strict=True))

    def _add(self, row: int, name: str, size: int) -> bool:
        """Add an image; return True if there was enough memory for it."""
        known = self._images.get(name)
        cost = _ROW_BYTES + (_NAME_BYTES + len(name) if known is None else 0)
        if self.size + cost > self._most_bytes:
            self._report_full()
            return False
        if known is None:
            known = self._images[intern(name)] = ImageState(size)
        known.rows.append(row)
        self.size += cost
        return True

    def _remove(self, row: int, name: str) -> None:
        known = self._images[name]
        known.rows.remove(row)
        self.size -= _ROW_BYTES
        if not known.rows:
            del self._images[name]
            self.size -= _NAME_BYTES + len(name)

    def _report_full(self) -> None:
        if not self._is_reported:
            self._is_reported = True
            mib = self._most_bytes >> 20
            self.warn(
                f"images of nodes: {len(self._images)} names take {mib} MiB, and ImageLocality "
                "knows no more of them; let kubelets report fewer (nodeStatusMaxImages)"
            )


def pod_images(pod: PodInfo) -> PodImages:
    """The images of a pod's containers and volumes."""
    spec = pod.spec
    containers = [*(spec.init_containers or ()), *(spec.containers or ())]
    mounted = [volume.image.reference for volume in spec.volumes or () if volume.image is not None]
    images = [*(container.image for container in containers), *filter(None, mounted)]
    return PodImages(tuple(sorted(map(_with_tag, images))), len(containers))


def _with_tag(image: str) -> str:
    """The name of an image as the CRI has it: with a tag, "latest" if none is given."""
    return image if image.rfind(":") > image.rfind("/") else f"{image}:latest"
