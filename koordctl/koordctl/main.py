"""The ``koordctl`` program: parses arguments, runs one command, prints its lines."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial

import msgspec
from koord_host.kernel import KernelFilesystem
from koord_host.resource_executor.restore import RestoreOutcome
from koord_model.version import describe_version
from koord_service.terminal import (
    exit_with,
    flush,
    printable,
    printable_json,
    write_error,
    write_line,
)

from koordctl import (
    backtest_options,
    crds,
    defrag,
    descheduler,
    devices,
    drain,
    events,
    gangs,
    hooks,
    koordlet_client,
    metrics,
    migrations,
    node,
    predict_show,
    quota,
    recommend,
    render,
    reservations,
    rollout,
    schedule,
    status,
    top,
    why,
    why_node,
    why_scheduling,
    why_service,
    why_tide,
)
from koordctl.backtest_options import BacktestError
from koordctl.doctor import command as doctor
from koordctl.hooks import HooksError
from koordctl.parser import CommandParser
from koordctl.proxy_documents import PodHooks, ask_proxy, unmanaged
from koordctl.replay import UsageError
from koordctl.restore import CGROUPS, STATE, RestoreError, put_back, report_json, report_lines
from koordctl.status_client import AddressError, AskError

PROGRAM = "koordctl"
_INTERRUPTED = 130
"""Exit code, as of shells; the user knows why."""
ADDRESS = "127.0.0.1:9319"
"""Default address of koord-runtime-proxy's status."""


def main(argv: Sequence[str] | None = None) -> None:
    """The console script; exits with 2 on wrong arguments, 1 on failure, 130 on Ctrl-C."""
    arguments = _parser().parse_args(argv)
    command: Callable[[argparse.Namespace], Iterable[str]] = arguments.command
    try:
        made = printable_json if getattr(arguments, "json", False) else printable
        for line in command(arguments):
            write_line(made(line))
        flush()
    except (AddressError, UsageError) as error:
        exit_with(PROGRAM, 2, str(error))
    except (AskError, BacktestError, HooksError, RestoreError) as error:
        exit_with(PROGRAM, 1, str(error))
    except KeyboardInterrupt:
        raise SystemExit(_INTERRUPTED) from None
    except BrokenPipeError:
        # The reader, such as head, has closed the pipe: nothing more may be written at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _parser() -> CommandParser:
    parser = CommandParser(
        prog=PROGRAM,
        description="Shows what koordlet and koord-runtime-proxy do on this node, and what "
        "koord-manager, koord-scheduler and koord-descheduler decide for the cluster. Only "
        "restore, hooks remove, crds install, drain and rollout pause, resume and undo change "
        "anything.",
        epilog="Exit codes: 0 success, 1 no answer or not everything restored, 2 invalid "
        "arguments, 130 interrupted.",
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=describe_version(PROGRAM))
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    shown = _command(
        commands,
        "status",
        status.run,
        "which programs run on this node, and whether hooks are called",
        "Shows the proxy with its runtime, database and hook servers, and koordlet with its "
        "connection to NRI. A node needs the proxy or NRI; exit code 0 means that one of them "
        "works, 1 that neither does.",
    )
    status.add_arguments(shown)
    checked = _command(
        commands,
        "doctor",
        doctor.run,
        "what is wrong with a node or a cluster, and the way out",
        doctor.DESCRIPTION,
    )
    doctor.add_arguments(checked)
    checked.set_defaults(kernel=KernelFilesystem)
    pods = _command(
        commands, "pods", _pods, "pods and containers, the hooks that they missed, and why"
    )
    pods.add_argument("--unmanaged", action="store_true", help="show only those that missed a hook")
    listed, removed = _add_hooks(commands)
    for command in (shown, checked, pods, listed, removed):
        command.add_argument(
            "--address",
            default=ADDRESS,
            help="the proxy's --metrics-address: HOST:PORT or unix:///PATH (default: %(default)s)",
        )
    observing = tuple(_add_observing(commands))
    explained = tuple(_add_why(commands))
    predicted = tuple(_add_predict(commands))
    restore = _add_restore(commands)
    clustered = tuple(_add_cluster(commands))
    completion = _command(
        commands,
        "completion",
        partial(_completion, parser),
        "a script by which a shell completes commands and flags",
        "Prints a script by which a shell completes commands and flags. For bash: koordctl "
        "completion bash > /etc/bash_completion.d/koordctl",
    )
    completion.add_argument("shell", choices=("bash", "zsh", "fish"))
    for command in (
        shown,
        checked,
        pods,
        listed,
        restore,
        *observing,
        *explained,
        *predicted,
        *clustered,
    ):
        command.add_argument("--json", action="store_true", help="print JSON")
    return parser


def _add_hooks(
    commands: argparse._SubParsersAction[CommandParser],
) -> tuple[CommandParser, CommandParser]:
    words = "hook servers registered with the proxy"
    parser = commands.add_parser(
        "hooks", help=words, description=f"Shows {words}.", allow_abbrev=False
    )
    below = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    listed = _command(below, "list", hooks.run_list, f"{words}, and the state of each registration")
    removed = _command(
        below,
        "remove",
        hooks.run_remove,
        "deregister a hook server that will not come back",
        "Deregisters a hook server that will not come back. The proxy keeps waiting for one that "
        "only stops: under the policy Fail it refuses calls until the server is back, under Ignore "
        "it lets them pass and the server applies what it missed once it is back.",
    )
    hooks.add_remove(removed)
    return listed, removed


def _add_observing(commands: argparse._SubParsersAction[CommandParser]) -> Iterator[CommandParser]:
    """The commands that ask koordlet."""
    shown = _command(
        commands, "top", top.run, "resource usage and contention of node, classes and pods, live"
    )
    top.add_arguments(shown)
    seen = _command(
        commands,
        "node",
        node.run,
        "the machine, its usage, and the state of koordlet's collectors",
    )
    changed = _command(
        commands,
        "events",
        events.run,
        "changes and decisions by koordlet on this node, with their reasons",
        "Shows changes and decisions by koordlet on this node with their reasons, newest first.",
    )
    events.add_arguments(changed)
    words = "recent measurements by koordlet"
    measured = commands.add_parser(
        "metrics", help=words, description=f"Shows {words}.", allow_abbrev=False
    )
    below = measured.add_subparsers(title="commands", metavar="COMMAND", required=True)
    query = _command(
        below,
        "query",
        metrics.run_query,
        "aggregates and a sparkline of each series of a metric",
        "Shows aggregates of each series of a metric, and a sparkline that runs from 0 to the "
        "maximum of the series.",
    )
    metrics.add_arguments(query)
    kinds = _command(below, "kinds", metrics.run_kinds, "metrics with their units and labels")
    for command in (shown, seen, changed, query, kinds):
        _add_koordlet_address(command)
        yield command


def _add_koordlet_address(parser: CommandParser) -> None:
    parser.add_argument(
        "--address",
        default=koordlet_client.ADDRESS,
        help="koordlet's --status-address: unix:///PATH or HOST:PORT (default: %(default)s)",
    )


def _add_why(commands: argparse._SubParsersAction[CommandParser]) -> Iterator[CommandParser]:
    words = "how koordlet or a program of the control plane came to a decision"
    parser = commands.add_parser(
        "why", help=words, description=f"Shows {words}.", allow_abbrev=False
    )
    below = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    suppress = _command(
        below, "suppress", why.run_suppress, "how the CPU of best-effort pods was calculated"
    )
    why.add_history(suppress)
    pod = _command(below, "pod", why.run_pod, "hook changes, cgroup values and decisions for a pod")
    why.add_pod(pod)
    evicted = _command(below, "evicted", why.run_evicted, "why pods were evicted")
    why.add_evicted(evicted)
    cgroup = _command(
        below,
        "cgroup",
        why.run_cgroup,
        "desired values of a cgroup, and decisions about it",
    )
    why.add_cgroup(cgroup)
    strategies = _command(
        below, "strategies", why.run_strategies, "state and latest decision of each strategy"
    )
    for command in (suppress, pod, evicted, cgroup, strategies):
        _add_koordlet_address(command)
        yield command
    for resource in (*why_node.RESOURCES, "node"):
        words = f"how the {resource} of a node was calculated"
        if resource == "node":
            words = "how batch and mid resources, ratios and devices of a node were calculated"
        offered = _command(below, resource, why_node.run, words)
        offered.set_defaults(resource=resource)
        why_node.add_arguments(offered)
        yield offered
    service = _command(
        below, "service", why_service.run, "the profiles of a service, and its pods and nodes"
    )
    why_service.add_arguments(service)
    yield service
    words = "why pods are resized by a Recommendation, or are not"
    resized = _command(below, "resize", why_node.run_resize, words)
    why_node.add_resize_arguments(resized)
    yield resized
    yield from _add_why_scheduling(below)
    moved = _command(
        below, "moved", descheduler.run_why, "why koord-descheduler moved a pod, or left it there"
    )
    descheduler.add_why(moved)
    yield moved
    sided = _command(
        below, "tide", why_tide.run, "on which side of its TideNodePool a node is, and why it stays"
    )
    why_tide.add_arguments(sided)
    yield sided


def _add_why_scheduling(
    commands: argparse._SubParsersAction[CommandParser],
) -> Iterator[CommandParser]:
    pending = _command(
        commands,
        "pending",
        why_scheduling.run_pending,
        "why a pod waits for a node, and which nodes come nearest",
    )
    scheduled = _command(
        commands,
        "scheduled",
        why_scheduling.run_scheduled,
        "how a pod's node would be judged now, beside the best nodes",
    )
    for command in (pending, scheduled):
        why_scheduling.add_arguments(command)
        yield command


def _add_predict(commands: argparse._SubParsersAction[CommandParser]) -> Iterator[CommandParser]:
    words = "predictions by koordlet, and backtests of them"
    parser = commands.add_parser(
        "predict", help=words, description=f"Shows {words}.", allow_abbrev=False
    )
    below = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    shown = _command(
        below,
        "show",
        predict_show.run,
        "predicted peaks, and usage percentiles of the node and its pods",
    )
    predict_show.add_arguments(shown)
    _add_koordlet_address(shown)
    yield shown
    tested = _command(
        below,
        "backtest",
        _backtest,
        "prediction errors on a trace of recorded usage",
        backtest_options.DESCRIPTION,
    )
    backtest_options.add_arguments(tested)
    yield tested


def _add_cluster(commands: argparse._SubParsersAction[CommandParser]) -> Iterator[CommandParser]:
    """The commands that ask a cluster."""
    recommended = _command(
        commands,
        "recommend",
        recommend.run,
        "recommended resource requests of workloads, based on their usage",
    )
    recommend.add_arguments(recommended)
    yield recommended
    placed = _command(
        commands,
        "schedule",
        schedule.run,
        "where pods would be placed, and why",
        schedule.DESCRIPTION,
    )
    schedule.add_arguments(placed)
    yield placed
    for name, module, words in (
        ("reservations", reservations, "resources reserved on nodes, and the pods that use them"),
        ("gangs", gangs, "groups of pods that start together, and what they wait for"),
        ("devices", devices, "GPUs and other devices of nodes, and the pods that have them"),
    ):
        shown = _command(commands, name, module.run, words)
        module.add_arguments(shown)
        shown.set_defaults(kernel=KernelFilesystem)
        yield shown
    yield from _add_descheduler(commands)
    defragmented = _command(
        commands,
        "defrag",
        defrag.run,
        "moves that would make room for what waits, and their price",
        defrag.DESCRIPTION,
    )
    defrag.add_arguments(defragmented)
    yield defragmented
    emptied = _command(
        commands,
        "drain",
        drain.run,
        "empty a node: plan, confirm or abort it",
        drain.DESCRIPTION,
    )
    drain.add_arguments(emptied)
    yield emptied
    yield from _add_rollout(commands)
    moved = _command(
        commands,
        "migrations",
        migrations.run,
        "pods that leave their nodes, where to, and why some do not",
    )
    migrations.add_arguments(moved)
    yield moved
    words = "custom resource definitions"
    definitions = commands.add_parser(
        "crds", help=words, description=f"Shows or installs our {words}.", allow_abbrev=False
    )
    below = definitions.add_subparsers(title="commands", metavar="COMMAND", required=True)
    yield _command(below, "show", crds.run_show, f"{words}, as YAML")
    install = _command(
        below,
        "install",
        crds.run_install,
        "create or update the definitions in the cluster",
        "Creates definitions that the cluster lacks, and updates those that differ.",
    )
    crds.add_install(install)
    yield install
    words = "elastic quotas"
    quotas = commands.add_parser(
        "quota", help=words, description=f"Shows or converts {words}.", allow_abbrev=False
    )
    below = quotas.add_subparsers(title="commands", metavar="COMMAND", required=True)
    tree = _command(below, "tree", quota.run_tree, "what quotas use, may use, and borrow")
    quota.add_tree(tree)
    yield tree
    convert = _command(
        below,
        "convert",
        quota.run_convert,
        "ElasticQuotas of scheduler-plugins as Koordinator's, or back",
        "Converts ElasticQuotas of scheduler-plugins to Koordinator's, or back.",
    )
    quota.add_convert(convert)
    yield convert


def _add_descheduler(
    commands: argparse._SubParsersAction[CommandParser],
) -> Iterator[CommandParser]:
    words = "moves of pods by koord-descheduler"
    parser = commands.add_parser(
        "descheduler", help=words, description=f"Shows {words}.", allow_abbrev=False
    )
    below = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    planned = _command(
        below,
        "plan",
        descheduler.run_plan,
        "the next round: pods that would move and where to, and pods that stay and why",
    )
    descheduler.add_plan(planned)
    yield planned
    explained = _command(
        below, "why", descheduler.run_why, "why a pod was moved, or stays where it is"
    )
    descheduler.add_why(explained)
    yield explained


def _add_rollout(commands: argparse._SubParsersAction[CommandParser]) -> Iterator[CommandParser]:
    words = "rollouts of settings to nodes"
    parser = commands.add_parser(
        "rollout", help=words, description=f"Shows or steers {words}.", allow_abbrev=False
    )
    below = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for name, command, words in (
        ("status", rollout.run_status, "versions, nodes that have them, and what is paused"),
        ("pause", rollout.run_pause, "have the nodes of an entry keep what they have"),
        ("resume", rollout.run_resume, "end a pause, and accept the version"),
        ("undo", rollout.run_undo, "give an entry the content that it had before"),
        ("history", rollout.run_history, "versions of an entry, when they came and by whom"),
        ("report", rollout.run_report, "what an entry gains and costs, by nodes like its canaries"),
    ):
        made = _command(below, name, command, words, words[0].upper() + words[1:] + ".")
        rollout.add_arguments(made, names="?" if name == "status" else "")
        if name == "pause":
            rollout.add_reason(made)
        if name == "undo":
            rollout.add_version(made)
        yield made


def _add_restore(commands: argparse._SubParsersAction[CommandParser]) -> CommandParser:
    restore = _command(
        commands,
        "restore",
        _restore,
        "restore kernel files to their values before koordlet's first change",
        "Restores kernel files to the values that they held before koordlet's first change, in "
        "cgroups that still exist. Stop koordlet first.",
    )
    restore.add_argument("--dry-run", action="store_true", help="only print what would be done")
    restore.add_argument(
        "--force", action="store_true", help="also restore files that something else changed since"
    )
    restore.add_argument(
        "--state",
        default=STATE,
        metavar="PATH",
        help="koordlet's --state-dir (default: %(default)s)",
    )
    restore.add_argument(
        "--cgroup-root-dir",
        default=CGROUPS,
        metavar="PATH",
        help="koordlet's --cgroup-root-dir (default: %(default)s)",
    )
    return restore


def _command(
    commands: argparse._SubParsersAction[CommandParser],
    name: str,
    command: Callable[[argparse.Namespace], Iterable[str]],
    words: str,
    description: str = "",
) -> CommandParser:
    description = description or f"Shows {words}."
    parser = commands.add_parser(name, help=words, description=description, allow_abbrev=False)
    parser.set_defaults(command=command)
    return parser


def _completion(parser: CommandParser, arguments: argparse.Namespace) -> Iterable[str]:
    # Imported late: no other command needs it.
    import shtab

    return str(shtab.complete(parser, shell=arguments.shell)).rstrip("\n").split("\n")


def _pods(arguments: argparse.Namespace) -> Iterable[str]:
    body, pods = ask_proxy(arguments.address, "/pods", list[PodHooks])
    if arguments.unmanaged:
        pods = unmanaged(pods)
    if arguments.json:
        whole = msgspec.json.encode(pods) if arguments.unmanaged else body
        return [msgspec.json.format(whole, indent=2).decode().rstrip("\n")]
    return render.pod_lines(pods, only_unmanaged=arguments.unmanaged)


def _backtest(arguments: argparse.Namespace) -> Iterable[str]:
    # Imported late: numpy costs a quarter of a second, which no other command needs.
    from koordctl import predict_backtest

    found = predict_backtest.run(arguments.trace, backtest_options.options(arguments))
    return [predict_backtest.as_json(found)] if arguments.json else predict_backtest.lines(found)


def _restore(arguments: argparse.Namespace) -> Iterable[str]:
    root = arguments.cgroup_root_dir
    report = put_back(
        KernelFilesystem(("/proc", "/sys", root)),
        arguments.state,
        partial(write_error, PROGRAM),
        cgroup_root=root,
        force=arguments.force,
        dry_run=arguments.dry_run,
    )
    if arguments.json:
        yield report_json(report)
    else:
        yield from report_lines(report, dry_run=arguments.dry_run)
    if any(result.outcome is RestoreOutcome.REFUSED for result in report):
        raise SystemExit(1)


if __name__ == "__main__":
    main()
