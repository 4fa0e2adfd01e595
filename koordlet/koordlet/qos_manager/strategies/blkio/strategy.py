"""Limits, weights and latency targets of block devices, for classes, pods and the disks.

From the NodeSLO's ``blkioQOS`` and the annotation ``koordinator.sh/blkioQOS``:

- best-effort pods together: their class's cgroup;
- LSR (and LSE) and LS, which have no cgroup of their own: each pod of them by itself;
- a pod with the annotation: what that says, and nothing of its class's;
- the disks themselves (``cgroupRoot``): io.cost's quality of service and its model.

Limits are ``io.max`` on cgroup v2 and ``blkio.throttle.*`` on v1, where only direct and
synchronous IO is counted. A weight needs io.cost to be on for its disk: ``io.weight``, and
on v1 a vendor's ``blkio.cost.weight``. A latency target of a class or pod is ``io.latency``, on
v2 alone. What the kernel or the machine lacks is left alone, and logged; of two blocks on
one disk the stricter counts.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain
from typing import NamedTuple

from koord_host.knobs.forms import Value, render_lines
from koord_host.planning.desired_values import DesiredValue
from koord_model.blkio_qos import BlkIOQoS, BlockQoS, BlockType, of_pod
from koord_model.keys import ANNOTATION_BLKIO_QOS
from koord_model.node_info import LocalStorage
from koord_model.node_slo import NodeSLO
from koord_model.qos import QoSClass

from koordlet.qos_manager.core.strategy import (
    NOTHING,
    Decision,
    Plan,
    PodView,
    StrategyView,
    desired_value,
    shown,
)
from koordlet.qos_manager.strategies.blkio.disks import Disks, disks

GATE = "BlkIOReconcile"
INTERVAL = "reconcile_interval_seconds"

_WEIGHT, _LATENCY = "blkio.cost.weight", "io.latency"
_COST_QOS, _COST_MODEL = "blkio.cost.qos", "blkio.cost.model"
_RLAT, _RPCT = 3000, 95
"""Koordinator's: µs, and percent of operations that are to be done within."""
_UNKNOWN = Decision("nothing is done: the node's disks are not known yet")


@dataclass(frozen=True, slots=True)
class Settings:
    """``blkioQOS`` of each class; empty if it is not enabled."""

    be: BlkIOQoS = field(default_factory=BlkIOQoS)
    """Of best-effort pods together."""
    ls: BlkIOQoS = field(default_factory=BlkIOQoS)
    """Of each LS pod."""
    lsr: BlkIOQoS = field(default_factory=BlkIOQoS)
    """Of each LSR or LSE pod."""
    root: BlkIOQoS = field(default_factory=BlkIOQoS)
    """Of the disks themselves: latencies and models of io.cost."""


def settings(slo: NodeSLO) -> Settings:
    """Read the settings from the NodeSLO."""
    be, ls, lsr = (slo.of(qos).blkio for qos in (QoSClass.BE, QoSClass.LS, QoSClass.LSR))
    return Settings(be, ls, lsr, slo.root_blkio)


class _BlkioTarget(NamedTuple):
    """A target of blkio blocks; ``ignored`` has a line for each invalid field."""

    group: str
    blocks: tuple[BlockQoS, ...]
    pod: PodView | None = None
    ignored: tuple[str, ...] = ()


class _TargetResult(NamedTuple):
    """The result for one target."""

    desired: tuple[DesiredValue, ...]
    decision: Decision


class _PlanInputs(NamedTuple):
    """All that a plan follows from; the same objects again cost next to nothing to compare."""

    settings: Settings
    storage: LocalStorage
    pods: tuple[PodView, ...]
    knobs: frozenset[str]
    costs: Value | None


class _Memory(NamedTuple):
    key: _PlanInputs
    done: Mapping[str, _TargetResult]
    desired: tuple[DesiredValue, ...]
    decisions: tuple[Decision, ...]


def plan(view: StrategyView, settings: Settings, memory: object) -> Plan:
    """The blocks of every class, pod and disk that exists."""
    before = memory if isinstance(memory, _Memory) else None
    storage = view.latest.info(LocalStorage)
    if storage is None:
        return _hold(before, {place.group for place in _places(view, settings)})
    knobs = view.node.kernel.knobs
    costs = view.cgroups.now("", _COST_QOS) if _WEIGHT in knobs else None
    key = _PlanInputs(settings, storage, view.pods, knobs, costs)
    if before is not None and before.key == key:
        return _plan(before)
    found = _DiskResolver(disks(storage), knobs, _enabled(costs))
    done = {place.group: _done(place, found, before) for place in _places(view, settings)}
    desired = tuple(chain.from_iterable(lines.desired for lines in done.values()))
    return _plan(_Memory(key, done, desired, tuple(lines.decision for lines in done.values())))


def _hold(before: _Memory | None, asked: Collection[str]) -> Plan:
    """While the disks are not known: keep the values of targets that still have a block."""
    if not asked:
        return NOTHING
    if before is None:
        return Plan(decisions=(_UNKNOWN,))
    held = [lines for group, lines in before.done.items() if group in asked]
    desired = tuple(chain.from_iterable(lines.desired for lines in held))
    return Plan(desired, tuple(lines.decision for lines in held), memory=before)


def _plan(made: _Memory) -> Plan:
    return Plan(made.desired, made.decisions, memory=made)


def _enabled(costs: Value | None) -> set[str]:
    """The disks that already have a cost model; the file's values for others are defaults."""
    return {line.partition(" ")[0] for line in str(costs or "").splitlines()}


def _places(view: StrategyView, settings: Settings) -> Iterator[_BlkioTarget]:
    """The disks first: weights wait for them."""
    if settings.root.blocks:
        yield _BlkioTarget("", settings.root.blocks)
    if settings.be.blocks:
        yield _BlkioTarget(view.be_group, settings.be.blocks)
    for pod in view.pods:
        if ANNOTATION_BLKIO_QOS in pod.record.pod.annotations:
            asked, ignored = of_pod(pod.record.pod)
        else:
            asked, ignored = _of_class(pod.qos, settings), ()
        if asked.blocks or ignored:
            yield _BlkioTarget(pod.group, asked.blocks, pod, ignored)


def _of_class(qos: QoSClass, settings: Settings) -> BlkIOQoS:
    if qos in (QoSClass.LSR, QoSClass.LSE):
        return settings.lsr
    return settings.ls if qos is QoSClass.LS else _NOTHING


_NOTHING = BlkIOQoS()


def _done(place: _BlkioTarget, found: _DiskResolver, before: _Memory | None) -> _TargetResult:
    """The result for a target; the same object as long as it is the same."""
    asked = found.root(place.blocks) if not place.group else found.group(place)
    parts = [*asked.said, *place.ignored]
    pod = place.pod.name if place.pod is not None else ""
    group = "" if place.pod is not None else place.group
    decision = Decision("; ".join(parts), pod=pod, group=group)
    desired = tuple(
        desired_value(place.group, knob, render_lines(lines), decision)
        for knob, lines in asked.lines.items()
    )
    done = _TargetResult(desired, decision)
    known = before.done.get(place.group) if before is not None else None
    return known if known == done else done


@dataclass(slots=True)
class _DiskLines:
    """Lines by knob and disk, and what is to be said of them."""

    lines: dict[str, dict[str, str]] = field(default_factory=dict)
    said: list[str] = field(default_factory=list)

    def put(self, knob: str, disk: str, value: str) -> None:
        self.lines.setdefault(knob, {})[disk] = value

    def stricter(self, knob: str, disk: str, value: int) -> None:
        """A limit; of two the lower one, and none only where both are."""
        known = int(self.lines.get(knob, {}).get(disk, 0))
        self.put(knob, disk, str(min(value or known, known or value)))


@dataclass(frozen=True, slots=True)
class _DiskResolver:
    """Disks and knobs of this node; ``costs`` are the disks that take weights, root's too."""

    disks: Disks
    knobs: frozenset[str]
    costs: set[str]

    def group(self, place: _BlkioTarget) -> _DiskLines:
        """The blocks of a class's or a pod's cgroup."""
        asked = _DiskLines()
        uid = place.pod.uid if place.pod is not None else ""
        for block in place.blocks:
            disk = self.disks.number(block, uid)
            if disk is None:
                asked.said.append(f"{block.name} left alone: no such {_WORDS[block.type]} here")
                continue
            words = [self._limit(asked, row, block, disk) for row in _LIMITS]
            words.append(self._weight(asked, block, disk))
            words.append(self._latency(asked, block, disk))
            said = ", ".join(word for word in words if word) or "nothing asked"
            asked.said.append(f"{block.name} ({disk}): {said}")
        return asked

    def _limit(self, asked: _DiskLines, row: _Limit, block: BlockQoS, disk: str) -> str:
        value = row.asked(block)
        if value is None:
            return ""
        if row.knob not in self.knobs:
            return f"{row.word} left alone (this kernel has no {row.knob})"
        asked.stricter(row.knob, disk, value)
        return f"{row.word} {row.shown(value) if value else 'without limit'}"

    def _weight(self, asked: _DiskLines, block: BlockQoS, disk: str) -> str:
        if block.weight is None:
            return ""
        if _WEIGHT not in self.knobs:
            return "weight left alone (this kernel has no io.cost)"
        if disk not in self.costs:
            return "weight left alone (io.cost is off for the disk: cgroupRoot can switch it on)"
        asked.stricter(_WEIGHT, disk, block.weight)
        return f"weight {block.weight}"

    def _latency(self, asked: _DiskLines, block: BlockQoS, disk: str) -> str:
        given = [
            latency for latency in (block.read_latency, block.write_latency) if latency is not None
        ]
        if not given:
            return ""
        if _LATENCY not in self.knobs:
            return f"latency left alone (this kernel has no {_LATENCY})"
        target = min((latency for latency in given if latency), default=0)
        asked.stricter(_LATENCY, disk, target)
        return f"latency {target} µs" if target else "latency without target"

    def root(self, blocks: Iterable[BlockQoS]) -> _DiskLines:
        """The blocks of disks; of two blocks on one disk the first counts."""
        asked = _DiskLines()
        for block in blocks:
            disk = self.disks.number(block)
            if disk is None:
                asked.said.append(f"{block.name} left alone: no such {_WORDS[block.type]} here")
            elif _COST_QOS not in self.knobs:
                asked.said.append(f"{block.name} left alone: this kernel has no io.cost")
            elif disk not in asked.lines.get(_COST_QOS, {}):
                self.costs.add(disk)
                asked.put(_COST_QOS, disk, _qos(block))
                model = _model(block)
                if model:
                    asked.put(_COST_MODEL, disk, model)
                said = " ".join(word for word in (_qos(block), model and f"model {model}") if word)
                asked.said.append(f"{block.name} ({disk}): {said}")
        return asked


def _qos(block: BlockQoS) -> str:
    rpct, wpct = block.read_latency_percent, block.write_latency_percent
    return (
        f"enable=1 ctrl=user rpct={_RPCT if rpct is None else rpct} "
        f"rlat={block.read_latency or _RLAT} wpct={_RPCT if wpct is None else wpct} "
        f"wlat={block.write_latency or _RLAT}"
    )


def _model(block: BlockQoS) -> str:
    """Only what is given; the kernel knows the rest better than a 0 would say it."""
    if block.user_model is None:
        return ""
    if not block.user_model:
        return "ctrl=auto"
    given = {
        "rbps": block.model_read_bps,
        "rseqiops": block.model_read_seq_iops,
        "rrandiops": block.model_read_rand_iops,
        "wbps": block.model_write_bps,
        "wseqiops": block.model_write_seq_iops,
        "wrandiops": block.model_write_rand_iops,
    }
    return " ".join(["ctrl=user", *(f"{key}={value}" for key, value in given.items() if value)])


class _Limit(NamedTuple):
    """One limit: its knob, how it is called, and where a block has it."""

    knob: str
    word: str
    asked: Callable[[BlockQoS], int | None]
    shown: Callable[[int], str]


def _rate(value: int) -> str:
    return f"{shown(value, 'bytes')}/s"


def _operations(value: int) -> str:
    return f"{value}/s"


_LIMITS = (
    _Limit("blkio.throttle.read_bps_device", "reads", lambda block: block.read_bps, _rate),
    _Limit("blkio.throttle.write_bps_device", "writes", lambda block: block.write_bps, _rate),
    _Limit(
        "blkio.throttle.read_iops_device",
        "read operations",
        lambda block: block.read_iops,
        _operations,
    ),
    _Limit(
        "blkio.throttle.write_iops_device",
        "write operations",
        lambda block: block.write_iops,
        _operations,
    ),
)
_WORDS = {
    BlockType.DEVICE: "device",
    BlockType.VOLUME_GROUP: "volume group",
    BlockType.POD_VOLUME: "volume of the pod",
}
