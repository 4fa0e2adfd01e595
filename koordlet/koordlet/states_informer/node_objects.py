"""This node's objects on the API server, watched, and kept over a restart.

What the API server said last stays in force while it cannot be reached, also for a
koordlet that starts meanwhile: a node must not fall back to defaults because the
control plane is away.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

import msgspec
from koord_kube.informer import Informer
from koord_kube.protocol.api import Api, Object
from koord_kube.protocol.resources import NODE_METRICS, NODE_SLOS, NODES, Resource
from koord_service.log_deduplicator import LogDeduplicator
from koord_service.whole_file import write_whole

from koordlet.states_informer.state.informer_age import InformerAge

_WATCHED = (NODES, NODE_SLOS, NODE_METRICS)
"""Kinds that koordlet watches; each more is one more watch for each node."""

_KEPT = msgspec.json.Decoder(dict[str, Object])
_OBJECT = msgspec.json.Decoder(Object)


class NodeObjects:
    """The objects that are called as this node, by their kind.

    ``path`` is the file that keeps them over a restart. ``changed`` hears on the event loop
    of the kind and its new object (``None``: there is none any more), and ``on_warning`` hears
    lines for people.
    """

    def __init__(
        self,
        api: Api,
        node: str,
        path: str,
        on_warning: Callable[[str], None],
        changed: Callable[[str, Object | None], None] = lambda *_: None,
    ) -> None:
        self._path = Path(path)
        self._node = node
        self.changed = changed
        self._on_warning = on_warning
        self._file_problems = LogDeduplicator()
        self._informers = {
            resource.kind: self._informer(api, resource, node) for resource in _WATCHED
        }

    def get(self, kind: str) -> Object | None:
        """The object of a kind as it was last known; not to be changed."""
        informer = self._informers.get(kind)
        return informer.objects.get(self._node) if informer else None

    def ages(self) -> Mapping[str, InformerAge]:
        """Return the age of each kind; ``None`` for those that this run has not received yet."""
        now = time.monotonic()
        return {
            kind: InformerAge(_finite(informer.age(now)), informer.problem, informer.absent)
            for kind, informer in self._informers.items()
        }

    def recall(self) -> None:
        """Take up what was known before the restart; what the API server says counts more."""
        try:
            kept = _KEPT.decode(self._path.read_bytes())
        except FileNotFoundError:
            return
        except (OSError, msgspec.MsgspecError, UnicodeError, RecursionError) as error:
            self._on_warning(f"{self._path}: {error} (the API server is waited for)")
            return
        for kind, known in kept.items():
            if kind in self._informers and self._is_ours(known):
                self._informers[kind].recall({self._node: known})
                self.changed(kind, known)

    async def run(self) -> None:
        """Watch until cancelled."""
        async with asyncio.TaskGroup() as group:
            for informer in self._informers.values():
                group.create_task(informer.run())

    def _informer(self, api: Api, resource: Resource, node: str) -> Informer[Object]:
        return Informer(
            api,
            resource,
            name=node,
            decode=partial(_trimmed, resource.kind),
            on_change=partial(self._take, resource.kind),
            on_warning=self._on_warning,
        )

    def _take(self, kind: str, key: str, _before: Object | None, found: Object | None) -> None:
        if key == self._node:
            self._keep()
            self.changed(kind, found)

    def _keep(self) -> None:
        known = {kind: found for kind in self._informers if (found := self.get(kind)) is not None}
        try:
            # On the event loop, and the API server has it all: no need to wait for the disk.
            write_whole(self._path, msgspec.json.encode(known), sync=False)
        except OSError as error:
            if self._file_problems.is_new(error.strerror):
                why = f"{error.strerror} (a restart has to wait for the API server)"
                self._on_warning(f"{self._path}: {why}")
        else:
            self._file_problems.clear()

    def _is_ours(self, known: Object) -> bool:
        """A file that was copied from another node is not."""
        return bool(known.get("metadata", {}).get("name") == self._node)


def _trimmed(kind: str, raw: bytes) -> Object:
    """Drop fields that koordlet does not read, and those that change every few seconds."""
    given: Object = _OBJECT.decode(raw)
    # Objects in lists do not say of what kind they are, those in watches do.
    left_out = ("kind", "apiVersion", "metadata", "status")
    kept = {key: value for key, value in given.items() if key not in left_out}
    fields = ("name", "uid", "labels", "annotations")
    kept["metadata"] = {key: value for key, value in given["metadata"].items() if key in fields}
    if kind == NODES.kind:
        status = given.get("status") or {}
        fields = ("capacity", "allocatable", "addresses", "daemonEndpoints")
        kept["status"] = {field: status[field] for field in fields if field in status}
    return kept


def _finite(age: float) -> float | None:
    return age if age < float("inf") else None
