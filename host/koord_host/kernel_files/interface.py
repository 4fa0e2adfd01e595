"""Interfaces to the kernel's files: the seam between deciding and doing.

Paths are absolute. The real implementation is ``kernel``; tests have doubles
that refuse what the kernel refuses.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Protocol


class FileReader(Protocol):
    """Kernel files, read only.

    Every method raises ``FileNotFoundError`` (or ``NotADirectoryError``) for what
    does not exist, and another ``OSError`` for what the kernel refuses.
    """

    def read(self, path: str) -> str:
        """The whole text of a file, as the kernel gives it, newline included."""
        ...

    def exists(self, path: str) -> bool:
        """True if a file or directory exists; never raises."""
        ...

    def entries(self, path: str) -> list[str]:
        """The names of a directory's sub-directories, sorted."""
        ...

    def identity(self, path: str) -> int:
        """The inode, which distinguishes a directory from a later one of the same name."""
        ...


class FileTree(FileReader, Protocol):
    """Kernel files with their links, as sysfs has them: for readers of devices."""

    def names(self, path: str) -> list[str]:
        """The names of everything in a directory, links included, sorted.

        Raises:
            OSError: the directory does not exist.
        """
        ...

    def resolve(self, path: str) -> str:
        """The path with its links followed.

        Raises:
            FileNotFoundError: it leads nowhere.
        """
        ...


class OpenDirectory(Protocol):
    """A directory that is held open, and so stays this one whatever becomes of its name.

    Methods raise ``ProcessLookupError`` or ``FileNotFoundError`` once it is gone.
    """

    def read(self, name: str) -> str:
        """The whole text of a file in it."""
        ...

    def write_and_read(self, name: str, text: str) -> str:
        """Hand ``text`` to the kernel, and read the whole text that the file has then."""
        ...


class KernelFiles(FileReader, Protocol):
    """Kernel files, written too. Only the executor is given one."""

    def write(self, path: str, text: str) -> None:
        """Hand ``text`` to the kernel in one write.

        Raises:
            FileNotFoundError: the file is gone, or the kernel has no such file.
            OSError: the kernel refuses, with its errno (EINVAL, EBUSY, EACCES …).
        """
        ...

    def write_and_read(self, path: str, text: str) -> str:
        """Write, and read the whole text that the file has then, at the cost of one opening.

        Raises:
            OSError: as ``write`` and ``read`` do.
        """
        ...

    def held(self, path: str) -> AbstractContextManager[OpenDirectory]:
        """A directory, held open meanwhile.

        Raises:
            FileNotFoundError: it is gone.
            OSError: the kernel refuses.
        """
        ...

    def make_directory(self, path: str) -> None:
        """Make a group; its parent must exist.

        Raises:
            FileExistsError: it is there.
            OSError: the kernel refuses (resctrl: ENOSPC when CLOSIDs run out).
        """
        ...

    def remove_directory(self, path: str) -> None:
        """Remove a group; its files vanish with it.

        Raises:
            FileNotFoundError: it is gone.
            OSError: the kernel refuses (EBUSY: it has tasks or children).
        """
        ...


class NodeFiles(KernelFiles, FileTree, Protocol):
    """All of the node's files: what a program is given at its start."""
