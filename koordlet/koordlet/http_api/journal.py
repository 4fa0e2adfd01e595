"""The journal in pages, newest first, over the file in use and the rotated ones.

A page's token marks the last line that was looked at: the file by its inode, which
rotation leaves alone, and the line by its place and its checksum, because inodes are
used again. So pages go on where they were however often the journal is rotated, until
that file is removed. Nothing is remembered here from page to page.

Who asks for some events only has the files searched for texts that their lines hold: blocks
without any are passed over as they are, and no line is decoded in vain. Anybody on the node may
ask, and while we work, hook calls wait: so few search at a time.
"""

from __future__ import annotations

import os
import re
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from threading import BoundedSemaphore
from typing import NamedTuple

import msgspec
from koord_host.resource_executor import journal
from koord_host.resource_executor.journal import BACKUPS

MOST_LINES = 16384
"""Largest number of lines that one page decodes; where few events match, it may have none."""
AT_ONCE = 2
"""Pages that are made at the same time."""
WAIT_SECONDS = 1.0
"""Time for which another reader waits for its turn."""

_BLOCK = 1 << 16
_LONGEST = 1 << 16
"""Bytes of a line; ours are far shorter, and longer ones are passed over."""

_TOKEN = re.compile(r"([0-9a-f]{1,16})-([0-9a-f]{1,15})-([0-9a-f]{8})", re.ASCII)

ReadAt = Callable[[int, int], bytes]
"""Bytes of a file: from where, and how many."""


class TokenError(ValueError):
    """A page token is not valid, or what it marks is gone; one line."""


class BusyError(Exception):
    """Too many read the journal at this moment; one line."""


@dataclass(frozen=True, slots=True)
class EventSearch:
    """Search for events: the ``wanted`` among lines that hold certain texts.

    That is ``kind``, which all events of a kind hold, and one of ``texts``.
    """

    texts: tuple[bytes, ...]
    wanted: Callable[[journal.Event], bool]
    kind: bytes = b""

    def may_be_in(self, data: bytes) -> bool:
        """True if a line, or any line of many, may match."""
        return self.kind in data and any(text in data for text in self.texts)


@dataclass(frozen=True, slots=True)
class LinePosition:
    """A line: its file's inode, where it begins, and its CRC-32."""

    inode: int
    offset: int
    checksum: int

    @classmethod
    def parse(cls, token: str) -> LinePosition:
        """The mark that a page gave.

        Raises:
            TokenError: no page gave this.
        """
        found = _TOKEN.fullmatch(token)
        if found is None:
            raise TokenError('parameter "pageToken" is not one that a page gave; begin without it')
        inode, offset, checksum = (int(group, 16) for group in found.groups())
        return cls(inode, offset, checksum)

    def __str__(self) -> str:
        return f"{self.inode:x}-{self.offset:x}-{self.checksum:08x}"


class JournalLine(NamedTuple):
    """One line of a file, without its end, and where it begins."""

    inode: int
    offset: int
    text: bytes

    def mark(self) -> LinePosition:
        """Position by which the line is found again."""
        return LinePosition(self.inode, self.offset, zlib.crc32(self.text))


class JournalFile(NamedTuple):
    """One of the journal's files, open; ``size`` is what it held when it was opened."""

    inode: int
    size: int
    read: ReadAt

    def lines(self, end: int, search: EventSearch | None = None) -> Iterator[JournalLine]:
        """The lines before ``end`` that may be searched for, the last first."""
        for offset, text in lines_backwards(self.read, end, search):
            yield JournalLine(self.inode, offset, text)

    def has(self, mark: LinePosition) -> bool:
        """True if the line is still there."""
        text, ended, _ = self.read(mark.offset, _LONGEST + 1).partition(b"\n")
        return bool(ended) and zlib.crc32(text) == mark.checksum


class EventPage(NamedTuple):
    """Changes and decisions, newest first; ``next_token`` is "" where there are no more."""

    events: tuple[journal.Event, ...]
    next_token: str = ""


@dataclass(frozen=True, slots=True)
class JournalPages:
    """Pages of the journal at ``path``; for any thread."""

    path: str
    _turns: BoundedSemaphore = field(default_factory=lambda: BoundedSemaphore(AT_ONCE))

    def read(self, size: int, token: str = "", search: EventSearch | None = None) -> EventPage:
        """The newest events, or those that follow a page's token; some only, if so asked.

        A journal that is not there is empty.

        Raises:
            BusyError: too many others read it.
            TokenError: the token is not valid, or the journal no longer has what follows.
            OSError: the journal cannot be read.
        """
        mark = LinePosition.parse(token) if token else None
        if not self._turns.acquire(timeout=WAIT_SECONDS):
            raise BusyError(f"busy: {AT_ONCE} others search the journal; ask again")
        try:
            with ExitStack() as at_exit:
                return page_of(lines_after(mark, _open(self.path, at_exit), search), size, search)
        finally:
            self._turns.release()


def page_of(
    lines: Iterable[JournalLine], size: int, search: EventSearch | None = None
) -> EventPage:
    """The events in the first lines; what holds none is passed over."""
    events: list[journal.Event] = []
    last: JournalLine | None = None
    for looked, line in enumerate(lines):
        if last is not None and (len(events) == size or looked == MOST_LINES):
            return EventPage(tuple(events), str(last.mark()))
        last = line
        event = journal.decode(line.text)
        if event is not None and (search is None or search.wanted(event)):
            events.append(event)
    return EventPage(tuple(events))


def of_pod(name: str) -> EventSearch:
    """Events of a pod, "namespace/name"."""
    return EventSearch((b'"pod":%b,' % encoded(name),), lambda event: event.pod == name)


def encoded(text: str) -> bytes:
    """A text as a line holds it, in its quotation marks."""
    return msgspec.json.encode(text)


def lines_after(
    mark: LinePosition | None, files: Iterable[JournalFile], search: EventSearch | None = None
) -> Iterator[JournalLine]:
    """The lines of files, newest first, that are older than the marked one.

    Raises:
        TokenError: the marked line is gone.
    """
    older = iter(files)
    if mark is not None:
        file = next((segment for segment in older if segment.inode == mark.inode), None)
        if file is None or not file.has(mark):
            raise TokenError(
                'what parameter "pageToken" marks is gone with the oldest changes; begin without it'
            )
        yield from file.lines(mark.offset, search)
    for file in older:
        yield from file.lines(file.size, search)


def lines_backwards(
    read: ReadAt, end: int, search: EventSearch | None = None
) -> Iterator[tuple[int, bytes]]:
    """Lines before ``end`` with their positions and without their ends; the last first.

    What follows the last newline is not a line yet. Lines longer than a block are passed
    over, so that two blocks are all that is ever held; so are those that a search is not for.
    """
    rest, whole = b"", False  # the line that the block before begins in, and whether we have it
    position = end
    while position:
        start = max(position - _BLOCK, 0)
        block = read(start, position - start)
        if len(block) < position - start:
            return  # somebody has cut the file
        text = block + rest
        first, ended, others = text.partition(b"\n")
        if ended and (search is None or search.may_be_in(text)):
            for offset, line in reversed(list(_placed(start + len(first) + 1, others))):
                if whole and len(line) <= _LONGEST and (search is None or search.may_be_in(line)):
                    yield offset, line
                whole = True
        rest, whole, position = first, whole or bool(ended), start
        if len(rest) > _LONGEST:
            rest, whole = b"", False
    if whole and (search is None or search.may_be_in(rest)):
        yield 0, rest


def _placed(offset: int, lines: bytes) -> Iterator[tuple[int, bytes]]:
    for line in lines.split(b"\n"):
        yield offset, line
        offset += len(line) + 1


def _open(path: str, at_exit: ExitStack) -> Iterable[JournalFile]:
    """The journal's files, newest first.

    A rotation meanwhile gives a file the next number: it may be met twice, but never
    missed, since we count upwards and do not stop where a number is free.
    """
    found: dict[int, JournalFile] = {}
    for name in (path, *(f"{path}.{number}" for number in range(1, BACKUPS + 1))):
        try:
            descriptor = os.open(name, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            continue
        at_exit.callback(os.close, descriptor)
        state = os.fstat(descriptor)
        found.setdefault(
            state.st_ino, JournalFile(state.st_ino, state.st_size, _reader(descriptor))
        )
    return found.values()


def _reader(descriptor: int) -> ReadAt:
    return lambda offset, length: os.pread(descriptor, length, offset)
