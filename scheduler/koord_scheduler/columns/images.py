"""Which images nodes have. No IO."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from koord_scheduler.columns.arrays import Mask, lengthened
from koord_scheduler.objects.node import ContainerImage


@dataclass(eq=False, slots=True)
class ImageState:
    """An image by one of its names: its size in bytes, and the rows of the nodes that have it.

    ``number`` is how many these are.

    Where nodes disagree about the size, that of the first of them counts, as in Kubernetes.
    """

    size: int
    rows: Mask
    number: int = 0


class ImageColumns:
    """The images of all nodes, by name."""

    def __init__(self, length: int) -> None:
        self._length = length
        self._images: dict[str, ImageState] = {}
        self._names: dict[int, Mapping[str, int]] = {}

    def lengthen(self, length: int) -> None:
        """Make room for more rows, which have no images yet."""
        self._length = length
        for image in self._images.values():
            image.rows = lengthened(image.rows, length, fill=False)

    def set(self, row: int, images: Iterable[ContainerImage]) -> bool:
        """The images of a row's node, in place of those it had; whether they are others."""
        sizes: dict[str, int] = {}
        for image in images:
            for name in image.names or ():
                sizes.setdefault(name, image.size)
        if sizes == self._names.get(row, {}):
            return False
        for name in self._names.pop(row, ()):
            known = self._images[name]
            known.rows[row] = False
            known.number -= 1
            if not known.number:
                del self._images[name]
        for name, size in sizes.items():
            found = self._images.get(name)
            if found is None:
                rows = np.zeros(self._length, np.bool_)
                found = self._images[name] = ImageState(size, rows)
            found.rows[row] = True
            found.number += 1
        if sizes:
            self._names[row] = sizes
        return True

    def get(self, name: str) -> ImageState | None:
        """An image; ``None`` if no node has it."""
        return self._images.get(name)
