"""From the traffic classes wanted and those there are to the changes between them.

Ours is an HTB root qdisc 1: and everything below it. An interface's root qdisc is
ours to replace only where nobody chose it: the kernel's own has the number 0.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from koord_model.traffic import DEFAULT_MINOR, MAJOR, ROOT_MINOR, Traffic, classid

ROOT = MAJOR << 16
"""The number of our root qdisc, 1:0."""


class TrafficObject(StrEnum):
    """Kind of object that a change is about."""

    QDISC = "qdisc"
    CLASS = "class"
    FILTER = "filter"


class TrafficVerb(StrEnum):
    """Kind of change."""

    ADD = "add"
    CHANGE = "change"
    DELETE = "delete"


@dataclass(frozen=True, slots=True)
class Qdisc:
    """The root qdisc of an interface; ``default`` is the minor of HTB's default class."""

    kind: str
    handle: int
    default: int = 0

    def __str__(self) -> str:
        return f"{self.kind} {self.handle >> 16:x}: default {self.default:x}"


OURS = Qdisc("htb", ROOT, DEFAULT_MINOR)


@dataclass(frozen=True, slots=True)
class HTBClass:
    """Limits of an HTB class: bytes a second, as the kernel counts.

    ``parent`` is a minor, 0 for the qdisc itself.
    """

    parent: int
    priority: int
    rate: int
    ceil: int

    def __str__(self) -> str:
        above = classid(self.parent)
        return (
            f"parent {above} prio {self.priority} rate {self.rate * 8}bit ceil {self.ceil * 8}bit"
        )


@dataclass(frozen=True, slots=True)
class InterfaceShaping:
    """Shaping of an interface; ``classes`` by minor, of our qdisc alone.

    ``cgroup_filter`` is whether packets are put into classes by the number their
    cgroup has in ``net_cls.classid``.
    """

    root: Qdisc
    classes: Mapping[int, HTBClass] = field(default_factory=dict)
    cgroup_filter: bool = False


@dataclass(frozen=True, slots=True)
class TrafficChange:
    """One change: ``minor`` of a class, ``wanted`` unless it is deleted."""

    verb: TrafficVerb
    kind: TrafficObject
    minor: int = 0
    wanted: Qdisc | HTBClass | None = None
    found: Qdisc | HTBClass | None = None

    @property
    def subject(self) -> str:
        """The object of the change, as tc(8) names it."""
        return f"{self.kind} {classid(self.minor)}" if self.minor else str(self.kind)


def is_ours(root: Qdisc) -> bool:
    """True if a root qdisc is one we make; Koordinator's is the same, and is taken over."""
    return root == OURS


def refusal(root: Qdisc, interface: str) -> str:
    """Return why an interface's traffic cannot be shaped, "" if it can."""
    if is_ours(root) or root.handle == 0:
        return ""
    return (
        f"interface {interface}: its root qdisc is {root.kind} {root.handle >> 16:x}:, not made by"
        " pykoord; expected the kernel's own (traffic is not shaped; `tc qdisc del dev"
        f" {interface} root` hands it over)"
    )


def changes(
    wanted: Traffic, found: InterfaceShaping, *, by_cgroup: bool
) -> tuple[TrafficChange, ...]:
    """The changes from what an interface has to what is wanted, in an order that works.

    ``by_cgroup`` is whether this node has ``net_cls``. None where nothing is to be
    changed. See ``refusal`` first.
    """
    made: list[TrafficChange] = []
    if not is_ours(found.root):
        made.append(
            TrafficChange(TrafficVerb.ADD, TrafficObject.QDISC, wanted=OURS, found=found.root)
        )
        found = InterfaceShaping(OURS)
    made += _class_changes(_shapes(wanted), found.classes)
    if by_cgroup and not found.cgroup_filter:
        made.append(TrafficChange(TrafficVerb.ADD, TrafficObject.FILTER))
    return tuple(made)


def undoing(found: InterfaceShaping) -> tuple[TrafficChange, ...]:
    """The change that leaves nothing of ours; the kernel then puts its own qdisc back."""
    if not is_ours(found.root):
        return ()
    return (TrafficChange(TrafficVerb.DELETE, TrafficObject.QDISC, found=found.root),)


def _shapes(wanted: Traffic) -> dict[int, HTBClass]:
    """The classes by minor, parents before children."""
    total = wanted.total // 8
    shapes = {ROOT_MINOR: HTBClass(0, 0, total, total)}
    for traffic_class in wanted.classes:
        shapes[traffic_class.minor] = HTBClass(
            traffic_class.parent,
            traffic_class.priority,
            traffic_class.rate // 8,
            traffic_class.ceil // 8,
        )
    return {minor: shapes[minor] for minor in _parents_first(shapes)}


def _parents_first(shapes: Mapping[int, HTBClass]) -> list[int]:
    def depth(minor: int) -> int:
        above = shapes.get(minor)
        return 1 + depth(above.parent) if above and above.parent != minor else 0

    return sorted(shapes, key=lambda minor: (depth(minor), minor))


def _class_changes(
    wanted: Mapping[int, HTBClass], found: Mapping[int, HTBClass]
) -> Iterator[TrafficChange]:
    # A class cannot move to another parent: it is made anew, and all below it with it.
    gone: set[int] = set()
    for minor in _parents_first(found):
        above = found[minor].parent
        if minor not in wanted or wanted[minor].parent != above or above in gone:
            gone.add(minor)
    for minor in reversed(_parents_first(found)):
        if minor in gone:
            yield TrafficChange(TrafficVerb.DELETE, TrafficObject.CLASS, minor, found=found[minor])
    for minor, shape in wanted.items():
        before = None if minor in gone else found.get(minor)
        if before is None:
            yield TrafficChange(TrafficVerb.ADD, TrafficObject.CLASS, minor, shape)
        elif before != shape:
            yield TrafficChange(TrafficVerb.CHANGE, TrafficObject.CLASS, minor, shape, before)
