"""Follows the ConfigMap ``slo-controller-config``, and reports what is wrong with it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress

import msgspec
from koord_kube.core.reflector import ReflectorTiming
from koord_kube.event_recorder import EventRecorder
from koord_kube.informer import Informer
from koord_kube.protocol.api import Api, Object
from koord_kube.protocol.resources import CONFIG_MAPS

from koord_manager.slo_config.core.config import (
    UNREAD,
    ConfigProblem,
    SLOConfig,
    advance,
    unknown_in,
)

_RETOLD_SECONDS = 1800.0
"""Events are kept for an hour; and another manager may have recorded it."""


class _Meta(msgspec.Struct, frozen=True):
    name: str = ""
    namespace: str = ""
    uid: str = ""


class _ConfigMap(msgspec.Struct, frozen=True):
    metadata: _Meta = _Meta()
    data: dict[str, str] | None = None

    def reference(self) -> Object:
        """Return an Event's reference to it."""
        return {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": msgspec.to_builtins(self.metadata),
        }


_DECODER = msgspec.json.Decoder(_ConfigMap)


def _ignore_line(_line: str) -> None:
    pass


class SLOConfigInformer:
    """Configuration in force at any time: the last good value of each key.

    Listeners are called when it has changed. ``recorder`` records an Event on the ConfigMap for
    each key that is bad, when it is good again, and for each with unknown fields; ``on_warning``
    gets the same lines.
    """

    def __init__(
        self,
        api: Api,
        recorder: EventRecorder,
        *,
        name: str = "slo-controller-config",
        namespace: str = "koordinator-system",
        on_warning: Callable[[str], None] = _ignore_line,
        pace: ReflectorTiming | None = None,
    ) -> None:
        self._recorder = recorder
        self._on_warning = on_warning
        self._full_name = f"{namespace}/{name}"
        self._informer = Informer(
            api,
            CONFIG_MAPS,
            name=name,
            namespace=namespace,
            decode=_DECODER.decode,
            on_change=self._changed,
            on_warning=on_warning,
            timing=pace,
        )
        self._listeners: list[Callable[[], None]] = []
        self._ready = asyncio.Event()
        self._news = asyncio.Event()
        self._reported: dict[str, str] = {}
        self._logged_unknown: dict[str, str] = {}
        self.config: SLOConfig = UNREAD
        self.problems: tuple[ConfigProblem, ...] = ()
        """Errors of the present ConfigMap's keys."""
        self.unknown: tuple[ConfigProblem, ...] = ()
        """Its keys and fields that mean nothing, as it is now."""
        self.data: Mapping[str, str] = {}
        """The ConfigMap's data as it is in force."""

    @property
    def problem(self) -> str:
        """Reason why the configuration may differ from the ConfigMap; "" while there is none."""
        return self.wrong or self.source_problem

    @property
    def wrong(self) -> str:
        """The keys and fields that cannot be used or are unknown."""
        return next((problem.line for problem in (*self.problems, *self.unknown)), "")

    @property
    def source_problem(self) -> str:
        """Reason why the ConfigMap may be newer than the known one, from the API server."""
        return self._informer.problem

    @property
    def synced(self) -> bool:
        """True if the ConfigMap has been read, or is known not to exist."""
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
        self.unknown = tuple(unknown_in(data))
        bad = {problem.key for problem in self.problems}
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
        now = _by_key(self.problems)
        before, self._reported = self._reported, now
        for key, line in now.items():
            message = f"{line}; the last good value of {key} stays in force"
            self._say("SLOConfigInvalid", message, anew=before.get(key) != line)
        for key in before.keys() - now.keys():
            message = f"{key} can be used again and is in force"
            self._say("SLOConfigValid", message, warning=False)
        unknown = _by_key(self.unknown)
        before, self._logged_unknown = self._logged_unknown, unknown
        for key, line in unknown.items():
            self._say("SLOConfigUnknownField", line, anew=before.get(key) != line)

    def _say(self, reason: str, message: str, *, anew: bool = True, warning: bool = True) -> None:
        """An Event; for people a line as well where it is new to them."""
        if anew:
            self._on_warning(f"ConfigMap {self._full_name}: {message}")
        if config_map := self._informer.objects.get(self._full_name):
            self._recorder.record(config_map.reference(), reason, message, warning=warning)


def _by_key(problems: tuple[ConfigProblem, ...]) -> dict[str, str]:
    """One line for each key, of many the first."""
    lines: dict[str, list[str]] = {}
    for problem in problems:
        lines.setdefault(problem.key, []).append(problem.line)
    return {
        key: f"{many[0]} (and {len(many) - 1} more)" if many[1:] else many[0]
        for key, many in lines.items()
    }
