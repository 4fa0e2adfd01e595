"""The allocations, and the file that has them over a restart."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path

import msgspec
from koord_model.allocation import Allocations, ResourceAllocation
from koord_service.log_deduplicator import LogDeduplicator
from koord_service.logs import get_log
from koord_service.whole_file import write_whole

from koordlet.resource_plugins.core import checkpoint
from koordlet.resource_plugins.core.checkpoint import SavedAllocations, SavedPlugin

NAME = "resource_allocations.json"
_MOST_BYTES = checkpoint.MOST_BYTES // 2
"""Of all allocations, so that the file has room for them."""

_log = get_log("koordlet.resources")


class AllocationStore:
    """Allocations by pod, within one event loop; ``path`` is the file.

    ``current`` is replaced, never changed: other threads read it.
    """

    def __init__(self, path: str) -> None:
        self.current: Allocations = {}
        self._path = Path(path)
        self._sizes: dict[tuple[str, str], int] = {}
        self._written: object = None
        self._problems = LogDeduplicator()

    def load(self) -> Mapping[str, SavedPlugin]:
        """Take what the file has, and return its plugins; a file that is not whole has nothing."""
        found = SavedAllocations()
        try:
            with self._path.open("rb") as file:
                found = checkpoint.decode(file.read(checkpoint.MOST_BYTES + 1))
        except FileNotFoundError:
            pass
        except (OSError, ValueError) as error:
            reason = f"{self._path}: {getattr(error, 'strerror', None) or error}"
            _log.warning("no allocations of the last run, plugins are asked again", reason=reason)
        for uid, pod in found.allocations.items():
            for container, resources in pod.items():
                self.put(uid, container, resources)
        self._written = (found.plugins, self.current)
        return found.plugins

    def put(self, uid: str, container: str, resources: Mapping[str, ResourceAllocation]) -> bool:
        """Keep allocations of a container's resources; return whether that is possible."""
        pod = self.current.get(uid, {})
        before = pod.get(container, {})
        after = {**before, **resources}
        if after == before:
            return True
        size = len(msgspec.json.encode(after))
        others = sum(self._sizes.values()) - self._sizes.get((uid, container), 0)
        if others + size > _MOST_BYTES:
            return False
        self._sizes[uid, container] = size
        self.current = {**self.current, uid: {**pod, container: after}}
        return True

    def remove(self, uid: str) -> None:
        """Forget a pod."""
        for container in self.current.get(uid, {}):
            self._sizes.pop((uid, container), None)
        self.current = {key: pod for key, pod in self.current.items() if key != uid}

    async def save(self, plugins: Mapping[str, SavedPlugin]) -> None:
        """Write the file, if anything in it has changed."""
        state = (plugins, self.current)
        if state == self._written:
            return
        try:
            text = checkpoint.encode(*state)
            await asyncio.to_thread(write_whole, self._path, text)
        except (OSError, ValueError) as error:
            reason = f"{self._path}: {getattr(error, 'strerror', None) or error}"
            if self._problems.is_new(reason):
                _log.error("allocations not kept over a restart", reason=reason)
        else:
            self._written = state
            self._problems.clear()
