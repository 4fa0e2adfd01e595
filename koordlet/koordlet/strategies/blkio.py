"""Limits, weights and latency targets of block devices, for classes, pods and the disks.

From the NodeSLO's ``blkioQOS`` and the annotation ``koordinator.sh/blkioQOS``:

- best-effort pods together: their class's cgroup;
- LSR (and LSE) and LS, which have no cgroup of their own: each pod of them by itself;
- a pod with the annotation: what that says, and nothing of its class's;
- the disks themselves (``cgroupRoot``): io.cost's quality of service and its model.

Limits are ``io.max`` on cgroup v2 and ``blkio.throttle.*`` on v1, where only direct and
synchronous IO is counted. A weight needs io.cost to be on for its disk: ``io.weight``, and
on v1 a vendor's ``blkio.cost.weight``. A latency target of a class or pod is ``io.latency``, on
v2 alone. What the kernel or the machine has not is left alone, and said so; of two blocks on
one disk the stricter counts.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain
from typing import NamedTuple

from koord_host.forms import Value, render_lines
from koord_host.wishes import Wish
from koord_model.blkio_qos import BlkIOQoS, BlockQoS, BlockType, of_pod
from koord_model.keys import ANNOTATION_BLKIO_QOS
from koord_model.node_info import LocalStorage
from koord_model.node_slo import NodeSLO
from koord_model.qos import QoSClass

from koordlet.arithmetic.io.disks import Disks, disks
from koordlet.deciding.contract import NOTHING, Decision, Plan, PodView, View, shown, wish

GATE = "BlkIOReconcile"
INTERVAL = "reconcile_interval_seconds"

_WEIGHT, _LATENCY = "blkio.cost.weight", "io.latency"
_COST_QOS, _COST_MODEL = "blkio.cost.qos", "blkio.cost.model"
_RLAT, _RPCT = 3000, 95
"""Koordinator's: µs, and percent of operations that are to be done within."""
_UNKNOWN = Decision("nothing is done: the node's disks are not known yet")


@dataclass(frozen=True, slots=True)
class Settings:
    """``blkioQOS`` of each part; nothing is asked where it is not enabled."""

    be: BlkIOQoS = field(default_factory=BlkIOQoS)
    """Of best-effort pods together."""
    ls: BlkIOQoS = field(default_factory=BlkIOQoS)
    """Of each LS pod."""
    lsr: BlkIOQoS = field(default_factory=BlkIOQoS)
    """Of each LSR or LSE pod."""
    root: BlkIOQoS = field(default_factory=BlkIOQoS)
    """Of the disks themselves: latencies and models of io.cost."""


def settings(slo: NodeSLO) -> Settings:
    """What the NodeSLO asks for."""
    be, ls, lsr = (slo.of(one).blkio for one in (QoSClass.BE, QoSClass.LS, QoSClass.LSR))
    return Settings(be, ls, lsr, slo.root_blkio)


class _Place(NamedTuple):
    """Something that blocks are asked of; ``ignored`` are lines about what cannot be read."""

    group: str
    blocks: tuple[BlockQoS, ...]
    pod: PodView | None = None
    ignored: tuple[str, ...] = ()


class _Done(NamedTuple):
    """What came of one place."""

    wishes: tuple[Wish, ...]
    decision: Decision


class _Key(NamedTuple):
    """All that a plan follows from; the same objects again cost next to nothing to compare."""

    settings: Settings
    storage: LocalStorage
    pods: tuple[PodView, ...]
    knobs: frozenset[str]
    costs: Value | None


class _Memory(NamedTuple):
    key: _Key
    done: Mapping[str, _Done]
    wishes: tuple[Wish, ...]
    decisions: tuple[Decision, ...]


def plan(view: View, settings: Settings, memory: object) -> Plan:
    """What is asked of every class, pod and disk that is there."""
    before = memory if isinstance(memory, _Memory) else None
    storage = view.latest.fact(LocalStorage)
    if storage is None:
        return _hold(before, {one.group for one in _places(view, settings)})
    knobs = view.node.kernel.knobs
    costs = view.cgroups.now("", _COST_QOS) if _WEIGHT in knobs else None
    key = _Key(settings, storage, view.pods, knobs, costs)
    if before is not None and before.key == key:
        return _plan(before)
    found = _Finder(disks(storage), knobs, _enabled(costs))
    done = {one.group: _done(one, found, before) for one in _places(view, settings)}
    wishes = tuple(chain.from_iterable(one.wishes for one in done.values()))
    return _plan(_Memory(key, done, wishes, tuple(one.decision for one in done.values())))


def _hold(before: _Memory | None, asked: Collection[str]) -> Plan:
    """While the disks are not known: as before, but nothing of what is not asked any more."""
    if not asked:
        return NOTHING
    if before is None:
        return Plan(decisions=(_UNKNOWN,))
    held = [one for group, one in before.done.items() if group in asked]
    wishes = tuple(chain.from_iterable(one.wishes for one in held))
    return Plan(wishes, tuple(one.decision for one in held), memory=before)


def _plan(made: _Memory) -> Plan:
    return Plan(made.wishes, made.decisions, memory=made)


def _enabled(costs: Value | None) -> set[str]:
    """The disks whose cost is reckoned already: what the file shows of others is none."""
    return {line.partition(" ")[0] for line in str(costs or "").splitlines()}


def _places(view: View, settings: Settings) -> Iterator[_Place]:
    """The disks first: weights wait for them."""
    if settings.root.blocks:
        yield _Place("", settings.root.blocks)
    if settings.be.blocks:
        yield _Place(view.be_group, settings.be.blocks)
    for pod in view.pods:
        if ANNOTATION_BLKIO_QOS in pod.record.pod.annotations:
            asked, ignored = of_pod(pod.record.pod)
        else:
            asked, ignored = _of_class(pod.qos, settings), ()
        if asked.blocks or ignored:
            yield _Place(pod.group, asked.blocks, pod, ignored)


def _of_class(qos: QoSClass, settings: Settings) -> BlkIOQoS:
    if qos in (QoSClass.LSR, QoSClass.LSE):
        return settings.lsr
    return settings.ls if qos is QoSClass.LS else _NOTHING


_NOTHING = BlkIOQoS()


def _done(place: _Place, found: _Finder, before: _Memory | None) -> _Done:
    """What comes of a place; the same object as long as it is the same."""
    asked = found.root(place.blocks) if not place.group else found.group(place)
    parts = [*asked.said, *place.ignored]
    pod = place.pod.name if place.pod is not None else ""
    group = "" if place.pod is not None else place.group
    decision = Decision("; ".join(parts), pod=pod, group=group)
    wishes = tuple(
        wish(place.group, knob, render_lines(lines), decision)
        for knob, lines in asked.lines.items()
    )
    done = _Done(wishes, decision)
    known = before.done.get(place.group) if before is not None else None
    return known if known == done else done


@dataclass(slots=True)
class _Asked:
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
class _Finder:
    """What there is on this node; ``costs`` are the disks that take weights, root's too."""

    disks: Disks
    knobs: frozenset[str]
    costs: set[str]

    def group(self, place: _Place) -> _Asked:
        """What is asked of a class's or a pod's cgroup."""
        asked = _Asked()
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

    def _limit(self, asked: _Asked, row: _Limit, block: BlockQoS, disk: str) -> str:
        value = row.asked(block)
        if value is None:
            return ""
        if row.knob not in self.knobs:
            return f"{row.word} left alone (this kernel has no {row.knob})"
        asked.stricter(row.knob, disk, value)
        return f"{row.word} {row.shown(value) if value else 'without limit'}"

    def _weight(self, asked: _Asked, block: BlockQoS, disk: str) -> str:
        if block.weight is None:
            return ""
        if _WEIGHT not in self.knobs:
            return "weight left alone (this kernel has no io.cost)"
        if disk not in self.costs:
            return "weight left alone (io.cost is off for the disk: cgroupRoot can switch it on)"
        asked.stricter(_WEIGHT, disk, block.weight)
        return f"weight {block.weight}"

    def _latency(self, asked: _Asked, block: BlockQoS, disk: str) -> str:
        given = [one for one in (block.read_latency, block.write_latency) if one is not None]
        if not given:
            return ""
        if _LATENCY not in self.knobs:
            return f"latency left alone (this kernel has no {_LATENCY})"
        target = min((one for one in given if one), default=0)
        asked.stricter(_LATENCY, disk, target)
        return f"latency {target} µs" if target else "latency without target"

    def root(self, blocks: Iterable[BlockQoS]) -> _Asked:
        """What is asked of disks themselves; of two blocks on one disk the first counts."""
        asked = _Asked()
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
    return " ".join(["ctrl=user", *(f"{key}={one}" for key, one in given.items() if one)])


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
    _Limit("blkio.throttle.read_bps_device", "reads", lambda one: one.read_bps, _rate),
    _Limit("blkio.throttle.write_bps_device", "writes", lambda one: one.write_bps, _rate),
    _Limit(
        "blkio.throttle.read_iops_device", "read operations", lambda one: one.read_iops, _operations
    ),
    _Limit(
        "blkio.throttle.write_iops_device",
        "write operations",
        lambda one: one.write_iops,
        _operations,
    ),
)
_WORDS = {
    BlockType.DEVICE: "device",
    BlockType.VOLUME_GROUP: "volume group",
    BlockType.POD_VOLUME: "volume of the pod",
}
