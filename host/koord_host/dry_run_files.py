"""Kernel files of a dry run: read as they are, with what would have been written laid over them.

So whoever writes finds its values the next time, and is not surprised. What the kernel would make
of a value, or refuse, is not known here: a file then has the text that was written, but for lines
with a key ("8:0 rbps=1024", "L3:0=f"), which are changed in place, and for lists of tasks, which
grow.
"""

from __future__ import annotations

import contextlib
import errno
from collections import OrderedDict
from collections.abc import Callable, Iterator
from threading import RLock

from koord_host.kernel_files.interface import NodeFiles, OpenDirectory

MOST_FILES = 1 << 16
"""Files whose text is remembered; the one written longest ago is forgotten first."""
_LISTS = frozenset({"tasks", "cgroup.procs", "cgroup.threads"})

OnWrite = Callable[[str, str], None]
"""Called for each change that is not made: the path, and the text or what would become of it."""


class DryRunFiles:
    """``NodeFiles`` that write nothing; threads may share them."""

    def __init__(self, files: NodeFiles, on_write: OnWrite, most: int = MOST_FILES) -> None:
        self._files = files
        self._on_write = on_write
        self._most = most
        self._texts: OrderedDict[str, str] = OrderedDict()
        self._made: set[str] = set()
        self._removed: set[str] = set()
        self._lock = RLock()

    def read(self, path: str) -> str:
        """The text that would have been written, else that of the file."""
        with self._lock:
            if path in self._texts:
                self._check_parent(path)
                return self._texts[path]
            directory, _, name = path.rpartition("/")
            if directory not in self._made:
                self._refuse_removed(directory)
                return self._files.read(path)
        # The kernel gives a new group all that the group above it has, and no tasks.
        return "" if name in _LISTS else self._files.read(f"{_parent(directory)}/{name}")

    def exists(self, path: str) -> bool:
        """True if it would exist."""
        with self._lock:
            if path in self._made or _parent(path) in self._made:
                return True
            return path not in self._removed and self._files.exists(path)

    def entries(self, path: str) -> list[str]:
        """The names of sub-directories as they would be."""
        with self._lock:
            made = {made.rpartition("/")[2] for made in self._made if _parent(made) == path}
            if path in self._made:
                return sorted(made)
            there = set(self._files.entries(path))
            gone = {gone.rpartition("/")[2] for gone in self._removed if _parent(gone) == path}
            return sorted(made | there - gone)

    def names(self, path: str) -> list[str]:
        """The names of everything that is in a directory."""
        return self._files.names(path)

    def resolve(self, path: str) -> str:
        """The path with its links followed."""
        return self._files.resolve(path)

    def identity(self, path: str) -> int:
        """The inode; that of the group above for a group that would have been made."""
        return self._files.identity(_parent(path) if path in self._made else path)

    def write(self, path: str, text: str) -> None:
        """Remember the text, and report it unless the file would have it already."""
        self.write_and_read(path, text)

    def write_and_read(self, path: str, text: str) -> str:
        """Remember the text; the whole text that the file would have then."""
        with self._lock:
            if not self.exists(path):
                raise FileNotFoundError(errno.ENOENT, "No such file or directory", path)
            try:
                before = self.read(path)
            except OSError:
                before = ""  # a file for writing alone
            after = written(path, before, text)
            self._texts[path] = after
            self._texts.move_to_end(path)
            while len(self._texts) > self._most:
                self._texts.popitem(last=False)
        if after != before:
            self._on_write(path, text.strip())
        return after

    @contextlib.contextmanager
    def held(self, path: str) -> Iterator[OpenDirectory]:
        """A directory, held open meanwhile; its files are written as others."""
        if path in self._made:
            yield _MadeDirectory(self, path)
            return
        with self._files.held(path) as directory:
            yield _HeldDirectory(self, path, directory)

    def make_directory(self, path: str) -> None:
        """Remember a group."""
        with self._lock:
            if self.exists(path):
                raise FileExistsError(errno.EEXIST, "File exists", path)
            self._made.add(path)
            self._removed.discard(path)
        self._on_write(path, "a new group")

    def remove_directory(self, path: str) -> None:
        """Forget a group, or remember that it would be gone."""
        with self._lock:
            if not self.exists(path):
                raise FileNotFoundError(errno.ENOENT, "No such file or directory", path)
            if path in self._made:
                self._made.discard(path)
            else:
                self._removed.add(path)
            for text in [text for text in self._texts if text.startswith(f"{path}/")]:
                del self._texts[text]
        self._on_write(path, "removed")

    def _check_parent(self, path: str) -> None:
        """Forget the text of a group that is gone. Raises FileNotFoundError."""
        directory = _parent(path)
        if directory not in self._made and not self._files.exists(directory):
            del self._texts[path]
            raise FileNotFoundError(errno.ENOENT, "No such file or directory", path)

    def _refuse_removed(self, directory: str) -> None:
        if directory in self._removed:
            raise FileNotFoundError(errno.ENOENT, "No such file or directory", directory)


class _MadeDirectory:
    """A group that would have been made."""

    def __init__(self, files: DryRunFiles, path: str) -> None:
        self._overlay = files
        self._path = path

    def read(self, name: str) -> str:
        return self._overlay.read(f"{self._path}/{name}")

    def write_and_read(self, name: str, text: str) -> str:
        return self._overlay.write_and_read(f"{self._path}/{name}", text)


class _HeldDirectory(_MadeDirectory):
    """A directory that is held open: it must be there still when it would be written to."""

    def __init__(self, files: DryRunFiles, path: str, held: OpenDirectory) -> None:
        super().__init__(files, path)
        self._held = held

    def write_and_read(self, name: str, text: str) -> str:
        self._held.read(name)
        return super().write_and_read(name, text)


def written(path: str, before: str, text: str) -> str:
    """The text of a file after a write, as far as that is known without the kernel."""
    if path.rpartition("/")[2] in _LISTS:
        listed = before.splitlines()
        return _lines([*listed, *(line for line in text.split() if line not in listed)])
    key, _ = _keyed(text)
    if not key:
        return f"{text.strip()}\n"
    there = {}
    for line in before.splitlines():
        name, fields = _keyed(line)
        there[name or line] = (line, fields)
    _, old = there.get(key, ("", {}))
    _, new = _keyed(text)
    device = not key.endswith(":")
    if "" in new.values():
        old = {}  # a single number
    shown = [f"{name}={value}" if value else name for name, value in {**old, **new}.items()]
    joined = " ".join((key, *shown)) if device else f"{key}{';'.join(shown)}"
    there[key] = (joined, {})
    return _lines([line for line, _ in there.values()])


def _keyed(line: str) -> tuple[str, dict[str, str]]:
    """The key and the fields of a line of a device or a resctrl resource; "" if it has none."""
    first, _, rest = line.strip().partition(" ")
    number, colon, other = first.partition(":")
    if colon and number.isdigit() and other.isdigit():
        parts = rest.split()
        if len(parts) == 1 and "=" not in parts[0]:
            return first, {parts[0]: ""}
        return first, dict(part.partition("=")[::2] for part in parts)
    if colon and "=" in other:
        pairs = (part.partition("=")[::2] for part in line.strip().partition(":")[2].split(";"))
        return f"{number}:", {name.strip(): value.strip() for name, value in pairs}
    return "", {}


def _lines(lines: list[str]) -> str:
    return "".join(f"{line}\n" for line in lines)


def _parent(path: str) -> str:
    return path.rpartition("/")[0]
