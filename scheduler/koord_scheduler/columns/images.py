"""Which images nodes have. No IO."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping

from koord_scheduler.objects.node import ContainerImage


class ImageColumns:
    """Images by name: the rows of the nodes that have them, with their size in bytes."""

    def __init__(self) -> None:
        self._sizes: dict[str, dict[int, int]] = defaultdict(dict)
        self._names: dict[int, tuple[str, ...]] = {}

    def set(self, row: int, images: Iterable[ContainerImage]) -> None:
        """The images of a row's node, in place of those it had."""
        for name in self._names.pop(row, ()):
            del self._sizes[name][row]
            if not self._sizes[name]:
                del self._sizes[name]
        sizes = {name: image.size for image in images for name in image.names or ()}
        for name, size in sizes.items():
            self._sizes[name][row] = size
        if sizes:
            self._names[row] = tuple(sizes)

    def sizes(self, name: str) -> Mapping[int, int]:
        """The rows that have an image, with its size there."""
        return self._sizes.get(name, {})
