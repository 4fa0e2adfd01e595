"""The journal in pages, newest first, over the file in use and the rotated ones.

A page's token marks the last line that was looked at: the file by its inode, which
rotation leaves alone, and the line by its place and its checksum, because inodes are
used again. So pages go on where they were however often the journal is rotated, until
that file is removed. Nothing is remembered here from page to page.
"""

from __future__ import annotations

import os
import re
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from typing import NamedTuple

from koord_host import journal
from koord_host.journal import BACKUPS

MOST_LINES = 16384
"""What one page looks at; where few events are wanted ones, it may end with none."""

_BLOCK = 1 << 16
_LONGEST = 1 << 16
"""Bytes of a line; ours are far shorter, and longer ones are passed over."""

_TOKEN = re.compile(r"([0-9a-f]{1,16})-([0-9a-f]{1,15})-([0-9a-f]{8})", re.ASCII)

ReadAt = Callable[[int, int], bytes]
"""Bytes of a file: from where, and how many."""
Wanted = Callable[[journal.Event], bool]
"""Whether an event is asked for."""


class TokenError(ValueError):
    """A page token is none, or what it marks is gone; one line."""


@dataclass(frozen=True, slots=True)
class Mark:
    """A line: its file's inode, where it begins, and its CRC-32."""

    inode: int
    offset: int
    checksum: int

    @classmethod
    def parse(cls, token: str) -> Mark:
        """The mark that a page gave.

        Raises:
            TokenError: no page gave this.
        """
        found = _TOKEN.fullmatch(token)
        if found is None:
            raise TokenError('parameter "pageToken" is none that a page gave; begin without it')
        inode, offset, checksum = (int(one, 16) for one in found.groups())
        return cls(inode, offset, checksum)

    def __str__(self) -> str:
        return f"{self.inode:x}-{self.offset:x}-{self.checksum:08x}"


class Line(NamedTuple):
    """One line of a file, without its end, and where it begins."""

    inode: int
    offset: int
    text: bytes

    def mark(self) -> Mark:
        """What finds it again."""
        return Mark(self.inode, self.offset, zlib.crc32(self.text))


class File(NamedTuple):
    """One of the journal's files, open; ``size`` is what it held when it was opened."""

    inode: int
    size: int
    read: ReadAt

    def lines(self, end: int) -> Iterator[Line]:
        """The lines before ``end``, the last first."""
        for offset, text in lines_backwards(self.read, end):
            yield Line(self.inode, offset, text)

    def has(self, mark: Mark) -> bool:
        """Whether the line is still there."""
        text, ended, _ = self.read(mark.offset, _LONGEST + 1).partition(b"\n")
        return bool(ended) and zlib.crc32(text) == mark.checksum


class EventPage(NamedTuple):
    """Changes and decisions, newest first; ``next_token`` is "" where there are no more."""

    events: tuple[journal.Event, ...]
    next_token: str = ""


def read_page(path: str, size: int, token: str = "", wanted: Wanted | None = None) -> EventPage:
    """The newest events, or those that follow a page's token; ``wanted`` ones, if so asked.

    A journal that is not there is empty.

    Raises:
        TokenError: the token is none, or the journal no longer has what follows.
        OSError: the journal cannot be read.
    """
    mark = Mark.parse(token) if token else None
    with ExitStack() as at_exit:
        return page_of(lines_after(mark, _open(path, at_exit)), size, wanted)


def page_of(lines: Iterable[Line], size: int, wanted: Wanted | None = None) -> EventPage:
    """The events in the first lines; what holds none is passed over."""
    events: list[journal.Event] = []
    last: Line | None = None
    for looked, line in enumerate(lines):
        if last is not None and (len(events) == size or looked == MOST_LINES):
            return EventPage(tuple(events), str(last.mark()))
        last = line
        event = journal.decode(line.text)
        if event is not None and (wanted is None or wanted(event)):
            events.append(event)
    return EventPage(tuple(events))


def of_pod(name: str) -> Wanted:
    """Events of a pod, "namespace/name"."""
    return lambda event: event.pod == name


def lines_after(mark: Mark | None, files: Iterable[File]) -> Iterator[Line]:
    """The lines of files, newest first, that are older than the marked one.

    Raises:
        TokenError: the marked line is gone.
    """
    older = iter(files)
    if mark is not None:
        file = next((one for one in older if one.inode == mark.inode), None)
        if file is None or not file.has(mark):
            raise TokenError(
                'what parameter "pageToken" marks is gone with the oldest changes; begin without it'
            )
        yield from file.lines(mark.offset)
    for file in older:
        yield from file.lines(file.size)


def lines_backwards(read: ReadAt, end: int) -> Iterator[tuple[int, bytes]]:
    """Where each line before ``end`` begins, and the line without its end; the last first.

    What follows the last newline is no line yet. Lines longer than a block are passed
    over, so that two blocks are all that is ever held.
    """
    rest, whole = b"", False  # the line that the block before begins in, and whether we have it
    position = end
    while position:
        start = max(position - _BLOCK, 0)
        block = read(start, position - start)
        if len(block) < position - start:
            return  # somebody has cut the file
        first, *others = (block + rest).split(b"\n")
        for offset, line in reversed(list(_placed(start + len(first) + 1, others))):
            if whole and len(line) <= _LONGEST:
                yield offset, line
            whole = True
        rest, position = first, start
        if len(rest) > _LONGEST:
            rest, whole = b"", False
    if whole:
        yield 0, rest


def _placed(offset: int, lines: Iterable[bytes]) -> Iterator[tuple[int, bytes]]:
    for line in lines:
        yield offset, line
        offset += len(line) + 1


def _open(path: str, at_exit: ExitStack) -> Iterable[File]:
    """The journal's files, newest first.

    A rotation meanwhile gives a file the next number: it may be met twice, but never
    missed, since we count upwards and do not stop where a number is free.
    """
    found: dict[int, File] = {}
    for name in (path, *(f"{path}.{number}" for number in range(1, BACKUPS + 1))):
        try:
            descriptor = os.open(name, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            continue
        at_exit.callback(os.close, descriptor)
        state = os.fstat(descriptor)
        found.setdefault(state.st_ino, File(state.st_ino, state.st_size, _reader(descriptor)))
    return found.values()


def _reader(descriptor: int) -> ReadAt:
    return lambda offset, length: os.pread(descriptor, length, offset)
