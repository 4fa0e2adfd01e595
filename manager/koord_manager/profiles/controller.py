"""Profiles applied again to pods that wait for a node (gate ColocationProfileController)."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass

import msgspec
from koord_kube.core.token_bucket import TokenBucket
from koord_kube.protocol.api import Api, ApiError, Object
from koord_kube.protocol.resources import PODS
from koord_kube.protocol.selectors import all_of, field_is
from koord_model.json_objects import inside

from koord_manager.profiles.core.document import ColocationProfile
from koord_manager.profiles.core.matching import read_all
from koord_manager.profiles.core.reconciler import change, managed, waits
from koord_manager.profiles.core.view import ProfileView

_NEVER = float("-inf")
_MOST_LINES = 1000
_GONE = {404, 409}
"""The pod is gone, or was replaced by another of that name."""
_LATER = {0, 429, 500, 502, 503, 504}
"""Statuses after which a retry may succeed; 0 means no answer."""
_POD = msgspec.json.Decoder(dict[str, object])
_WAITING = all_of(field_is("spec.nodeName", ""), field_is("status.phase", "Pending"))

_Written = tuple[str, tuple[tuple[str, str], ...]]
"""A pod's UID, and names and versions of profiles."""


def _ignore_line(_line: str) -> None:
    pass


@dataclass(frozen=True, slots=True)
class ProfilePace:
    """Pace of looks at pods and of writes; seconds.

    A pod that was written is left alone for ``again``, so that it does not fight with a writer that
    reverts it; that is forgotten after ``forget``.
    """

    interval: float = 30.0
    again: float = 300.0
    forget: float = 600.0
    qps: float = 10.0
    burst: int = 100


class ColocationProfileController:
    """Runs while this manager leads; ``view`` has profiles and namespaces as informers do.

    With ``by_default`` all profiles are applied again, otherwise those labelled so. ``on_warning``
    gets each line once.
    """

    def __init__(
        self,
        api: Api,
        view: Callable[[], ProfileView],
        *,
        by_default: bool = False,
        pace: ProfilePace | None = None,
        on_warning: Callable[[str], None] = _ignore_line,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._api = api
        self._view = view
        self._by_default = by_default
        self._pace = pace or ProfilePace()
        self._bucket = TokenBucket(self._pace.qps, self._pace.burst)
        self._on_warning = on_warning
        self._monotonic = monotonic
        self._logged: set[str] = set()
        self._written: dict[_Written, float] = {}
        self.updated = 0
        """Number of written pods."""
        self.postponed = 0
        """Number of pods of the last look that wait for the next, for want of their turn."""

    async def run(self) -> None:
        """Run until cancelled, through failures of the API."""
        while True:
            try:
                await self.look()
            except ApiError as error:
                self._tell_once(f"colocationprofile: {error}; tried again")
            await asyncio.sleep(self._pace.interval)

    async def look(self) -> None:
        """Once at all pods that wait.

        Raises:
            ApiError: they cannot be listed.
        """
        self.postponed = 0
        known = read_all(self._view().profiles)
        for line in (line for profile in known for line in profile.ignored):
            self._tell_once(line)
        profiles = managed(known, by_default=self._by_default)
        if not profiles:
            return
        self._forget()
        async for page in self._api.pages(PODS, field_selector=_WAITING):
            for raw in page.items:
                await self._pod(_POD.decode(raw), profiles)

    async def _pod(self, pod: Object, profiles: tuple[ColocationProfile, ...]) -> None:
        if not waits(pod):
            return
        metadata = inside(pod, "metadata")
        namespace = str(metadata.get("namespace"))
        found = self._view().namespaces.get(namespace)
        labels = None if found is None else inside(found, "metadata", "labels")
        desired = change(profiles, pod, namespace, labels)
        for line in desired.lines:
            self._tell_once(line)
        key = (
            str(metadata.get("uid")),
            tuple((profile.name, profile.version) for profile in desired.profiles),
        )
        now = self._monotonic()
        if desired.patch is None or now - self._written.get(key, _NEVER) < self._pace.again:
            return
        if not self._bucket.allow(now):
            self.postponed += 1
        elif await self._write(str(metadata.get("name")), namespace, desired.patch):
            self._written[key] = now

    async def _write(self, name: str, namespace: str, patch: Object) -> bool:
        """Write the patch; return True if it was written, or refused for good and left for now."""
        try:
            await self._api.patch(PODS, name, patch, namespace)
        except ApiError as error:
            if error.status in _GONE:
                return True
            self._tell_once(f"colocationprofile: {error}")
            return error.status not in _LATER
        self.updated += 1
        return True

    def _forget(self) -> None:
        since = self._monotonic() - self._pace.forget
        self._written = {key: at for key, at in self._written.items() if at >= since}

    def _tell_once(self, line: str) -> None:
        if line in self._logged:
            return
        if len(self._logged) >= _MOST_LINES:
            self._logged.clear()
        self._logged.add(line)
        self._on_warning(line)
