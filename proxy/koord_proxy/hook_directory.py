"""Watching the directory where hook servers register."""

from __future__ import annotations

import asyncio
import errno
import os
from collections.abc import Callable, Collection, Mapping
from pathlib import Path

from koord_hooks.hook_files import REGISTERED, REMOVED
from koord_service.logs import get_log
from koord_service.write_access import may_everybody_write

from koord_proxy.rules.registration import HookServerRegistration, HookServerRegistrations
from koord_proxy.store import RecordStore

log = get_log("koord_proxy.hookservers")

LOOK_SECONDS = 0.5
"""Interval at which the directory is checked for changes."""
MAX_FILE = 1 << 20
"""Bytes of a registration file; real ones have some hundred."""

_Signature = dict[str, tuple[int, int, int]]
"""Inode, time of the last change (of its mode, too) and size, by file name."""


class UnguardedError(PermissionError):
    """Everybody may write it, and so decide who is asked about pods and shown their secrets."""


class HookDirectory:
    """Reads registrations, and reports the servers in use whenever they change.

    Servers in the ``store`` are expected whether or not their files are there. ``touched`` gets
    the names of servers whose files were created or written again, even with the same
    content: servers do that when they start.
    """

    def __init__(
        self,
        path: str,
        use: Callable[[list[HookServerRegistration]], None],
        touched: Callable[[Collection[str]], None],
        store: RecordStore,
    ) -> None:
        self._path = Path(path)
        self._use = use
        self._touched = touched
        self._store = store
        self._registrations = HookServerRegistrations(store.registrations)
        self._read_error = ""
        self._in_use: list[HookServerRegistration] | None = None
        self._seen: _Signature | None = None

    @property
    def errors(self) -> Mapping[str, str]:
        """Current errors of registrations, a line each, by name."""
        return self._registrations.errors

    def read(self) -> None:
        """Read the directory now, report what changed, and use it."""
        try:
            if not self._path.is_dir():
                self._path.mkdir(parents=True)
                # Whatever the umask: hook servers need not be root's to look into it.
                self._path.chmod(0o755)
            _require_guarded(self._path.stat())
            # In this order: a file that becomes a mark in between is missing, not there.
            removed, files = _marks(self._path), _files(self._path)
            self._read_error = ""
        except OSError as error:
            # Nothing is concluded from a directory that cannot be read.
            reason = error.strerror or str(error)
            if reason != self._read_error:
                log.warning("cannot read the directory", path=self._path, error=reason)
            self._read_error = reason
            return
        self._take_in(files, removed)

    def _take_in(self, files: dict[str, bytes], removed: Collection[str]) -> None:
        update = self._registrations.update(files, removed)
        for line in update.problems:
            log.warning(line)
        for line in update.news:
            log.info(line)
        if update.good:
            self._store.register(update.good)
        if self._store.deregister(update.removed):
            # Done. A mark that stayed would count again when the next file is gone.
            self._clear_marks(removed)
        if update.servers != self._in_use:
            self._in_use = update.servers
            self._use(update.servers)

    def _clear_marks(self, removed: Collection[str]) -> None:
        for name in removed:
            try:
                (self._path / f"{name}{REMOVED}").unlink(missing_ok=True)
            except OSError as error:
                log.warning(
                    "cannot remove the deregistration mark",
                    path=self._path,
                    name=name,
                    error=str(error),
                )

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
        # Of a directory its entries do not say that it is in order again.
        if seen is not None and seen == before and not self._read_error:
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
    """Return a value that changes whenever a file in the directory does; None on an error."""
    try:
        with os.scandir(directory) as entries:
            status = {entry.name: _status(entry) for entry in entries}
    except OSError:
        return None
    return {name: (file.st_ino, file.st_ctime_ns, file.st_size) for name, file in status.items()}


def _status(entry: os.DirEntry[str]) -> os.stat_result:
    try:
        return entry.stat()
    except OSError:
        # A link to nothing must not hide what becomes of the others.
        return entry.stat(follow_symlinks=False)


def _is_registration(file: str) -> bool:
    return file.endswith(REGISTERED) and not file.startswith(".")


def _files(directory: Path) -> dict[str, bytes]:
    found: dict[str, bytes] = {}
    with os.scandir(directory) as entries:
        for entry in entries:
            if _is_registration(entry.name):
                try:
                    # Anything but a file, such as a FIFO, could be read for ever.
                    if not entry.is_file():
                        continue
                    with open(entry.path, "rb") as file:  # noqa: PTH123
                        _require_guarded(os.fstat(file.fileno()))
                        found[_name(entry.name)] = file.read(MAX_FILE)
                except FileNotFoundError:
                    continue
                except OSError as error:
                    # Not gone: reported as a file that makes no sense.
                    say = log.warning if isinstance(error, UnguardedError) else log.debug
                    say("cannot read", path=entry.path, error=error.strerror or str(error))
                    found[_name(entry.name)] = b""
    return found


def _marks(directory: Path) -> list[str]:
    """The servers that are deregistered; names that are no text are nobody's."""
    with os.scandir(directory) as entries:
        names = [entry.name for entry in entries if entry.is_file(follow_symlinks=False)]
    return [
        name.removesuffix(REMOVED)
        for name in names
        if name.endswith(REMOVED) and not name.startswith(".") and name.isprintable()
    ]


def _require_guarded(status: os.stat_result) -> None:
    if may_everybody_write(status):
        raise UnguardedError(errno.EPERM, "everybody may write to it; chmod o-w")


def _name(file: str) -> str:
    """The server's name, as text that metrics and pages can show."""
    return os.fsencode(file.removesuffix(REGISTERED)).decode(errors="replace")
