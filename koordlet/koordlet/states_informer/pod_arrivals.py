"""Pods and containers that come and go, noticed at once by their cgroups.

The kubelet's list is asked for every ten seconds; a directory that is made or removed
below ``kubepods`` says that it is worth asking now.
"""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Callable
from pathlib import Path

from asyncinotify import Event, Inotify, Mask
from koord_host.knobs.layout import Layout
from koord_model.qos import KubeQoS
from koord_service.error_text import describe_error, first_error
from koord_service.logs import get_log

_log = get_log("koordlet.pods")

_CHANGES = Mask.CREATE | Mask.DELETE | Mask.MOVED_TO | Mask.MOVED_FROM | Mask.ONLYDIR
_AGAIN_SECONDS = 10.0
"""Between two looks for groups that are not there yet, such as before the kubelet's start."""


class PodArrivals:
    """Watches the groups of all classes and of the pods in them.

    ``arrived`` is called on the event loop whenever a group has come or gone.
    """

    def __init__(self, layout: Layout, arrived: Callable[[], None]) -> None:
        classes = {layout.kube_qos_group(qos) for qos in KubeQoS}
        self._roots = [Path(layout.group_path(group, "cpu")) for group in sorted(classes)]
        self._arrived = arrived
        self._watched: set[Path] = set()
        self._refused = self._reported = False

    async def run(self) -> None:
        """Watch until cancelled; while the kernel gives no watches, say so once and try again."""
        while True:
            try:
                with Inotify() as inotify:
                    self._watched.clear()
                    await self._listen(inotify)
            except* OSError as errors:
                self._report(first_error(errors))
            await asyncio.sleep(_AGAIN_SECONDS)

    async def _listen(self, inotify: Inotify) -> None:
        # Beside each other: an event that was read when a timeout ends would be lost.
        async with asyncio.TaskGroup() as group:
            group.create_task(self._look_again(inotify))
            async for event in inotify:
                self._take(inotify, event)

    async def _look_again(self, inotify: Inotify) -> None:
        """Look for groups that were not there, for ever."""
        while True:
            self._look(inotify)
            await asyncio.sleep(_AGAIN_SECONDS)

    def _take(self, inotify: Inotify, event: Event) -> None:
        if event.watch is not None and event.mask & Mask.IGNORED:
            # Its directory is gone; one of the same name will be another.
            self._watched.discard(event.watch.path)
        elif event.mask & Mask.ISDIR:
            self._arrived()
            if event.path is not None and event.path.parent in self._roots:
                self._watch(inotify, event.path)

    def _look(self, inotify: Inotify) -> None:
        """Watch what is there now: the classes, and every pod in them."""
        self._refused = False
        for root in self._roots:
            self._watch(inotify, root)
            if root in self._watched:
                for pod in self._groups(root):
                    self._watch(inotify, pod)
        if self._reported and not self._refused:
            self._reported = False
            _log.info("inotify available, new pods are noticed at once")

    def _watch(self, inotify: Inotify, path: Path) -> None:
        if path in self._watched:
            return
        try:
            inotify.add_watch(path, _CHANGES)
        except OSError as error:
            if error.errno not in (errno.ENOENT, errno.ENOTDIR):
                # Others may give theirs back: what is watched stays, the rest is tried again.
                self._report(error)
            return
        self._watched.add(path)

    def _report(self, error: Exception) -> None:
        self._refused = True
        if not self._reported:
            self._reported = True
            _log.warning(
                "inotify unavailable, new pods are noticed late",
                reason=describe_error(error),
                raise_limit="sysctl fs.inotify.max_user_instances, max_user_watches",
            )

    @staticmethod
    def _groups(root: Path) -> list[Path]:
        try:
            return [folder for folder in root.iterdir() if "pod" in folder.name and folder.is_dir()]
        except OSError:
            return []
