"""The commands of ``koordctl``: their names, texts, examples and arguments."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import TypeAlias

from koord_model.version import describe_version
from koord_service.help_text import HelpFormatter, example

from koordctl.output.result import Command, add_output
from koordctl.parser import CommandParser

PROGRAM = "koordctl"
_DESCRIPTION = (
    "Shows what koordlet and koord-runtime-proxy do on this node, and what koord-manager, "
    "koord-scheduler and koord-descheduler decide for the cluster. Only restore, hooks remove, "
    "crds install, drain and rollout pause, resume and undo change anything. Exit codes: 0 "
    "success; 1 what was asked for is not there, nobody answers, or a check failed; 2 invalid "
    "arguments; 130 interrupted."
)

_Commands: TypeAlias = "argparse._SubParsersAction[CommandParser]"  # noqa: SLF001
_NONE = "-"
_AddArguments = Callable[[CommandParser], None]
_Add: TypeAlias = Callable[["_Commands", str, str], None]


def parser(only: str = "") -> CommandParser:
    """The parser of all commands; with ``only`` of that one, and of the others but their names.

    Modules of commands are imported when their arguments are added, which takes most of the time.
    """
    root = CommandParser(
        prog=PROGRAM,
        description=_DESCRIPTION,
        epilog=example("koordctl status", "koordctl why pod shop/web-0"),
        formatter_class=HelpFormatter,
        allow_abbrev=False,
    )
    root.add_argument("--version", action="version", version=describe_version(PROGRAM))
    commands = root.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for name, (words, add) in _COMMANDS.items():
        if only in (name, ""):
            add(commands, name, words)
        else:
            commands.add_parser(name, help=words)
    return root


def chosen(arguments: Sequence[str]) -> str:
    """The command that arguments begin with; "" if that needs all of them, as their help does."""
    first = next(iter(arguments), "")
    return first if first in _COMMANDS else _NONE if first in ("--help", "-h", "--version") else ""


def _add_status(commands: _Commands, name: str, words: str) -> None:
    from koordctl import proxy_documents, status

    shown = _command(commands, name, status.run, words, "status", status.DESCRIPTION)
    status.add_arguments(shown)
    proxy_documents.add_address(shown)


def _add_doctor(commands: _Commands, name: str, words: str) -> None:
    from koordctl import proxy_documents
    from koordctl.doctor import command as doctor

    checked = _command(commands, name, doctor.run, words, "doctor node", doctor.DESCRIPTION)
    doctor.add_arguments(checked)
    proxy_documents.add_address(checked)


def _add_pods(commands: _Commands, name: str, words: str) -> None:
    from koordctl import pods

    _command(commands, name, pods.run, words, "pods --unmanaged", add=pods.add_arguments)


def _add_hooks(commands: _Commands, name: str, words: str) -> None:
    from koordctl import hooks, proxy_documents

    below = _group(commands, name, words, "hooks list")
    words = f"{words}, and the state of each registration"
    _command(below, "list", hooks.run_list, words, "hooks list", add=proxy_documents.add_address)
    _command(
        below,
        "remove",
        hooks.run_remove,
        "deregister a hook server that will not come back",
        "hooks remove my-hooks",
        "Deregisters a hook server that will not come back. The proxy keeps waiting for one that "
        "only stops: under the policy Fail it refuses calls until the server is back, under Ignore "
        "it lets them pass and the server applies what it missed once it is back.",
        add=hooks.add_remove,
    )


def _add_restore(commands: _Commands, name: str, words: str) -> None:
    from koordctl import restore_command

    _command(
        commands,
        name,
        restore_command.run,
        words,
        "restore --dry-run",
        "Restores kernel files to the values that they held before koordlet's first change, in "
        "cgroups that still exist. Stop koordlet first.",
        add=restore_command.add_arguments,
    )


def _add_top(commands: _Commands, name: str, words: str) -> None:
    from koordctl import koordlet_client, top

    shown = _command(commands, name, top.run, words, "top --sort=memory", add=top.add_arguments)
    koordlet_client.add_address(shown)


def _add_node(commands: _Commands, name: str, words: str) -> None:
    from koordctl import koordlet_client, node

    _command(commands, name, node.run, words, "node", add=koordlet_client.add_address)


def _add_events(commands: _Commands, name: str, words: str) -> None:
    from koordctl import events, koordlet_client

    description, call = f"Shows {words}, newest first.", "events -n 50 --pod shop/web-0"
    add = events.add_arguments
    seen = _command(commands, name, events.run, words, call, description, add=add)
    koordlet_client.add_address(seen)


def _add_metrics(commands: _Commands, name: str, words: str) -> None:
    from koordctl import koordlet_client, metrics

    below = _group(commands, name, words, "metrics kinds")
    measured = _command(
        below,
        "query",
        metrics.run_query,
        "aggregates and a sparkline of each series of a metric",
        "metrics query pod_cpu_usage --window=5m",
        "Shows aggregates of each series of a metric, and a sparkline that runs from 0 to the "
        "maximum of the series.",
        add=metrics.add_arguments,
    )
    koordlet_client.add_address(measured)
    words, add = "metrics with their units and labels", koordlet_client.add_address
    _command(below, "kinds", metrics.run_kinds, words, "metrics kinds", add=add)


def _add_why(commands: _Commands, name: str, words: str) -> None:
    description = (
        f"Shows {words}. suppress, pod, evicted, cgroup and strategies ask koordlet, on its node; "
        "all others ask the cluster."
    )
    calls = ("why pod shop/web-0", "why pending shop/web-0")
    below = _group(commands, name, words, *calls, description=description)
    _add_why_koordlet(below)
    _add_why_cluster(below)


def _add_why_koordlet(below: _Commands) -> None:
    from koordctl import koordlet_client, why

    for name, run, add, words, call in (
        (
            *("suppress", why.run_suppress, why.add_history),
            *("how the CPU of best-effort pods was calculated", "suppress --history=3"),
        ),
        (
            *("pod", why.run_pod, why.add_pod),
            *("hook changes, cgroup values and decisions for a pod", "pod shop/web-0"),
        ),
        (
            *("evicted", why.run_evicted, why.add_evicted),
            *("why pods were evicted", "evicted batch/spark-exec-9"),
        ),
        (
            *("cgroup", why.run_cgroup, why.add_cgroup),
            *("desired values of a cgroup, and decisions about it", "cgroup kubepods/besteffort"),
        ),
        (
            *("strategies", why.run_strategies, lambda _: None),
            *("state and latest decision of each strategy", "strategies"),
        ),
    ):
        koordlet_client.add_address(_command(below, name, run, words, f"why {call}", add=add))


def _add_why_cluster(below: _Commands) -> None:
    from koordctl import descheduler, why_node, why_scheduling, why_service, why_tide

    for resource in (*why_node.RESOURCES, "node"):
        words = f"how the {resource} of a node was calculated"
        if resource == "node":
            words = "how batch and mid resources, ratios and devices of a node were calculated"
        call = f"why {resource} node-7"
        offered = _command(below, resource, why_node.run, words, call, add=why_node.add_arguments)
        offered.set_defaults(resource=resource)
    for name, run, add, words, call in (
        (
            *("service", why_service.run, why_service.add_arguments),
            *("the profiles of a service, and its pods and nodes", "service shop/web"),
        ),
        (
            *("resize", why_node.run_resize, why_node.add_resize_arguments),
            *("why pods are resized by a Recommendation, or are not", "resize shop/web"),
        ),
        (
            *("pending", why_scheduling.run_pending, why_scheduling.add_arguments),
            *("why a pod waits for a node, and which nodes come nearest", "pending shop/web-0"),
        ),
        (
            *("scheduled", why_scheduling.run_scheduled, why_scheduling.add_arguments),
            *(
                "how a pod's node would be judged now, beside the best nodes",
                "scheduled shop/web-0",
            ),
        ),
        (
            *("moved", descheduler.run_why, descheduler.add_why),
            *("why koord-descheduler moved a pod, or left it there", "moved shop/web-0"),
        ),
        (
            *("tide", why_tide.run, why_tide.add_arguments),
            *("on which side of its TideNodePool a node is, and why it stays", "tide node-7"),
        ),
    ):
        _command(below, name, run, words, f"why {call}", add=add)


def _add_predict(commands: _Commands, name: str, words: str) -> None:
    from koordctl import backtest_options, koordlet_client, predict_show

    below = _group(commands, name, words, "predict show")
    words = "predicted peaks, and usage percentiles of the node and its pods"
    add = predict_show.add_arguments
    shown = _command(below, "show", predict_show.run, words, "predict show -n 10", add=add)
    koordlet_client.add_address(shown)
    _command(
        below,
        "backtest",
        backtest_options.run,
        "prediction errors on a trace of recorded usage",
        "predict backtest usage.csv.gz",
        backtest_options.DESCRIPTION,
        add=backtest_options.add_arguments,
    )


def _add_crds(commands: _Commands, name: str, words: str) -> None:
    from koordctl import crds

    below = _group(commands, name, words, "crds show", description=f"Shows or installs {words}.")
    _command(below, "show", crds.run_show, f"{words}, as YAML", "crds show")
    _command(
        below,
        "install",
        crds.run_install,
        "create or update the definitions in the cluster",
        "crds install --dry-run",
        "Creates definitions that the cluster lacks, and updates those that differ.",
        add=crds.add_install,
    )


def _add_quota(commands: _Commands, name: str, words: str) -> None:
    from koordctl import quota

    below = _group(commands, name, words, "quota tree", description=f"Shows or converts {words}.")
    words = "what quotas use, may use, and borrow"
    _command(below, "tree", quota.run_tree, words, "quota tree", add=quota.add_tree)
    _command(
        below,
        "convert",
        quota.run_convert,
        "ElasticQuotas of scheduler-plugins as Koordinator's, or back",
        "quota convert quotas.yaml",
        "Converts ElasticQuotas of scheduler-plugins to Koordinator's, or back.",
        add=quota.add_convert,
    )


def _add_descheduler(commands: _Commands, name: str, words: str) -> None:
    from koordctl import descheduler

    below = _group(commands, name, words, "descheduler plan")
    words = "the next round: pods that would move and where to, and pods that stay and why"
    add = descheduler.add_plan
    _command(below, "plan", descheduler.run_plan, words, "descheduler plan", add=add)
    words, call = "why a pod was moved, or stays where it is", "descheduler why shop/web-0"
    _command(below, "why", descheduler.run_why, words, call, add=descheduler.add_why)


def _add_rollout(commands: _Commands, name: str, words: str) -> None:
    from koordctl import rollout

    description = f"Shows or steers {words}."
    below = _group(commands, name, words, "rollout status", description=description)
    for name, run, words, call in (
        (
            *("status", rollout.run_status),
            *("versions, nodes that have them, and what is paused", "status"),
        ),
        (
            *("pause", rollout.run_pause),
            *("have the nodes of an entry keep what they have", "pause offload --reason=slow"),
        ),
        (
            *("resume", rollout.run_resume),
            *("end a pause, and accept the version", "resume offload"),
        ),
        (
            *("undo", rollout.run_undo),
            *("give an entry the content that it had before", "undo offload"),
        ),
        (
            *("history", rollout.run_history),
            *("versions of an entry, when they came and by whom", "history offload"),
        ),
        (
            *("report", rollout.run_report),
            *("what an entry gains and costs, by nodes like its canaries", "report offload"),
        ),
    ):
        sentence = f"{words[0].upper()}{words[1:]}."
        made = _command(below, name, run, words, f"rollout {call}", sentence)
        rollout.add_arguments(made, names="?" if name == "status" else "")
        if name == "pause":
            rollout.add_reason(made)
        if name == "undo":
            rollout.add_version(made)


def _add_completion(commands: _Commands, name: str, words: str) -> None:
    from koordctl import completion

    call = "completion bash > /etc/bash_completion.d/koordctl"
    description = f"Prints {words}; a script has no other formats, so there is no -o."
    script = _parser(commands, name, words, call, description=description)
    script.add_argument("shell", choices=completion.SHELLS)
    script.set_defaults(command=completion.run)


def _of_module(module: str, call: str) -> _Add:
    """Add the only command of a module, which has its arguments, and its DESCRIPTION if any."""

    def add(commands: _Commands, name: str, words: str) -> None:
        found = import_module(f"koordctl.{module}")
        description = getattr(found, "DESCRIPTION", "")
        _command(commands, name, found.run, words, call, description, add=found.add_arguments)

    return add


def _group(
    commands: _Commands, name: str, words: str, *calls: str, description: str = ""
) -> _Commands:
    """The commands below a name."""
    parser = _parser(commands, name, words, *calls, description=description)
    return parser.add_subparsers(title="commands", metavar="COMMAND", required=True)


def _command(
    commands: _Commands,
    name: str,
    command: Command,
    words: str,
    call: str,
    description: str = "",
    *,
    add: _AddArguments | None = None,
) -> CommandParser:
    """A command, whose example is ``call``."""
    parser = _parser(commands, name, words, call, description=description)
    parser.set_defaults(command=command)
    if add is not None:
        add(parser)
    add_output(parser)
    return parser


def _parser(
    commands: _Commands, name: str, words: str, *calls: str, description: str = ""
) -> CommandParser:
    return commands.add_parser(
        name,
        help=words,
        description=description or f"Shows {words}.",
        epilog=example(*(f"{PROGRAM} {call}" for call in calls)),
        formatter_class=HelpFormatter,
        allow_abbrev=False,
    )


_COMMANDS: Mapping[str, tuple[str, _Add]] = {
    "status": (
        "versions, health and leaders of all programs, of this node and of the cluster",
        _add_status,
    ),
    "doctor": ("what is wrong with a node or a cluster, and the way out", _add_doctor),
    "pods": ("pods and containers, the hooks that they missed, and why", _add_pods),
    "hooks": ("hook servers registered with the proxy", _add_hooks),
    "top": ("resource usage and contention of node, classes and pods, live", _add_top),
    "node": ("the machine, its usage, and the state of koordlet's collectors", _add_node),
    "events": ("changes and decisions by koordlet on this node, with their reasons", _add_events),
    "metrics": ("recent measurements by koordlet", _add_metrics),
    "why": ("how koordlet or a program of the control plane came to a decision", _add_why),
    "predict": ("predictions by koordlet, and backtests of them", _add_predict),
    "restore": (
        "restore kernel files to their values before koordlet's first change",
        _add_restore,
    ),
    "recommend": (
        "recommended resource requests of workloads, based on their usage",
        _of_module("recommend", "recommend -n shop"),
    ),
    "schedule": (
        "where pods would be placed, and why",
        _of_module("schedule", "schedule --what-if -f pods.yaml"),
    ),
    "reservations": (
        "resources reserved on nodes, and the pods that use them",
        _of_module("reservations", "reservations"),
    ),
    "gangs": (
        "groups of pods that start together, and what they wait for",
        _of_module("gangs", "gangs shop/train"),
    ),
    "devices": (
        "GPUs and other devices of nodes, and the pods that have them",
        _of_module("devices", "devices node-7"),
    ),
    "descheduler": ("moves of pods by koord-descheduler", _add_descheduler),
    "defrag": (
        "moves that would make room for what waits, and their price",
        _of_module("defrag", "defrag --plan"),
    ),
    "drain": (
        "empty a node: plan, confirm or abort it",
        _of_module("drain", "drain node-7 --plan --reason=kernel"),
    ),
    "rollout": ("rollouts of settings to nodes", _add_rollout),
    "migrations": (
        "pods that leave their nodes, where to, and why some do not",
        _of_module("migrations", "migrations --under-way"),
    ),
    "crds": ("custom resource definitions", _add_crds),
    "quota": ("elastic quotas", _add_quota),
    "completion": ("a script by which a shell completes commands and flags", _add_completion),
}
"""The commands by name: a line about each, and what adds it."""
