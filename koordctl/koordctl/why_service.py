"""``koordctl why service``: the profiles of a service, and where they have an effect."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping

import msgspec

from koordctl import leader_client
from koordctl.amounts import UNKNOWN
from koordctl.errors import AskError
from koordctl.leader_client import MANAGER_LEADER, ask_leader
from koordctl.output.documents import from_page
from koordctl.output.result import CommandOutput
from koordctl.output.tables import Block, indented, table
from koordctl.proxy_documents import read
from koordctl.render import clean, count

_PAGE = "/v1/why"
_MOST_NODES = 20
_MOST_PODS = 10
_UNITS: Mapping[str, str] = {
    "sched_wait": "ms for each second of CPU used",
    "usage": "of the request",
    "cpi": "cycles for each instruction",
    "psi": "% of the time",
}


class ServiceProfileRow(msgspec.Struct, frozen=True):
    """One profile; ``nodes`` are its pods by node, "" is none."""

    source: str = ""
    workload: str = ""
    in_force: bool = False
    reason: str = ""
    targets: dict[str, float] = {}
    memory_offload: bool | None = None
    baseline_percent: int | None = None
    memory_percent: int | None = None
    weight_cores: float | None = None
    weight_percent: int | None = None
    ignored: list[str] = []
    nodes: dict[str, int] = {}
    baseline: list[str] = []
    memory_baseline: list[str] = []
    weight_baseline: list[str] = []


class ServiceDocument(msgspec.Struct, frozen=True):
    """All profiles of a service; ``reason`` is why there are none."""

    service: str
    reason: str = ""
    profiles: list[ServiceProfileRow] = []
    no_room: list[str] = []


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments for a service and its manager."""
    words = "the service: namespace and name of its profile"
    parser.add_argument("service", type=_service, metavar="NAMESPACE/NAME", help=words)
    leader_client.add_arguments(parser, MANAGER_LEADER)


def run(arguments: argparse.Namespace) -> CommandOutput:
    """Explain a service's profiles. Raises AskError."""
    body = ask_leader(arguments, MANAGER_LEADER, _PAGE, {"service": arguments.service})
    try:
        found = read(body, ServiceDocument)
    except ValueError as error:
        raise AskError(f"koord-manager's answer cannot be read: {error}") from None
    if found.reason:
        raise AskError(clean(found.reason))
    return CommandOutput(from_page(body, ServiceDocument), lines(found))


def lines(found: ServiceDocument) -> Iterator[Block]:
    """A block for each profile, then the nodes without room for it."""
    for number, profile in enumerate(found.profiles):
        if number:
            yield ""
        yield from _profile(found.service, profile)
    if found.no_room:
        yield ""
        yield f"No room in the NodeSLOs of {_listed(found.no_room, _MOST_NODES)}."


def _profile(service: str, profile: ServiceProfileRow) -> Iterator[Block]:
    name = f"{clean(profile.source)} {clean(service)}"
    if not profile.in_force:
        yield f"{name} has no effect: {clean(profile.reason)}"
    else:
        pods, nodes = sum(profile.nodes.values()), len(profile.nodes.keys() - {""})
        where = f"{count(pods, 'pod')} on {count(nodes, 'node')}"
        yield f"{name} is in force for {clean(profile.workload)}: {where}"
    yield from (f"  {line}" for line in _settings(profile))
    yield from (f"  ignored: {clean(line)}" for line in profile.ignored)
    if profile.nodes:
        yield from indented(_nodes(profile.nodes), 4)


def _settings(profile: ServiceProfileRow) -> Iterator[Block]:
    for indicator, target in profile.targets.items():
        unit = _UNITS.get(indicator, "")
        yield f"target {clean(indicator)}: {target:g} {unit}".rstrip()
    if profile.targets:
        yield from _left_alone("targets", profile.baseline_percent, profile.baseline)
    if profile.memory_offload is not None:
        yield f"memory offloading: {'on' if profile.memory_offload else 'off'}"
        yield from _left_alone("offloading", profile.memory_percent, profile.memory_baseline)
    if profile.weight_cores is not None:
        yield f"CPU weight: that of a request for {profile.weight_cores:g} cores"
        yield from _left_alone("the weight", profile.weight_percent, profile.weight_baseline)


def _left_alone(what: str, percent: int | None, pods: list[str]) -> Iterator[Block]:
    if percent:
        named = _listed(pods, _MOST_PODS) if pods else "no pods yet"
        yield f"left alone by {what} ({percent} %): {named}"


def _nodes(nodes: Mapping[str, int]) -> Iterator[Block]:
    rows = [(clean(node) or UNKNOWN, str(pods)) for node, pods in list(nodes.items())[:_MOST_NODES]]
    yield table([("NODE", "PODS"), *rows], words=(0,))
    if len(nodes) > _MOST_NODES:
        yield f"… and {len(nodes) - _MOST_NODES} more (--json shows all)"


def _listed(names: list[str], most: int) -> str:
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(map(clean, names[:most])) + more


def _service(text: str) -> str:
    namespace, _, name = text.partition("/")
    if not namespace or not name or "/" in name:
        raise argparse.ArgumentTypeError(f'"{text}" is not a service; expected NAMESPACE/NAME')
    return text
