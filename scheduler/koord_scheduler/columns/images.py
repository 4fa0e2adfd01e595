"""Which images nodes have. No IO."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field

from koord_scheduler.objects.node import ContainerImage


@dataclass(slots=True)
class ImageState:
    """An image by one of its names: its size in bytes, and the rows of the nodes that have it.

    Where nodes disagree about the size, that of the first of them counts, as in Kubernetes.
    """

    size: int
    rows: set[int] = field(default_factory=set)


class ImageColumns:
    """The images of all nodes, by name."""

    def __init__(self) -> None:
        self._images: dict[str, ImageState] = {}
        self._names: dict[int, Collection[str]] = {}

    def set(self, row: int, images: Iterable[ContainerImage]) -> None:
        """The images of a row's node, in place of those it had."""
        for name in self._names.pop(row, ()):
            rows = self._images[name].rows
            rows.remove(row)
            if not rows:
                del self._images[name]
        sizes: dict[str, int] = {}
        for image in images:
            for name in image.names or ():
                sizes.setdefault(name, image.size)
        for name, size in sizes.items():
            self._images.setdefault(name, ImageState(size)).rows.add(row)
        if sizes:
            self._names[row] = sizes

    def get(self, name: str) -> ImageState | None:
        """An image; ``None`` if no node has it."""
        return self._images.get(name)
