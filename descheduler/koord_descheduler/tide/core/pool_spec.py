"""A TideNodePool as the API has it, read. No IO."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec
from koord_kube.protocol.api import Object
from koord_model import duration
from koord_model.excerpt import excerpt

from koord_descheduler.drain.drain_spec import read_drain_spec

PREFIX = "tide.katalyst.kubewharf.io"
FINALIZER = f"{PREFIX}/finalizer"
_PERCENT = re.compile(r"([0-9]{1,3})%")
_MOST_OF_LABEL = 63


class Label(NamedTuple):
    """A label of nodes."""

    key: str
    value: str


class Reserve(NamedTuple):
    """Nodes that stay on a side: a number, or percent of the pool's."""

    amount: int
    is_percent: bool = False

    def of(self, nodes: int, *, rounds_up: bool) -> int:
        """The number, of so many nodes."""
        if not self.is_percent:
            return self.amount
        return -(-nodes * self.amount // 100) if rounds_up else nodes * self.amount // 100


class TidePool(NamedTuple):
    """A pool; times are in seconds.

    ``offline_taint`` keeps services off nodes that are offline, ``online_taint`` batch jobs off
    those that are online (``None``: nothing does). ``drain`` are fields of the DrainNodes.
    """

    name: str
    uid: str
    node_selector: Mapping[str, str] = {}
    online: Label = Label(f"{PREFIX}/node-type", "online")
    offline: Label = Label(f"{PREFIX}/node-type", "offline")
    tide: Label = Label(f"{PREFIX}/tide", "true")
    offline_taint: Label = Label(f"{PREFIX}/online-not-used", "true")
    online_taint: Label | None = None
    reserve_online: Reserve = Reserve(0)
    reserve_offline: Reserve = Reserve(0)
    low: int = 60
    high: int = 80
    cool_down: float = 900.0
    deadline: float = 600.0
    is_dry_run: bool = False
    is_deleted: bool = False
    drain: Mapping[str, Any] = {}

    def selects(self, labels: Mapping[str, str]) -> bool:
        """True if a node with these labels is of the pool."""
        return all(labels.get(key) == value for key, value in self.node_selector.items())


class _Label(msgspec.Struct):
    key: str
    value: str

    @property
    def label(self) -> Label:
        return Label(self.key, self.value)


class _Watermark(msgspec.Struct, rename="camel"):
    evict_online_pod_taint: _Label | None = None
    evict_offline_pod_taint: _Label | None = None
    low: int = TidePool._field_defaults["low"]
    high: int = TidePool._field_defaults["high"]


class _Strategy(msgspec.Struct):
    type: str = "watermark"
    watermark: _Watermark = msgspec.field(default_factory=_Watermark)


class _Reserve(msgspec.Struct):
    online: int | str = 0
    offline: int | str = 0


class _Configs(msgspec.Struct, rename="camel"):
    node_selector: dict[str, str] | None = None
    online_label: _Label | None = None
    offline_label: _Label | None = None
    tide_label: _Label | None = None
    reserve: _Reserve = msgspec.field(default_factory=_Reserve)


class _Spec(msgspec.Struct, rename="camel"):
    node_configs: _Configs
    evict_strategy: _Strategy = msgspec.field(default_factory=_Strategy)
    cool_down: str = "15m"
    deadline: str = "10m"
    dry_run: bool = False
    pod_rules: list[dict[str, Any]] = []
    migration_policy: dict[str, Any] = {}


def read_pool(document: Object) -> TidePool:
    """A pool.

    Raises:
        ValueError: its spec is not valid; a line with the field, its value and what is expected.
    """
    try:
        spec = msgspec.convert(document.get("spec"), _Spec)
    except msgspec.ValidationError as error:
        raise ValueError(f"spec: {error}") from None
    drain = {"podRules": spec.pod_rules, "migrationPolicy": spec.migration_policy}
    read_drain_spec(drain | {"nodeName": "any"})
    meta, configs, mark = document["metadata"], spec.node_configs, spec.evict_strategy.watermark
    usual = TidePool(meta["name"], meta.get("uid", ""))
    pool = usual._replace(
        node_selector=configs.node_selector or {},
        online=_label(configs.online_label, usual.online),
        offline=_label(configs.offline_label, usual.offline),
        tide=_label(configs.tide_label, usual.tide),
        offline_taint=_label(mark.evict_online_pod_taint, usual.offline_taint),
        online_taint=_taint(mark.evict_offline_pod_taint),
        reserve_online=_reserve(configs.reserve.online, "online"),
        reserve_offline=_reserve(configs.reserve.offline, "offline"),
        low=mark.low,
        high=mark.high,
        cool_down=_seconds(spec.cool_down, "coolDown"),
        deadline=_seconds(spec.deadline, "deadline"),
        is_dry_run=spec.dry_run,
        is_deleted=bool(meta.get("deletionTimestamp")),
        drain=drain,
    )
    _check(pool, spec.evict_strategy.type)
    return pool


def _check(pool: TidePool, kind: str) -> None:
    if len(pool.name) > _MOST_OF_LABEL:
        raise ValueError(
            f"metadata.name has {len(pool.name)} characters; expected {_MOST_OF_LABEL} at most, "
            "since labels of nodes name it"
        )
    if kind != "watermark":
        raise ValueError(f"spec.evictStrategy.type is {excerpt(kind)}; expected watermark")
    if not 0 <= pool.low < pool.high:
        raise ValueError(
            f"spec.evictStrategy.watermark: low is {pool.low} and high is {pool.high}; expected "
            "low to be less, or nodes would go to and fro"
        )
    if pool.online == pool.offline:
        key, value = pool.online
        raise ValueError(
            f"spec.nodeConfigs: onlineLabel and offlineLabel are both {key}={value}; expected two"
        )


def _label(given: _Label | None, usual: Label) -> Label:
    return usual if given is None else given.label


def _taint(given: _Label | None) -> Label | None:
    return None if given is None else given.label


def _reserve(given: int | str, side: str) -> Reserve:
    if isinstance(given, int) and given >= 0:
        return Reserve(given)
    found = _PERCENT.fullmatch(given) if isinstance(given, str) else None
    if found is None or int(found[1]) > 100:
        raise ValueError(
            f"spec.nodeConfigs.reserve.{side} is {excerpt(str(given))}; "
            "expected a number from 0, or 0% to 100%"
        )
    return Reserve(int(found[1]), is_percent=True)


def _seconds(text: str, name: str) -> float:
    try:
        return duration.seconds(text)
    except ValueError:
        raise ValueError(f"spec.{name} is {excerpt(text)}; expected a duration like 15m") from None
