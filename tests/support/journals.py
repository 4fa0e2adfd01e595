"""Whole journals, read for tests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from koord_host.resource_executor.journal import ChangeEntry, Event, decode


def read(path: str, *, group: str = "", pod: str = "") -> Iterator[ChangeEntry]:
    """The changes in a journal, oldest first; of one group or pod only, if one is named.

    Raises:
        OSError: the journal cannot be read; one that is not there is empty.
    """
    return (
        event for event in read_events(path, group=group, pod=pod) if isinstance(event, ChangeEntry)
    )


def read_events(path: str, *, group: str = "", pod: str = "") -> Iterator[Event]:
    """All that is in a journal, oldest first, as ``read`` does.

    Lines that are none (the disk was full, somebody wrote there) are passed over.

    Raises:
        OSError: the journal cannot be read; one that is not there is empty.
    """
    for file in [*_rotated(path), Path(path)]:
        if not file.exists():
            continue
        with file.open("rb") as lines:
            for text in lines:
                event = decode(text)
                if event is None:
                    continue
                if (not group or event.group == group) and (not pod or event.pod == pod):
                    yield event


def _rotated(path: str) -> list[Path]:
    found: list[Path] = []
    while (older := Path(f"{path}.{len(found) + 1}")).exists():
        found.insert(0, older)
    return found
