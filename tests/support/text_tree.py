"""A test double of kernel files that only have to be read: a dictionary of texts.

It enforces what a tree of files does: a path below a file is no directory, links lead
where they say, what is not there raises ``FileNotFoundError``. It knows no more of the
kernel's rules; where those matter, tests use real files or ``fake_cgroupfs``.
"""

from __future__ import annotations

import zlib


class TextTree:
    """Implements ``koord_host.kernel_files.interface.Tree``.

    ``texts`` are files by absolute path; a value that is an ``OSError`` is raised when the
    file is read. ``links`` are symbolic links by absolute path to absolute paths.
    """

    def __init__(
        self, texts: dict[str, str | OSError] | None = None, links: dict[str, str] | None = None
    ) -> None:
        self.texts = dict(texts or {})
        self.links = dict(links or {})
        self.reads: list[str] = []

    def read(self, path: str) -> str:
        self.reads.append(path)
        found = self.texts.get(self._followed(path))
        if isinstance(found, OSError):
            raise found
        if found is None:
            if self._below(self._followed(path)):
                raise IsADirectoryError(21, "Is a directory", path)
            raise FileNotFoundError(2, "No such file or directory", path)
        return found

    def exists(self, path: str) -> bool:
        followed = self._followed(path)
        return followed in self.texts or bool(self._below(followed))

    def entries(self, path: str) -> list[str]:
        return [
            name
            for name in self.names(path)
            if f"{path}/{name}" not in self.links
            and f"{self._followed(path)}/{name}" not in self.texts
        ]

    def names(self, path: str) -> list[str]:
        followed = self._followed(path)
        below = self._below(followed)
        if not below:
            if followed in self.texts:
                raise NotADirectoryError(20, "Not a directory", path)
            raise FileNotFoundError(2, "No such file or directory", path)
        return sorted({name.removeprefix(f"{followed}/").split("/")[0] for name in below})

    def resolve(self, path: str) -> str:
        if not self.exists(path):
            raise FileNotFoundError(2, "No such file or directory", path)
        return self._followed(path)

    def identity(self, path: str) -> int:
        if not self.exists(path):
            raise FileNotFoundError(2, "No such file or directory", path)
        return zlib.crc32(self._followed(path).encode())

    def remove(self, path: str) -> None:
        """Take away a file, or a directory with all in it."""
        for name in [path, *self._below(path)]:
            self.texts.pop(name, None)
            self.links.pop(name, None)

    def _below(self, path: str) -> list[str]:
        return [name for name in (*self.texts, *self.links) if name.startswith(f"{path}/")]

    def _followed(self, path: str) -> str:
        for _ in range(8):
            link = next(
                (one for one in self.links if path == one or path.startswith(f"{one}/")), None
            )
            if link is None:
                return path
            path = self.links[link] + path[len(link) :]
        raise OSError(40, "Too many levels of symbolic links", path)
