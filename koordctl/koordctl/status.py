"""``koordctl status``: the state of all programs of this node and of the cluster."""

from __future__ import annotations

import argparse
import datetime
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from koordctl import cluster_client, koordlet_client, render
from koordctl.doctor.check_results import CheckResult, Level
from koordctl.errors import AskError
from koordctl.output.documents import from_value
from koordctl.output.result import CommandOutput
from koordctl.output.tables import Block
from koordctl.places import CLUSTER, NODE, add_place, places
from koordctl.program_state import ProgramHealth, ProgramState, state_blocks

if TYPE_CHECKING:
    from koordctl.doctor.node_survey import NodeSurvey

DESCRIPTION = (
    "Shows version, health, start and leader of each program: of this node its proxy, koordlet "
    "and device daemon, and of the cluster that the kubeconfig names also manager, scheduler and "
    "descheduler; then what is degraded, and where to look on. A node needs the proxy or NRI. "
    "Exit code 1: no hooks are called on this node, the cluster does not answer, or a program of "
    "the cluster has no leader."
)
NO_HOOKS = (
    "no hooks are called on this node: the proxy does not answer, and koordlet is not connected "
    "to NRI"
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The flags of ``koordctl status`` beside the proxy's address."""
    add_place(parser)
    parser.add_argument("--cluster", action="store_true", help="show the cluster in any case")
    koordlet_client.add_arguments(parser)
    cluster_client.add_namespace(parser, "namespace of manager, scheduler and descheduler")
    cluster_client.add_arguments(parser)


def run(arguments: argparse.Namespace) -> CommandOutput:
    """Show what answers.

    Raises:
        UsageError: an address is not valid.
    """
    shown = places(arguments) or [NODE]
    if arguments.cluster and CLUSTER not in shown:
        shown.append(CLUSTER)
    states: list[ProgramState] = []
    document: dict[str, Any] = {}
    details: list[Block] = []
    problems: list[str] = []
    for place in shown:
        read = _node if place == NODE else _cluster
        found, problem, more = read(arguments, document)
        states += found
        problems += [problem] if problem else []
        details += more
    whole = {"programs": from_value(states), **document}
    return CommandOutput(
        whole, [*state_blocks(states, time.time()), *details], "; ".join(problems) or None
    )


def _node(
    arguments: argparse.Namespace, document: dict[str, Any]
) -> tuple[list[ProgramState], str, list[Block]]:
    # Imported late: the kernel's knobs cost a tenth of a second.
    from koordctl.doctor.node_survey import read_node
    from koordctl.node_status import calls_hooks, node_states

    survey = read_node(arguments.kernel(), arguments.address, arguments.koordlet_address)
    for name, answer in (("proxy", survey.proxy), ("koordlet", survey.koordlet)):
        if answer is not None:
            document[name] = from_value(answer)
    states = node_states(survey, list(_device_files()))
    problem = "" if calls_hooks(survey) else NO_HOOKS
    return states, problem, list(_node_details(survey, arguments))


def _node_details(survey: NodeSurvey, arguments: argparse.Namespace) -> Iterator[Block]:
    if survey.proxy is not None:
        yield ""
        yield from render.status_lines(survey.proxy, arguments.address)
    if survey.koordlet is not None:
        yield ""
        yield from render.koordlet_lines(survey.koordlet, arguments.koordlet_address)


def _device_files() -> Iterator[CheckResult]:
    """Results about the files of the device daemon, none if there are no files."""
    from koordctl import local_devices

    about, directory = "koord-device-daemon", local_devices.DIRECTORY
    try:
        devices = list(local_devices.described(directory, time.time()))
    except AskError as error:
        yield CheckResult(Level.WARNING, about, str(error))
        return
    stale = [device for device in devices if (device.get("status") or {}).get("errCode") == "Stale"]
    if stale:
        text = str(stale[0]["status"]["errMessage"])
        way = "journalctl -u koord-device-daemon, or the log of its pod"
        yield CheckResult(Level.PROBLEM, about, f"its devices: {text}", way)
    elif devices:
        yield CheckResult(Level.OK, about, f"describes {render.count(len(devices), 'device')}")


def _cluster(
    arguments: argparse.Namespace, document: dict[str, Any]
) -> tuple[list[ProgramState], str, list[Block]]:
    from koordctl.cluster_status import ask_programs, cluster_states

    try:
        found = ask_programs(arguments)
    except AskError as error:
        return [], f"the cluster does not answer: {error}", []
    now = datetime.datetime.now(datetime.UTC)
    states = cluster_states(found, arguments.namespace, now)
    down = [state.program for state in states if state.health is ProgramHealth.DOWN]
    document["leases"], document["unread"] = dict(found.leases), list(found.errors)
    unread: list[Block] = [f"not read: {render.clean(error)}" for error in found.errors]
    return states, f"no leader: {', '.join(down)}" if down else "", unread
