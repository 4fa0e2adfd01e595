"""Stores known pods over a restart: there may be no list of pods then, or not yet a whole one.

One JSON file, written whole or not at all, mode 0600. Environment variables are left
out: they hold secrets, and nothing that runs is reconciled by them. A file of an earlier
boot of the machine says nothing about this one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import msgspec
from koord_service.log_deduplicator import LogDeduplicator
from koord_service.whole_file import write_whole

from koordlet.states_informer.state.pod_inventory import PodRecord


class _File(msgspec.Struct):
    boot: str
    pods: tuple[PodRecord, ...]


_DECODER = msgspec.json.Decoder(_File)


class PodSnapshot:
    """The file; ``boot`` names this boot of the machine, ``on_warning`` gets each problem once."""

    def __init__(self, path: str, boot: str, on_warning: Callable[[str], None]) -> None:
        self._path = Path(path)
        self._boot = boot
        self._on_warning = on_warning
        self._kept: tuple[PodRecord, ...] = ()
        self._problems = LogDeduplicator()

    def load(self) -> tuple[PodRecord, ...]:
        """The pods of the last run; none where they cannot be read."""
        try:
            file = _DECODER.decode(self._path.read_bytes())
        except FileNotFoundError:
            return ()
        except (OSError, msgspec.MsgspecError, UnicodeError, RecursionError) as error:
            self._warn(f"{self._path}: {error} (pods are known once hooks report them)")
            return ()
        return file.pods if file.boot == self._boot else ()

    def keep(self, records: tuple[PodRecord, ...]) -> None:
        """Write the pods, if they are not those written last."""
        if records == self._kept:
            return
        text = msgspec.json.encode(_File(self._boot, tuple(map(_without_secrets, records))))
        try:
            # After a crash of the machine these pods are gone: no need to wait for the disk.
            write_whole(self._path, text, sync=False)
        except OSError as error:
            self._warn(f"{self._path}: {error.strerror}")
        else:
            self._kept = records
            self._problems.clear()

    def _warn(self, problem: str) -> None:
        if self._problems.is_new(problem):
            self._on_warning(problem)


def _without_secrets(record: PodRecord) -> PodRecord:
    containers = {key: replace(container, env={}) for key, container in record.containers.items()}
    return replace(record, containers=containers)
