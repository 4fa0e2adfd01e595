"""The ``schemata`` file: what groups ask for, a resource a line."""

from __future__ import annotations

from collections.abc import Iterable

from tests.support.fake_resctrl.group import Group
from tests.support.fake_resctrl.resources import Bandwidth, Cache, Refused, Resource


def show(group: Group, resources: list[Resource], name_width: int, width: int) -> str:
    """The file as the kernel prints it; ``width`` 0 is without padding."""
    lines = []
    for resource in resources:
        values = group.values[resource.name]
        parts = (f"{at}={resource.show(values[at], width)}" for at in resource.domains)
        lines.append(f"{resource.name:>{name_width}}:{';'.join(parts)}\n")
    return "".join(lines)


def write(group: Group, text: str, resources: list[Resource], others: Iterable[Group]) -> None:
    """Take every line, or none of them.

    Raises:
        Refused: with what ``info/last_cmd_status`` then says, which may be nothing.
    """
    staged: dict[tuple[str, int], int] = {}
    others = list(others)
    for line in text.removesuffix("\n").split("\n"):
        name, colon, rest = line.partition(":")
        name = name.strip()
        if not colon:
            raise Refused("Missing ':'\n")
        if not rest:
            raise Refused(f"Missing '{name}' value\n")
        _stage(group, _resource(name, resources), rest, staged, others)
    for (name, domain), value in staged.items():
        group.values[name][domain] = value


def _resource(name: str, resources: list[Resource]) -> Resource:
    for resource in resources:
        if resource.name == name:
            return resource
    raise Refused(f"Unknown or unsupported resource name '{name}'\n")


def _stage(
    group: Group,
    resource: Resource,
    rest: str,
    staged: dict[tuple[str, int], int],
    others: list[Group],
) -> None:
    while rest:
        part, _, rest = rest.partition(";")
        domain, value = _split(part)
        if domain not in resource.domains:
            raise Refused("")  # the kernel says EINVAL, and nothing more
        if isinstance(resource, Bandwidth) and resource.kind == "mbps":
            # Done by software, at once: a bad line further on does not undo it.
            group.values[resource.name][domain] = resource.parse(value)
            continue
        if (resource.name, domain) in staged:
            raise Refused(f"Duplicate domain {domain}\n")
        wanted = resource.parse(value)
        if isinstance(resource, Cache):
            _check_exclusive(group, resource, domain, wanted, others)
        staged[resource.name, domain] = wanted


def _split(part: str) -> tuple[int, str]:
    domain, equals, value = part.partition("=")
    digits = domain.removeprefix("+")
    if not equals or not (digits.isascii() and digits.isdigit()):
        raise Refused("Missing '=' or non-numeric domain\n")
    return int(digits), value.strip()


def peers(resource: Cache) -> tuple[str, ...]:
    """The resource and, where code and data are distinguished, the other half of it."""
    for mine, other in (("CODE", "DATA"), ("DATA", "CODE")):
        if resource.name.endswith(mine):
            return (resource.name, resource.name.removesuffix(mine) + other)
    return (resource.name,)


def overlaps(resource: Cache, domain: int, mask: int, other: Group) -> bool:
    return any(mask & other.values[name][domain] for name in peers(resource))


def _check_exclusive(
    group: Group, resource: Cache, domain: int, mask: int, others: list[Group]
) -> None:
    for other in others:
        if not overlaps(resource, domain, mask, other):
            continue
        if other.mode == "exclusive":
            raise Refused("Overlaps with exclusive group\n")
        if group.mode == "exclusive":
            raise Refused("Overlaps with other group\n")
