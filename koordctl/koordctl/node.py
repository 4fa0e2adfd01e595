"""``koordctl node``: the machine, and the state of what observes it."""

from __future__ import annotations

import argparse
import datetime
from collections.abc import Iterable, Iterator

from koordctl.amounts import UNKNOWN, cores, memory, share
from koordctl.columns import table
from koordctl.koordlet_client import ask_koordlet
from koordctl.koordlet_documents import (
    CollectorRow,
    CPUWeights,
    JobRow,
    MachineInfo,
    NodeDocument,
    ReportRow,
    StateRow,
)
from koordctl.render import clean, count
from koordctl.top import psi_words

_ON = {True: "on", False: "off"}


def run(arguments: argparse.Namespace) -> Iterable[str]:
    """What ``koordctl node`` says.

    Raises:
        AskError: koordlet does not answer, or with something else.
    """
    body, node = ask_koordlet(arguments.address, "/v1/node", NodeDocument)
    return [body.decode().rstrip("\n")] if arguments.json else node_lines(node)


def node_lines(node: NodeDocument, zone: datetime.tzinfo | None = None) -> Iterator[str]:
    """The machine, its use, the metric cache, states, reports, jobs and collectors."""
    when = datetime.datetime.fromtimestamp(node.at, datetime.UTC).astimezone(zone)
    release = f", koordlet {clean(node.version)}" if node.version else ""
    yield f"{clean(node.node) or 'this node'} at {when:%Y-%m-%d %H:%M:%S}{release}"
    if node.read_only:
        yield "read-only: koordlet changes nothing here, answers no hook calls, reports nothing"
    yield ""
    yield from _usage(node)
    if node.numa:
        yield ""
        rows = [
            (
                str(one.id),
                str(one.cpus),
                cores(one.cpu_used),
                share(one.cpu_used, one.cpus),
                memory(one.memory_used),
                memory(one.memory),
                share(one.memory_used, one.memory),
            )
            for one in node.numa
        ]
        yield from table([("NUMA", "CPUS", "USED", "%", "MEMORY", "TOTAL", "%"), *rows], words=(0,))
    if node.states:
        yield ""
        states = [_state(name, one) for name, one in node.states.items()]
        yield from table([("STATE", "AGE", "PROBLEM"), *states], words=(0, 2))
    if node.reports:
        yield ""
        header = ("REPORT", "CHANNEL", "AGE", "SENT", "FAILED", "PROBLEM")
        reports = [_report(name, one) for name, one in node.reports.items()]
        yield from table([header, *reports], words=(0, 1, 5))
    if node.jobs:
        yield ""
        jobs = [_job(one) for one in node.jobs]
        yield from table(
            [("JOB", "STATE", "AGE", "DEADLINE", "TARGET", "OWNER"), *jobs], words=(0, 1, 4, 5)
        )
    yield ""
    if not node.collectors:
        yield "No collectors."
        return
    header = ("COLLECTOR", "STATE", "INTERVAL", "DURATION", "SAMPLES", "REASON")
    collectors = [_collector(one) for one in node.collectors]
    yield from table([header, *collectors], words=(0, 1, 5))


def _usage(node: NodeDocument) -> Iterator[str]:
    whole, usage, cache = node.capacity, node.usage, node.cache
    if node.machine is not None:
        yield f"machine   {_machine(node.machine, whole.cpu)}"
    yield (
        f"CPU       {cores(usage.cpu)} of {cores(whole.cpu)} cores "
        f"({share(usage.cpu, whole.cpu)}), of which system {cores(node.system.cpu)}"
    )
    yield (
        f"memory    {memory(usage.memory)} of {memory(whole.memory)} "
        f"({share(usage.memory, whole.memory)}), of which system {memory(node.system.memory)}"
    )
    yield f"pressure  {psi_words(node.psi)}"
    if node.cpu_weights is not None:
        yield f"weights   {_weights(node.cpu_weights)}"
    for name, peak in (node.peaks or {}).items():
        yield (
            f"peak      {clean(name)}: {cores(peak.get('cpu'))} cores, "
            f"{memory(peak.get('memory'))} predicted"
        )
    problem = f"; {clean(cache.problem)}" if cache.problem else ""
    refused = f", {count(cache.refused, 'sample')} refused" if cache.refused else ""
    yield (
        f"cache     {cache.series} of {cache.capacity} series, {memory(cache.memory_bytes)} "
        f"of memory, {memory(cache.disk_bytes)} on disk{refused}{problem}"
    )


def _machine(machine: MachineInfo, cpus: float | None) -> str:
    words = [
        clean(machine.model) or "CPU of unknown model",
        count(int(cpus or 0), "CPU"),
        count(machine.cores, "core"),
        count(machine.sockets, "socket"),
        count(machine.numa_nodes, "NUMA node"),
    ]
    for name, on in (("SMT", machine.smt), ("turbo", machine.turbo)):
        if on is not None:
            words.append(f"{name} {_ON[on]}")
    return ", ".join(words)


def _weights(found: CPUWeights) -> str:
    if not found.formula:
        return "not known yet how the runtime computes them; linear until a container shows it"
    return (
        f"{clean(found.formula)}: the runtime turned {found.shares} CPU shares into weight "
        f"{found.weight} in {clean(found.group)}"
    )


def _state(name: str, state: StateRow) -> tuple[str, str, str]:
    return clean(name), _age(state.age_seconds), clean(state.problem)


def _report(name: str, one: ReportRow) -> tuple[str, ...]:
    way = f"{one.way} {one.leader}".strip()
    return (
        clean(name),
        clean(way) or UNKNOWN,
        _age(one.age_seconds),
        str(sum(one.sent.values())),
        str(one.failures),
        clean(one.problem),
    )


def _job(one: JobRow) -> tuple[str, ...]:
    return (
        clean(one.job),
        clean(one.state),
        _age(one.age_seconds),
        _age(one.deadline_seconds),
        clean(one.target) or UNKNOWN,
        clean(one.owner) or UNKNOWN,
    )


def _age(seconds: float | None) -> str:
    return UNKNOWN if seconds is None else f"{seconds:.0f} s"


def _collector(one: CollectorRow) -> tuple[str, ...]:
    return (
        clean(one.name),
        clean(one.state),
        f"{one.interval:g} s",
        f"{1000 * one.seconds:.1f} ms" if one.rounds else UNKNOWN,
        str(one.samples) if one.rounds else UNKNOWN,
        clean(one.reason),
    )
