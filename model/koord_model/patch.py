"""Changes that hooks want, and the merge of several hooks' patches."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, TypeVar

from koord_model.core_sched import CoreSchedGroup
from koord_model.resctrl import ResctrlLimits
from koord_model.resources import SCALARS, TEXTS, LinuxResources
from koord_model.traffic import Traffic


@dataclass(frozen=True, slots=True)
class Mount:
    """A bind mount of a host path; ``options`` as mount(8) spells them."""

    host_path: str
    options: tuple[str, ...] = ("rbind", "ro")


@dataclass(frozen=True, slots=True)
class Device:
    """A device of the host; ``access`` of "rwm", ``mode`` its file's permissions."""

    host_path: str
    access: str = "rw"
    mode: int = 0o666


@dataclass(frozen=True, slots=True)
class Patch:
    """Changes one hook wants; an unset field means "leave it".

    ``resources``, ``knobs``, ``core_sched`` and ``resctrl`` are about the subject of the
    hook: a pod's own cgroup, or a container's. ``knobs`` are kernel files that no
    field of a CRI request reaches, by their name in the knob table. ``core_sched``
    is the group of tasks that may share a core; ``NO_GROUP`` takes them out of any.
    ``mounts`` and ``devices`` are keyed by the path in the container; the hook
    protocol cannot carry them, NRI can.

    ``why`` is the arithmetic in one line, for people: "batch-cpu 500m →
    cpu.shares 512". ``ignored`` are lines about fields that could not be used;
    the rest of the patch counts all the same.
    """

    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    env: Mapping[str, str] = field(default_factory=dict)
    mounts: Mapping[str, Mount] = field(default_factory=dict)
    devices: Mapping[str, Device] = field(default_factory=dict)
    knobs: Mapping[str, int | str] = field(default_factory=dict)
    cgroup_parent: str | None = None
    core_sched: CoreSchedGroup | None = None
    resctrl: ResctrlLimits | None = None
    resources: LinuxResources = LinuxResources()
    why: str = ""
    ignored: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class NodePatch:
    """Changes to the node itself.

    ``sysctls`` are named with dots ("kernel.sched_core"); ``files`` are whole files
    by absolute path, for agents that read them.
    """

    sysctls: Mapping[str, str] = field(default_factory=dict)
    files: Mapping[str, str] = field(default_factory=dict)
    traffic: Traffic | None = None
    why: str = ""
    ignored: tuple[str, ...] = ()


AnyPatch = TypeVar("AnyPatch", Patch, NodePatch)


@dataclass(frozen=True, slots=True)
class Conflict:
    """One field that several owners want set to different values."""

    field: str
    desired: tuple[tuple[str, object], ...]

    def __str__(self) -> str:
        wanted = ", ".join(f"{owner} wants {value!r}" for owner, value in self.desired)
        return f"{self.field}: {wanted}"


def merge(
    patches: Iterable[tuple[str, AnyPatch]], kind: type[AnyPatch]
) -> tuple[AnyPatch, tuple[Conflict, ...]]:
    """One patch out of many, whatever their order; ``kind`` is theirs.

    A field that two owners want set to different values is left as it was and
    returned as a conflict: the order of plugins never decides.
    """
    patches = list(patches)
    if len(patches) == 1:
        # Nobody to disagree with: the usual case, on the path of a call.
        [(owner, patch)] = patches
        return (replace(patch, why=f"{owner}: {patch.why}") if patch.why else patch), ()
    claimed: dict[tuple[str, str], list[tuple[str, object]]] = {}
    for owner, patch in patches:
        for key, value in claims(patch):
            claimed.setdefault(key, []).append((owner, value))
    agreed: dict[str, dict[str, object]] = {}
    conflicts = []
    for (group, name), wanted in claimed.items():
        if all(value == wanted[0][1] for _, value in wanted):
            agreed.setdefault(group, {})[name] = wanted[0][1]
        else:
            ordered = tuple(sorted(wanted, key=lambda pair: pair[0]))
            conflicts.append(Conflict(field_name(group, name), ordered))
    conflicts.sort(key=lambda conflict: conflict.field)
    why = "; ".join(sorted(f"{owner}: {patch.why}" for owner, patch in patches if patch.why))
    ignored = tuple(sorted({line for _, patch in patches for line in patch.ignored}))
    return _patch(kind, agreed, why, ignored), tuple(conflicts)


def checked(patch: object, kind: type[AnyPatch]) -> AnyPatch:
    """The patch, if it is one of that kind that every transport can carry.

    Raises:
        TypeError: it is not such a patch, or a value in it is not of its field's type.
        ValueError: a number does not fit its field, or a text is not Unicode.
    """
    if not isinstance(patch, kind):
        raise TypeError(f"returned {type(patch).__name__}; expected a {kind.__name__} or None")
    for (group, name), value in claims(patch):
        allowed = _kind(group, name)
        if not isinstance(value, allowed) or isinstance(value, bool) or not isinstance(name, str):
            expected = " or ".join(kind.__name__ for kind in allowed)
            raise TypeError(f"{field_name(group, name)} is {value!r}; expected {expected}")
        least = 0 if group == "hugepage_limits" else -_INT64
        if isinstance(value, int) and not least <= value < _INT64:
            raise ValueError(f"{field_name(group, name)} is {value}; expected a 64-bit number")
        for text in (name, value):
            if isinstance(text, str):
                text.encode()
    return patch


_INT64 = 1 << 63
# Fields that hold a value by name, and fields that hold one value, by their types.
_MAPS: dict[str, tuple[type, ...]] = {
    "labels": (str,),
    "annotations": (str,),
    "env": (str,),
    "mounts": (Mount,),
    "devices": (Device,),
    "knobs": (int, str),
    "sysctls": (str,),
    "files": (str,),
}
_ONES: dict[str, tuple[type, ...]] = {
    "cgroup_parent": (str,),
    "core_sched": (CoreSchedGroup,),
    "resctrl": (ResctrlLimits,),
    "traffic": (Traffic,),
}


def _kind(group: str, name: str) -> tuple[type, ...]:
    if group in ("hugepage_limits", "unified"):
        return (int,) if group == "hugepage_limits" else (str,)
    if group == "resources":
        return (str,) if name in TEXTS else (int,)
    return _MAPS.get(group) or _ONES[group]


def field_name(group: str, name: str) -> str:
    """A field as conflicts name it."""
    return f"{group}[{name}]" if name else group


def claims(patch: Patch | NodePatch) -> Iterator[tuple[tuple[str, str], object]]:
    """The fields that are set: what each belongs to, its name there ("" for one alone), its value.

    Limits belong to "resources".
    """
    for group in _MAPS_OF[type(patch)]:
        for name, value in getattr(patch, group).items():
            yield (group, name), value
    for group in _ONES_OF[type(patch)]:
        value = getattr(patch, group)
        if value is not None:
            yield (group, ""), value
    if isinstance(patch, Patch):
        yield from _resource_claims(patch.resources)


def _resource_claims(resources: LinuxResources) -> Iterator[tuple[tuple[str, str], object]]:
    for name in SCALARS:
        value = getattr(resources, name)
        if value is not None:
            yield ("resources", name), value
    for name, limit in resources.hugepage_limits.items():
        yield ("hugepage_limits", name), limit
    for name, value in resources.unified.items():
        yield ("unified", name), value


def _patch(
    kind: type[AnyPatch],
    agreed: Mapping[str, Mapping[str, Any]],
    why: str,
    ignored: tuple[str, ...],
) -> AnyPatch:
    given: dict[str, Any] = {group: agreed.get(group, {}) for group in _MAPS_OF[kind]}
    given |= {group: agreed[group][""] for group in _ONES_OF[kind] if group in agreed}
    if kind is Patch:
        given["resources"] = LinuxResources(
            **agreed.get("resources", {}),
            hugepage_limits=agreed.get("hugepage_limits", {}),
            unified=agreed.get("unified", {}),
        )
    return kind(**given, why=why, ignored=ignored)


def _named(kind: type, among: Mapping[str, object]) -> tuple[str, ...]:
    return tuple(field.name for field in fields(kind) if field.name in among)


_MAPS_OF = {kind: _named(kind, _MAPS) for kind in (Patch, NodePatch)}
_ONES_OF = {kind: _named(kind, _ONES) for kind in (Patch, NodePatch)}
