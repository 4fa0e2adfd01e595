"""Follows rollouts by what nodes report, keeps their state in a ConfigMap, and halts harm."""

from __future__ import annotations

import heapq
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

import anyio
import anyio.lowlevel
import msgspec
from koord_kube.core.events import reference
from koord_kube.event_recorder import EventRecorder
from koord_kube.informer import Informer
from koord_kube.protocol.api import Api, ApiError, NotFoundError, Object
from koord_kube.protocol.resources import CONFIG_MAPS
from koord_serving.create_or_update import create_or_update

from koord_manager.node_objects.controller import NodeInformer
from koord_manager.node_objects.core.nodes import ClusterNode
from koord_manager.nodeslo.controller import NodeSLOController
from koord_manager.nodeslo.core.rollout import Layers, version_of
from koord_manager.rollout.core import echoes
from koord_manager.rollout.core.documents import (
    OBSERVED,
    SUFFIX,
    EntryState,
    Order,
    Pause,
    read_observed,
    read_orders,
    written,
)
from koord_manager.rollout.core.echoes import RolloutReport
from koord_manager.rollout.core.entries import entries
from koord_manager.rollout.core.follower import EntryNow, RolloutFollower
from koord_manager.rollout.core.pairing import NodeTraits
from koord_manager.slo_config.core.layers import Document, NodeLayer
from koord_manager.slo_config.informer import SLOConfigInformer

GATE = "RolloutGuard"
_AT_ONCE = 250
"""Statuses that are looked at in one go, which takes some milliseconds."""
_SHOWN = 100
"""Entries at a glance."""
_MOST_EVICTING = 5
_INSTANCE_TYPE = "node.kubernetes.io/instance-type"


class _ConfigMap(msgspec.Struct, frozen=True):
    data: dict[str, str] = {}


_CONFIG_MAP = msgspec.json.Decoder(_ConfigMap)


class RolloutController:
    """The controller; ``status`` is a node's newest NodeMetric status, ``None`` without one.

    ``api`` must write only while this manager leads. ``name`` is the configuration's ConfigMap;
    that of the state is beside it. Until the state has been read, all entries that have a name
    count as paused: whoever leads anew must not go on with what was halted.
    """

    def __init__(
        self,
        api: Api,
        nodes: NodeInformer,
        configs: SLOConfigInformer,
        slos: NodeSLOController,
        status: Callable[[str], bytes | None],
        recorder: EventRecorder,
        *,
        name: str,
        namespace: str,
        on_warning: Callable[[str], None],
        interval: float = 10.0,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._api = api
        self._nodes = nodes
        self._configs = configs
        self._slos = slos
        self._status = status
        self._recorder = recorder
        self._config = name, namespace
        self._name = f"{name}{SUFFIX}"
        self._on_warning = on_warning
        self._interval = interval
        self._clock = clock
        self._follower = RolloutFollower()
        self._read: dict[str, tuple[int, RolloutReport | None]] = {}
        self._by = ""
        self._known = ""
        self._loaded = False
        self._unsaid: dict[str, str] = {}
        self._versions: dict[str, tuple[NodeLayer[Document], str]] = {}
        self._present: tuple[Layers, int, Sequence[EntryNow]] | None = None
        self._wake = anyio.Event()
        self._informer: Informer[_ConfigMap] = Informer(
            api,
            CONFIG_MAPS,
            name=self._name,
            namespace=namespace,
            decode=_CONFIG_MAP.decode,
            on_change=self._changed,
            on_warning=on_warning,
        )
        self._write_problem = ""
        slos.rollout.held = self._holds

    @property
    def problem(self) -> str:
        """Reason why rollouts may not be as they are said to be; "" while there is none."""
        return self._write_problem or self._informer.problem

    def overview(self) -> list[dict[str, Any]]:
        """Summarise the entries, for people; as many as a page has room for."""
        followed = islice(self._follower.followed.items(), _SHOWN)
        return [self._summary(name, state) for name, state in followed]

    def evictions(self) -> dict[str, Any]:
        """Count evictions by koordlets since these started, with the nodes that have the most."""
        reports = ((name, report) for name, (_, report) in self._read.items() if report is not None)
        counts = [(report.echo.evictions, name) for name, report in reports]
        most = [(name, number) for number, name in heapq.nlargest(_MOST_EVICTING, counts) if number]
        return {"total": sum(number for number, _ in counts), "most": most}

    def _summary(self, name: str, state: EntryState) -> dict[str, Any]:
        order = self._follower.orders.get(name, Order())
        pause = state.paused if self._follower.holds(name, state.version) else None
        held = order if order.paused else pause
        return {
            "entry": name,
            "version": state.version,
            "canary": state.canary,
            "wanted": state.nodes.wanted,
            "applied": state.nodes.echoed,
            "failed": state.nodes.failed,
            "problem": state.nodes.problem,
            "paused": "" if held is None else _pause_text(held),
        }

    async def run(self) -> None:
        """For ever; nothing is written before all is known that decides."""
        async with anyio.create_task_group() as group:
            group.start_soon(self._informer.run)
            await self._nodes.wait_synced()
            await self._configs.wait_synced()
            await self._informer.wait_synced()
            self._load()
            while True:
                await self._try()
                self._wake = anyio.Event()
                with anyio.move_on_after(self._interval):
                    await self._wake.wait()

    async def look(self) -> None:
        """See what nodes report, judge, and write what has changed.

        Raises:
            ApiError: the state cannot be written; it is at the next look.
        """
        reports = await self._reports()
        layers = self._configs.config.extension
        present = () if layers is None else self._entries(layers)
        if any(map(self._follower.is_new, present)):
            self._by = await self._writer()
        traits = _Traits(self._nodes.objects, reports)
        halted = self._follower.look(present, reports, traits, self._clock(), self._by)
        if halted:
            self._slos.resync()
        self._unsaid |= halted
        await self._write()

    def _load(self) -> None:
        found = self._informer.objects.get(f"{self._config[1]}/{self._name}", _ConfigMap())
        try:
            self._follower.followed = read_observed(found.data)
        except ValueError as error:
            self._on_warning(
                f"ConfigMap {self._name}: {OBSERVED} cannot be read: {error} (begun anew)"
            )
        self._known = found.data.get(OBSERVED, "")
        self._loaded = True
        self._slos.resync()

    async def _try(self) -> None:
        try:
            await self.look()
        except ApiError as error:
            if not self._write_problem:
                self._on_warning(f"rollout: {error} (tried again)")
            self._write_problem = f"rollout: {error}"
        else:
            self._write_problem = ""

    def _holds(self, layer: NodeLayer[Document]) -> bool:
        if not layer.name:
            return False
        return not self._loaded or self._follower.holds(layer.name, self._version(layer))

    def _version(self, layer: NodeLayer[Document]) -> str:
        """The version of an entry; this is asked for each node."""
        known = self._versions.get(layer.where)
        if known is None or known[0] is not layer:
            known = self._versions[layer.where] = layer, version_of(layer.value)
        return known[1]

    def _changed(self, _key: str, before: _ConfigMap | None, now: _ConfigMap | None) -> None:
        if self._loaded:  # somebody has deleted or changed it: it is to be written again
            self._known = now.data.get(OBSERVED, "") if now else ""
        try:
            orders = read_orders(now.data if now else {})
        except ValueError as error:
            self._on_warning(f"ConfigMap {self._name}: {error} (the last good orders stay)")
            return
        if orders != self._follower.orders:
            self._follower.orders = orders
            self._slos.resync()
            self._wake.set()

    def _entries(self, layers: Layers) -> Sequence[EntryNow]:
        """Entries with their nodes, as they were at the last look where nothing has changed."""
        rollout, known = self._slos.rollout, self._present
        if known is None or known[0] is not layers or known[1] != rollout.changes:
            found = list(entries(layers, rollout, self._nodes.objects, self._configs.data))
            known = self._present = layers, rollout.changes, found
        return known[2]

    async def _reports(self) -> Mapping[str, RolloutReport]:
        names, found = list(self._nodes.objects), dict[str, RolloutReport]()
        for start in range(0, len(names), _AT_ONCE):
            for name in names[start : start + _AT_ONCE]:
                status = self._status(name)
                known = self._read.get(name)
                # A hash, as the status itself would stay in memory until the next look.
                if known is None or known[0] != hash(status):
                    known = self._read[name] = hash(status), echoes.read(status)
                if known[1] is not None:
                    found[name] = known[1]
            await anyio.lowlevel.checkpoint()
        nodes = self._nodes.objects
        for name in self._read.keys() - nodes.keys():
            del self._read[name]
        return found

    async def _writer(self) -> str:
        """The client that wrote the configuration last, as the API server has it; "" if unknown."""
        try:
            found = await self._api.get(CONFIG_MAPS, *self._config)
        except NotFoundError:
            return ""
        managers: list[Object] = found["metadata"].get("managedFields") or []
        newest = sorted(managers, key=lambda each: str(each.get("time", "")))
        return str(newest[-1].get("manager", "")) if newest else ""

    async def _write(self) -> None:
        text = written(self._follower.followed)
        namespace = self._config[1]
        if text != self._known:
            await create_or_update(
                self._api, CONFIG_MAPS, self._name, namespace, lambda found: self._over(found, text)
            )
            self._known = text
        for entry, reason in self._unsaid.items():
            about = reference(CONFIG_MAPS, *self._config)
            message = (
                f'pykoord-config entry "{entry}" is paused: {reason}; koordctl rollout has more'
            )
            self._recorder.record(about, "RolloutPaused", message, warning=True)
            self._on_warning(message)
        self._unsaid = {}

    def _over(self, found: Object | None, text: str) -> Object:
        if found is None:
            meta = {"name": self._name, "namespace": self._config[1]}
            return {"metadata": meta, "data": {OBSERVED: text}}
        return {**found, "data": {**(found.get("data") or {}), OBSERVED: text}}


def _pause_text(pause: Order | Pause) -> str:
    return f"by {pause.by or 'somebody'}" + (f": {pause.why}" if pause.why else "")


class _Traits(Mapping[str, NodeTraits]):
    """Traits of nodes that report, made for those that are looked up: most looks pair nobody."""

    def __init__(
        self, nodes: Mapping[str, ClusterNode], reports: Mapping[str, RolloutReport]
    ) -> None:
        self._nodes = nodes
        self._reports = reports

    def __getitem__(self, name: str) -> NodeTraits:
        return _traits(self._nodes[name], self._reports[name])

    def __iter__(self) -> Iterator[str]:
        return (name for name in self._reports if name in self._nodes)

    def __len__(self) -> int:
        return sum(1 for _ in self)


def _traits(node: ClusterNode, report: RolloutReport) -> NodeTraits:
    try:
        size = echoes.cores(node.allocatable)
    except ValueError:
        size = 0.0
    load = report.cores / size if size else 0.0
    return NodeTraits((node.labels.get(_INSTANCE_TYPE, ""), size), load)
