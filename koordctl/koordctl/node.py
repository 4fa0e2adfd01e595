"""``koordctl node``: the machine, and the state of what observes it."""

from __future__ import annotations

import argparse
import datetime
from collections.abc import Iterator

from koordctl.amounts import UNKNOWN, cores, memory, share
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
from koordctl.output.documents import from_page
from koordctl.output.result import CommandOutput
from koordctl.output.tables import Block, table, warning
from koordctl.render import clean, count
from koordctl.top import psi_words

_ON = {True: "on", False: "off"}


def run(arguments: argparse.Namespace) -> CommandOutput:
    """Run ``koordctl node``.

    Raises:
        AskError: koordlet does not answer, or with something else.
    """
    body, node = ask_koordlet(arguments.address, "/v1/node", NodeDocument)
    return CommandOutput(from_page(body, NodeDocument), node_lines(node))


def node_lines(node: NodeDocument, zone: datetime.tzinfo | None = None) -> Iterator[Block]:
    """The machine, its use, the metric cache, states, reports, jobs and collectors."""
    when = datetime.datetime.fromtimestamp(node.at, datetime.UTC).astimezone(zone)
    release = f", koordlet {clean(node.version)}" if node.version else ""
    yield f"{clean(node.node) or 'this node'} at {when:%Y-%m-%d %H:%M:%S}{release}"
    if node.dry_run:
        yield warning("DRY RUN: koordlet decides everything, and writes and reports nothing")
    if node.read_only:
        yield "read-only: koordlet changes nothing here, answers no hook calls, reports nothing"
    yield ""
    yield from _usage(node)
    if node.numa:
        yield ""
        rows = [
            (
                str(zone.id),
                str(zone.cpus),
                cores(zone.cpu_used),
                share(zone.cpu_used, zone.cpus),
                memory(zone.memory_used),
                memory(zone.memory),
                share(zone.memory_used, zone.memory),
            )
            for zone in node.numa
        ]
        yield table([("NUMA", "CPUS", "USED", "%", "MEMORY", "TOTAL", "%"), *rows], words=(0,))
    if node.states:
        yield ""
        states = [_state(name, state) for name, state in node.states.items()]
        yield table([("STATE", "AGE", "PROBLEM"), *states], words=(0, 2))
    if node.reports:
        yield ""
        header = ("REPORT", "CHANNEL", "AGE", "SENT", "FAILED", "PROBLEM")
        reports = [_report(name, report) for name, report in node.reports.items()]
        yield table([header, *reports], words=(0, 1, 5))
    if node.jobs:
        yield ""
        jobs = [_job(job) for job in node.jobs]
        yield table(
            [("JOB", "STATE", "AGE", "DEADLINE", "TARGET", "OWNER"), *jobs], words=(0, 1, 4, 5)
        )
    yield ""
    if not node.collectors:
        yield "No collectors."
        return
    header = ("COLLECTOR", "STATE", "INTERVAL", "DURATION", "SAMPLES", "REASON")
    collectors = [_collector(collector) for collector in node.collectors]
    yield table([header, *collectors], words=(0, 1, 5))


def _usage(node: NodeDocument) -> Iterator[Block]:
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


def _report(name: str, report: ReportRow) -> tuple[str, ...]:
    way = f"{report.way} {report.leader}".strip()
    return (
        clean(name),
        clean(way) or UNKNOWN,
        _age(report.age_seconds),
        str(sum(report.sent.values())),
        str(report.failures),
        clean(report.problem),
    )


def _job(job: JobRow) -> tuple[str, ...]:
    return (
        clean(job.job),
        clean(job.state),
        _age(job.age_seconds),
        _age(job.deadline_seconds),
        clean(job.target) or UNKNOWN,
        clean(job.owner) or UNKNOWN,
    )


def _age(seconds: float | None) -> str:
    return UNKNOWN if seconds is None else f"{seconds:.0f} s"


def _collector(collector: CollectorRow) -> tuple[str, ...]:
    return (
        clean(collector.name),
        clean(collector.state),
        f"{collector.interval:g} s",
        f"{1000 * collector.seconds:.1f} ms" if collector.rounds else UNKNOWN,
        str(collector.samples) if collector.rounds else UNKNOWN,
        clean(collector.reason),
    )
