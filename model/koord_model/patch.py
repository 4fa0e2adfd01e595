"""What hooks want changed, and how the wishes of several become one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from koord_model.resources import SCALARS, TEXTS, LinuxResources


@dataclass(frozen=True, slots=True)
class Patch:
    """Changes one hook wants; an unset field means "leave it".

    ``why`` is the arithmetic in one line, for people: "batch-cpu 500m →
    cpu.shares 512".
    """

    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    env: Mapping[str, str] = field(default_factory=dict)
    cgroup_parent: str | None = None
    resources: LinuxResources = LinuxResources()
    why: str = ""


@dataclass(frozen=True, slots=True)
class Conflict:
    """One field that several owners want set to different values."""

    field: str
    wishes: tuple[tuple[str, object], ...]

    def __str__(self) -> str:
        wanted = ", ".join(f"{owner} wants {value!r}" for owner, value in self.wishes)
        return f"{self.field}: {wanted}"


def merge(wishes: Iterable[tuple[str, Patch]]) -> tuple[Patch, tuple[Conflict, ...]]:
    """One patch out of many, whatever their order.

    A field that two owners want set to different values is left as it was and
    returned as a conflict: the order of plugins never decides.
    """
    wishes = list(wishes)
    if len(wishes) == 1:
        # Nobody to disagree with: the usual case, on the path of a call.
        [(owner, patch)] = wishes
        return (replace(patch, why=f"{owner}: {patch.why}") if patch.why else patch), ()
    claims: dict[tuple[str, str], list[tuple[str, object]]] = {}
    reasons: list[str] = []
    for owner, patch in wishes:
        for key, value in _claims(patch):
            claims.setdefault(key, []).append((owner, value))
        if patch.why:
            reasons.append(f"{owner}: {patch.why}")
    agreed: dict[str, dict[str, object]] = {}
    conflicts = []
    for (group, name), wanted in claims.items():
        if all(value == wanted[0][1] for _, value in wanted):
            agreed.setdefault(group, {})[name] = wanted[0][1]
        else:
            ordered = tuple(sorted(wanted, key=lambda wish: wish[0]))
            conflicts.append(Conflict(_shown(group, name), ordered))
    conflicts.sort(key=lambda conflict: conflict.field)
    return _patch(agreed, "; ".join(sorted(reasons))), tuple(conflicts)


def checked(wish: object) -> Patch:
    """The wish, if it is a patch that every transport can carry.

    Raises:
        TypeError: it is no patch, or a value in it is not of its field's type.
        ValueError: a number does not fit its field, or a text is no Unicode.
    """
    if not isinstance(wish, Patch):
        raise TypeError(f"returned {type(wish).__name__}; expected a Patch or None")
    for (group, name), value in _claims(wish):
        kind = _kind(group, name)
        if not isinstance(value, kind) or isinstance(value, bool) or not isinstance(name, str):
            raise TypeError(f"{_shown(group, name)} is {value!r}; expected {kind.__name__}")
        least = 0 if group == "hugepage_limits" else -_INT64
        if isinstance(value, int) and not least <= value < _INT64:
            raise ValueError(f"{_shown(group, name)} is {value}; expected a 64-bit number")
        for text in (name, value):
            if isinstance(text, str):
                text.encode()
    return wish


_INT64 = 1 << 63
_MAPS = ("labels", "annotations", "env")


def _kind(group: str, name: str) -> type:
    number = group == "hugepage_limits" or (group == "resources" and name not in TEXTS)
    return int if number else str


def _shown(group: str, name: str) -> str:
    return f"{group}[{name}]" if name else group


def _claims(patch: Patch) -> Iterator[tuple[tuple[str, str], object]]:
    for group in _MAPS:
        for name, value in getattr(patch, group).items():
            yield (group, name), value
    if patch.cgroup_parent is not None:
        yield ("cgroup_parent", ""), patch.cgroup_parent
    for name in SCALARS:
        value = getattr(patch.resources, name)
        if value is not None:
            yield ("resources", name), value
    for name, limit in patch.resources.hugepage_limits.items():
        yield ("hugepage_limits", name), limit
    for name, value in patch.resources.unified.items():
        yield ("unified", name), value


def _patch(agreed: Mapping[str, Mapping[str, object]], why: str) -> Patch:
    resources = LinuxResources(
        **agreed.get("resources", {}),  # type: ignore[arg-type]
        hugepage_limits=agreed.get("hugepage_limits", {}),  # type: ignore[arg-type]
        unified=agreed.get("unified", {}),  # type: ignore[arg-type]
    )
    maps = {group: agreed.get(group, {}) for group in _MAPS}
    parent = agreed.get("cgroup_parent", {}).get("")
    return Patch(**maps, cgroup_parent=parent, resources=resources, why=why)  # type: ignore[arg-type]
