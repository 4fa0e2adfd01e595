"""Watching the directory where hook servers register."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Collection
from pathlib import Path

from koord_service.logs import get_log

from koord_proxy.rules.registration import Registration, Registrations

log = get_log("koord_proxy.hookservers")

LOOK_SECONDS = 0.5
"""How often it is looked whether anything in the directory has changed."""
MAX_FILE = 1 << 20
"""Bytes of a registration file; real ones have some hundred."""

_Signature = dict[str, tuple[int, int, int]]
"""Inode, time of the last change and size, by file name."""


class HookDirectory:
    """Reads registrations and tells who is to be asked whenever that changes.

    ``touched`` is told the names of servers whose files were put there or written
    again, be it with the same content: servers do that when they start.
    """

    def __init__(
        self,
        path: str,
        use: Callable[[list[Registration]], None],
        touched: Callable[[Collection[str]], None],
    ) -> None:
        self._path = Path(path)
        self._use = use
        self._touched = touched
        self._registrations = Registrations()
        self._trouble = ""
        self._in_use: list[Registration] | None = None
        self._seen: _Signature | None = None

    def read(self) -> None:
        """Read the directory now, report what changed, and use it."""
        try:
            if not self._path.is_dir():
                self._path.mkdir(parents=True)
                # Whatever the umask: hook servers need not be root's to look into it.
                self._path.chmod(0o755)
            files = _files(self._path)
            self._trouble = ""
        except OSError as error:
            # Nothing is concluded from a directory that cannot be read.
            trouble = error.strerror or str(error)
            if trouble != self._trouble:
                log.warning("cannot read the directory", path=self._path, error=trouble)
            self._trouble = trouble
            return
        servers, problems, news = self._registrations.update(files)
        for line in problems:
            log.warning(line)
        for line in news:
            log.info(line)
        if servers != self._in_use:
            self._in_use = servers
            self._use(servers)

    async def watch(self) -> None:
        """Read the directory whenever something in it has changed.

        It is looked at twice a second rather than watched: that works on every
        file system, also when the directory is removed and made again, and
        costs less than a thread and a library would.
        """
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            self.look()

    def look(self) -> None:
        """Read the directory if it is not as it was."""
        before, seen = self._seen, _signature(self._path)
        if seen is not None and seen == before:
            return
        self._seen = seen
        self.read()
        known = before or {}
        touched = {
            _name(file)
            for file, now in (seen or {}).items()
            if _is_registration(file) and now != known.get(file)
        }
        if touched:
            self._touched(touched)


def _signature(directory: Path) -> _Signature | None:
    """What changes when a file in the directory does; None while it cannot be read."""
    try:
        with os.scandir(directory) as entries:
            status = {entry.name: _status(entry) for entry in entries}
    except OSError:
        return None
    return {name: (one.st_ino, one.st_mtime_ns, one.st_size) for name, one in status.items()}


def _status(entry: os.DirEntry[str]) -> os.stat_result:
    try:
        return entry.stat()
    except OSError:
        # A link to nothing must not hide what becomes of the others.
        return entry.stat(follow_symlinks=False)


def _is_registration(file: str) -> bool:
    return file.endswith(".json") and not file.startswith(".")


def _files(directory: Path) -> dict[str, bytes]:
    found: dict[str, bytes] = {}
    with os.scandir(directory) as entries:
        for entry in entries:
            if _is_registration(entry.name):
                try:
                    # What is no file, a FIFO say, could be read for ever.
                    if not entry.is_file():
                        continue
                    with open(entry.path, "rb") as file:  # noqa: PTH123
                        found[_name(entry.name)] = file.read(MAX_FILE)
                except FileNotFoundError:
                    continue
                except OSError as error:
                    # Not gone: reported as a file that makes no sense.
                    log.debug("cannot read", path=entry.path, error=str(error))
                    found[_name(entry.name)] = b""
    return found


def _name(file: str) -> str:
    """The server's name, as text that metrics and pages can show."""
    return os.fsencode(file.removesuffix(".json")).decode(errors="replace")
