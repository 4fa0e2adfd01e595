"""The journal: changes of the node, decisions of strategies, answers to hooks; a JSON line each.

    {"time":"2026-01-31T12:00:00.123Z","owner":"hooks","group":"kubepods/…","pod":"ns/name",
     "knob":"cpu.shares","old":1024,"new":512,"why":"batch-cpu 500m → cpu.shares 512"}
    {"time":"2026-01-31T12:00:01.123Z","strategy":"cpu_suppress","mode":"on",
     "outcome":"best-effort pods get 4 CPUs","formula":"capacity × threshold − used",
     "given":[["capacity",16,"cores"],["threshold",65,"%"],["used",6.4,"cores"]],
     "pod":"","group":"kubepods/besteffort","aspect":""}
    {"time":"2026-01-31T11:59:59.987Z","hook":"PreCreateContainer","transport":"hook protocol",
     "pod":"ns/name","container":"main",
     "plugins":[["batchresource","batch-cpu 500m → cpu.shares 512",[["cpu_shares",2,512]]]],
     "notes":[]}

Every change and decision is there, and every answer that changes something, or in which
something was wrong. Lines are kept until ``flush``, once a round, and then written at once; jobs
add theirs from threads of their own. A journal that cannot be written stops no change of the node:
it is reported once, and the lines are lost.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import msgspec

from koord_host.knobs.forms import Value

NAME = "journal.jsonl"
"""The journal's name in koordlet's ``--state-dir``."""

MAX_BYTES = 4 << 20
BACKUPS = 4

LONGEST_DECISION = 8192
"""Bytes of a decision's line; a longer one goes without its numbers and in fewer words."""

_MODE = 0o640
_FEWER = 256
_TEXTS = ("strategy", "outcome", "formula", "pod", "group", "aspect")
_encode = msgspec.json.Encoder().encode


class ChangeEntry(msgspec.Struct, frozen=True):
    """One line. ``time`` is RFC 3339 in UTC; ``group`` is the place, cgroup or other.

    ``old`` and ``new`` are what the kernel showed before and after; ``None``: nothing
    that could be read.
    """

    time: str
    owner: str
    group: str
    pod: str
    knob: str
    old: Value | None
    new: Value | None
    why: str


class DecisionEntry(msgspec.Struct, frozen=True):
    """One line. What a strategy decided; ``time`` is RFC 3339 in UTC.

    ``mode`` is "on" or "shadow". ``given`` are the numbers that ``formula`` names, with
    their units. ``pod`` ("namespace/name") and ``group`` are what it is about; without
    both, the node.
    """

    time: str
    strategy: str
    mode: str
    outcome: str
    formula: str = ""
    given: tuple[tuple[str, bool | int | float | str | None, str], ...] = ()
    pod: str = ""
    group: str = ""
    aspect: str = ""


class PluginAnswerEntry(NamedTuple):
    """One hook plugin's changes of a request, and their reason.

    ``fields`` are each field's name, what was requested and what was answered; ``None``: not
    set, or nothing to be shown.
    """

    plugin: str
    why: str
    fields: tuple[tuple[str, Value | None, Value | None], ...] = ()


class HookAnswerEntry(msgspec.Struct, frozen=True):
    """One line. What a hook call was answered; ``time`` is RFC 3339 in UTC.

    ``container`` is a name, "" for the pod itself. ``notes`` are what was wrong: plugins that
    failed or disagree, annotations that cannot be used.
    """

    time: str
    hook: str
    transport: str
    pod: str
    container: str
    plugins: tuple[PluginAnswerEntry, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def group(self) -> str:
        """None: its cgroup may not have been made yet."""
        return ""


Event = ChangeEntry | DecisionEntry | HookAnswerEntry
"""Content of a line."""

_decode_change = msgspec.json.Decoder(ChangeEntry).decode
_decode_decided = msgspec.json.Decoder(DecisionEntry).decode
_decode_answer = msgspec.json.Decoder(HookAnswerEntry).decode
_NO_LINE = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)


class Journal:
    """Appends lines to a file (mode 0640), rotated by size to ``<path>.1`` and so on.

    ``path`` "" keeps no journal. ``problem`` is what is wrong with it at present, ""
    if nothing; ``on_problem`` is called once when it begins.
    """

    def __init__(
        self,
        path: str,
        on_problem: Callable[[str], None],
        *,
        max_bytes: int = MAX_BYTES,
        backups: int = BACKUPS,
    ) -> None:
        self.problem = ""
        self._path = path
        self._on_problem = on_problem
        self._max_bytes = max_bytes
        self._backups = backups
        self._lines: list[bytes] = []
        self._lock = threading.Lock()
        self._file: int | None = None
        self._size = 0

    def add(self, event: Event) -> None:
        """Keep a line for the next flush; for any thread."""
        if self._path:
            line = _encoded(event)
            with self._lock:
                self._lines.append(line)

    def flush(self) -> None:
        """Write what was added, in one write; for any thread."""
        with self._lock:
            self._flush()

    def _flush(self) -> None:
        lines, self._lines = self._lines, []
        if not lines:
            return
        data = b"\n".join([*lines, b""])
        try:
            written = os.write(self._open(len(data)), data)
            self._size += written
            if written < len(data):
                raise OSError(f"only {written} of {len(data)} bytes fit")
        except OSError as error:
            self._fail(error)
        else:
            self.problem = ""

    def close(self) -> None:
        """Write what is left and close the file."""
        with self._lock:
            self._flush()
            self._shut()

    def _open(self, more: int) -> int:
        """Return the file, open and with room for so many bytes more."""
        file = self._begin() if self._file is None else self._file
        if self._size and self._size + more > self._max_bytes:
            self._shut()
            self._rotate()
            file = self._begin()
        return file

    def _begin(self) -> int:
        Path(self._path).parent.mkdir(mode=0o750, parents=True, exist_ok=True)
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
        self._file = file = os.open(self._path, flags, _MODE)
        os.fchmod(file, _MODE)
        self._size = os.fstat(file).st_size
        if self._size and not _ends_a_line(self._path):
            # A full disk or a crash left half a line: ours begins a new one.
            self._size += os.write(file, b"\n")
        return file

    def _rotate(self) -> None:
        for number in range(self._backups - 1, 0, -1):
            older = Path(f"{self._path}.{number}")
            if older.exists():
                older.replace(f"{self._path}.{number + 1}")
        if self._backups:
            Path(self._path).replace(f"{self._path}.1")
        else:
            Path(self._path).unlink(missing_ok=True)

    def _shut(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def _fail(self, error: OSError) -> None:
        self._shut()
        reported, self.problem = self.problem, f"{self._path}: {error.strerror or error}"
        if not reported:
            self._on_problem(self.problem)


def decode(text: bytes) -> Event | None:
    """A line of a journal; ``None`` for what is none."""
    try:
        return _decode_change(text)
    except _NO_LINE:
        pass
    try:
        return _decode_decided(text)
    except _NO_LINE:
        pass
    try:
        return _decode_answer(text)
    except _NO_LINE:
        return None


def _encoded(event: Event) -> bytes:
    data = _encode(event)
    if isinstance(event, DecisionEntry) and len(data) > LONGEST_DECISION:
        text = {name: _cut(getattr(event, name)) for name in _TEXTS}
        data = _encode(msgspec.structs.replace(event, given=(), **text))
    return data


def _cut(text: str) -> str:
    return text if len(text) <= _FEWER else f"{text[: _FEWER - 1]}…"


def _ends_a_line(path: str) -> bool:
    with open(path, "rb") as file:  # noqa: PTH123
        file.seek(-1, os.SEEK_END)
        return file.read() == b"\n"
