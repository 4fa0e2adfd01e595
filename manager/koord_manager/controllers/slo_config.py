"""Follows the ConfigMap ``slo-controller-config``, and says where something of it is wrong."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress

import msgspec
from koord_kube.api import Api, Object
from koord_kube.informer import Informer
from koord_kube.recorder import Recorder
from koord_kube.resources import CONFIG_MAPS
from koord_kube.watching import Pace

from koord_manager.slo_config.config import UNREAD, Problem, SLOConfig, advance

_RETOLD_SECONDS = 1800.0
"""Events are kept for an hour; and who leads now may not have been the one to tell it."""


class _Meta(msgspec.Struct, frozen=True):
    name: str = ""
    namespace: str = ""
    uid: str = ""


class _ConfigMap(msgspec.Struct, frozen=True):
    metadata: _Meta = _Meta()
    data: dict[str, str] | None = None

    def reference(self) -> Object:
        """What an Event about it needs."""
        return {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": msgspec.to_builtins(self.metadata),
        }


_DECODER = msgspec.json.Decoder(_ConfigMap)


def _untold(_line: str) -> None:
    pass


class SLOConfigs:
    """What is in force, always: the last good value of each key.

    Listeners hear when it has changed. ``recorder`` tells an Event on the ConfigMap for each
    key that is bad, and when it is good again; ``tell`` gets the same for people.
    """

    def __init__(
        self,
        api: Api,
        recorder: Recorder,
        *,
        name: str = "slo-controller-config",
        namespace: str = "koordinator-system",
        tell: Callable[[str], None] = _untold,
        pace: Pace | None = None,
    ) -> None:
        self._recorder = recorder
        self._tell = tell
        self._full_name = f"{namespace}/{name}"
        self._informer = Informer(
            api,
            CONFIG_MAPS,
            name=name,
            namespace=namespace,
            decode=_DECODER.decode,
            changed=self._changed,
            tell=tell,
            pace=pace,
        )
        self._listeners: list[Callable[[], None]] = []
        self._ready = asyncio.Event()
        self._news = asyncio.Event()
        self._told: dict[str, str] = {}
        self.config: SLOConfig = UNREAD
        self.problems: tuple[Problem, ...] = ()
        """Why keys of the ConfigMap, as it is now, cannot be used."""
        self.data: Mapping[str, str] = {}
        """The ConfigMap's data as it is in force."""

    @property
    def trouble(self) -> str:
        """Why what is in force may not be what somebody wants, in a line; "" while fine."""
        return self.problems[0].line if self.problems else self._informer.trouble

    @property
    def synced(self) -> bool:
        """Whether the ConfigMap has been read, or it is known that there is none."""
        return self._ready.is_set()

    @contextmanager
    def listening(self, changed: Callable[[], None]) -> Iterator[None]:
        """Meanwhile hear whenever ``config`` has changed; it is called in the event loop."""
        self._listeners.append(changed)
        try:
            yield
        finally:
            self._listeners.remove(changed)

    async def wait_synced(self) -> None:
        """Until the ConfigMap has been read, or it is known that there is none."""
        await self._ready.wait()

    async def run(self) -> None:
        """For ever."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._informer.run())
            await self._informer.wait_synced()
            if self._full_name not in self._informer.objects:
                self._advance({})
            self._ready.set()
            await self._tell_for_ever()

    def _changed(self, _key: str, _before: _ConfigMap | None, now: _ConfigMap | None) -> None:
        self._advance((now and now.data) or {})

    def _advance(self, data: Mapping[str, str]) -> None:
        before = self.config
        self.config, self.problems = advance(before, data)
        bad = {one.key for one in self.problems}
        kept = {key: text for key, text in self.data.items() if key in bad}
        self.data = {key: text for key, text in data.items() if key not in bad} | kept
        self._news.set()
        if self.config != before:
            for changed in tuple(self._listeners):
                changed()

    async def _tell_for_ever(self) -> None:
        while True:
            self._news.clear()
            await self._tell_events()
            with suppress(TimeoutError):
                async with asyncio.timeout(_RETOLD_SECONDS):
                    await self._news.wait()

    async def _tell_events(self) -> None:
        config_map = self._informer.objects.get(self._full_name)
        now = _said(self.problems)
        before, self._told = self._told, now
        for key, line in now.items():
            message = f"{line}; the last good value of {key} stays in force"
            if before.get(key) != line:
                self._tell(f"ConfigMap {self._full_name}: {message}")
            if config_map:
                await self._recorder.tell(
                    config_map.reference(), "SLOConfigInvalid", message, warning=True
                )
        for key in before.keys() - now.keys():
            message = f"{key} can be used again and is in force"
            self._tell(f"ConfigMap {self._full_name}: {message}")
            if config_map:
                await self._recorder.tell(config_map.reference(), "SLOConfigValid", message)


def _said(problems: tuple[Problem, ...]) -> dict[str, str]:
    """One line for each key, of many the first."""
    lines: dict[str, list[str]] = {}
    for one in problems:
        lines.setdefault(one.key, []).append(one.line)
    return {
        key: f"{many[0]} (and {len(many) - 1} more)" if many[1:] else many[0]
        for key, many in lines.items()
    }
