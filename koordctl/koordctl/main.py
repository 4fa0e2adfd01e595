"""The ``koordctl`` program: arguments, a question, an answer."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NoReturn

import msgspec
from koord_host.kernel import Kernel
from koord_host.restore import Fate
from koord_model.version import VERSION

from koordctl import (
    asking,
    backtest,
    crds,
    events,
    metrics,
    node,
    predictions,
    recommend,
    render,
    top,
    why,
    why_node,
)
from koordctl.answers import A, Pod, Status, read, unmanaged
from koordctl.backtest import BacktestError
from koordctl.client import AddressError, AskError, ask
from koordctl.restore import CGROUPS, STATE, RestoreError, put_back, report_json, report_lines

PROGRAM = "koordctl"
ADDRESS = "127.0.0.1:9319"
"""Where koord-runtime-proxy serves its status unless told otherwise."""


class _Parser(argparse.ArgumentParser):
    """Says what is wrong in one line, and exits with 2."""

    def error(self, message: str) -> NoReturn:
        _say(f"{' '.join(message.split())} (see {self.prog} --help)")
        raise SystemExit(2)


def main(argv: Sequence[str] | None = None) -> None:
    """The console script; exits with 2 on arguments that cannot be, 1 if it cannot be done."""
    arguments = _parser().parse_args(argv)
    command: Callable[[argparse.Namespace], Iterable[str]] = arguments.command
    try:
        for line in command(arguments):
            sys.stdout.write(f"{line}\n")
        sys.stdout.flush()
    except AddressError as error:
        _leave(2, str(error))
    except (AskError, BacktestError, RestoreError) as error:
        _leave(1, str(error))
    except BrokenPipeError:
        # "koordctl pods | head" has seen enough; nothing more may be written at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _parser() -> _Parser:
    parser = _Parser(
        prog=PROGRAM,
        description="Says what koordlet sees and koord-runtime-proxy does on this node, and what "
        "koord-manager decides for the cluster. Only restore and crds install change anything.",
        epilog="Exit codes: 0 done, 1 no answer or not all restored, 2 wrong arguments.",
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"{PROGRAM} {VERSION}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    status = _command(
        commands, "status", _status, "backend, database, records and hook servers with their state"
    )
    pods = _command(
        commands, "pods", _pods, "pods and containers, and which hooks they went without and why"
    )
    pods.add_argument(
        "--unmanaged", action="store_true", help="only those that went without a hook"
    )
    for one in (status, pods):
        one.add_argument(
            "--address",
            default=ADDRESS,
            help="the proxy's --metrics-address: HOST:PORT or unix:///PATH (default: %(default)s)",
        )
    observing = tuple(_add_observing(commands))
    explained = tuple(_add_why(commands))
    predicted = tuple(_add_predict(commands))
    restore = _add_restore(commands)
    clustered = tuple(_add_cluster(commands))
    for one in (status, pods, restore, *observing, *explained, *predicted, *clustered):
        one.add_argument("--json", action="store_true", help="as JSON, for programs")
    return parser


def _add_observing(commands: argparse._SubParsersAction[_Parser]) -> Iterator[_Parser]:
    """The commands that ask koordlet."""
    shown = _command(
        commands, "top", top.run, "who uses and suffers what: node, classes and pods, live"
    )
    top.add_arguments(shown)
    seen = _command(
        commands, "node", node.run, "the machine, its use, and how koordlet's collectors fare"
    )
    changed = _command(
        commands,
        "events",
        events.run,
        "what koordlet has changed and decided on this node, and why",
        "Shows what koordlet has changed and decided on this node, and why; the newest first.",
    )
    events.add_arguments(changed)
    words = "what koordlet has measured lately"
    measured = commands.add_parser(
        "metrics", help=words, description=f"Shows {words}.", allow_abbrev=False
    )
    below = measured.add_subparsers(title="commands", metavar="COMMAND", required=True)
    query = _command(
        below,
        "query",
        metrics.run_query,
        "aggregates and the curve of each series of a kind",
        "Shows aggregates of each series of a kind, and its curve: from 0 to its own "
        "greatest value.",
    )
    metrics.add_arguments(query)
    kinds = _command(below, "kinds", metrics.run_kinds, "what is measured, with units and labels")
    for one in (shown, seen, changed, query, kinds):
        _add_koordlet_address(one)
        yield one


def _add_koordlet_address(parser: _Parser) -> None:
    parser.add_argument(
        "--address",
        default=asking.ADDRESS,
        help="koordlet's --status-address: unix:///PATH or HOST:PORT (default: %(default)s)",
    )


def _add_why(commands: argparse._SubParsersAction[_Parser]) -> Iterator[_Parser]:
    words = "what koordlet or the manager has decided, of what numbers and by what formula"
    parser = commands.add_parser(
        "why", help=words, description=f"Shows {words}.", allow_abbrev=False
    )
    below = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    suppress = _command(
        below, "suppress", why.run_suppress, "why best-effort pods have the CPU that they have"
    )
    why.add_history(suppress)
    pod = _command(below, "pod", why.run_pod, "what was decided about a pod")
    why.add_pod(pod)
    evicted = _command(below, "evicted", why.run_evicted, "why a pod was evicted, or which were")
    why.add_evicted(evicted)
    cgroup = _command(
        below, "cgroup", why.run_cgroup, "who wishes what of a cgroup, and what was decided of it"
    )
    why.add_cgroup(cgroup)
    strategies = _command(
        below, "strategies", why.run_strategies, "how the strategies fare, and what they decided"
    )
    for one in (suppress, pod, evicted, cgroup, strategies):
        _add_koordlet_address(one)
        yield one
    for resource in (*why_node.RESOURCES, "node"):
        named = resource if resource != "node" else "batch and mid resources, ratios and devices"
        offered = _command(below, resource, why_node.run, f"why a node offers the {named} it does")
        offered.set_defaults(resource=resource)
        why_node.add_arguments(offered)
        yield offered


def _add_predict(commands: argparse._SubParsersAction[_Parser]) -> Iterator[_Parser]:
    words = "what koordlet predicts, and how well it would have done"
    predict = commands.add_parser("predict", help=words, allow_abbrev=False)
    below = predict.add_subparsers(title="commands", metavar="COMMAND", required=True)
    shown = _command(
        below,
        "show",
        predictions.run,
        "what is predicted, and what pods and the node have used: their percentiles",
    )
    predictions.add_arguments(shown)
    _add_koordlet_address(shown)
    yield shown
    tested = _command(
        below,
        "backtest",
        _backtest,
        "under- and over-estimates on a trace of recorded use",
        backtest.DESCRIPTION,
    )
    backtest.add_arguments(tested)
    yield tested


def _add_cluster(commands: argparse._SubParsersAction[_Parser]) -> Iterator[_Parser]:
    """The commands that ask a cluster."""
    recommended = _command(
        commands,
        "recommend",
        recommend.run,
        "what workloads' containers should ask for, by what they used",
    )
    recommend.add_arguments(recommended)
    yield recommended
    words = "the definitions of the custom resources"
    definitions = commands.add_parser("crds", help=words, allow_abbrev=False)
    below = definitions.add_subparsers(title="commands", metavar="COMMAND", required=True)
    yield _command(below, "show", crds.run_show, f"{words}, as YAML")
    install = _command(
        below,
        "install",
        crds.run_install,
        "create or update them in the cluster",
        "Creates the definitions that the cluster does not have, and updates those that differ.",
    )
    crds.add_install(install)
    yield install


def _add_restore(commands: argparse._SubParsersAction[_Parser]) -> _Parser:
    restore = _command(
        commands,
        "restore",
        _restore,
        "put kernel files back as koordlet found them; koordlet must be stopped",
        "Puts back what kernel files held before koordlet's first change, in groups that are "
        "still there. koordlet must be stopped.",
    )
    restore.add_argument("--dry-run", action="store_true", help="only say what would be done")
    restore.add_argument(
        "--force", action="store_true", help="also what others have changed since koordlet did"
    )
    restore.add_argument(
        "--state", default=STATE, metavar="PATH", help="koordlet's --state-dir (%(default)s)"
    )
    restore.add_argument(
        "--cgroup-root-dir", default=CGROUPS, metavar="PATH", help="koordlet's own (%(default)s)"
    )
    return restore


def _command(
    commands: argparse._SubParsersAction[_Parser],
    name: str,
    command: Callable[[argparse.Namespace], Iterable[str]],
    words: str,
    description: str = "",
) -> _Parser:
    description = description or f"Shows {words}."
    parser = commands.add_parser(name, help=words, description=description, allow_abbrev=False)
    parser.set_defaults(command=command)
    return parser


def _status(arguments: argparse.Namespace) -> Iterable[str]:
    body = ask(arguments.address, "/healthz")
    status = _read(body, Status, arguments.address)
    if arguments.json:
        return [body.decode().rstrip("\n")]
    return render.status_lines(status, arguments.address)


def _pods(arguments: argparse.Namespace) -> Iterable[str]:
    body = ask(arguments.address, "/pods")
    pods = _read(body, list[Pod], arguments.address)
    if arguments.unmanaged:
        pods = unmanaged(pods)
    if arguments.json:
        whole = msgspec.json.encode(pods) if arguments.unmanaged else body
        return [msgspec.json.format(whole, indent=2).decode().rstrip("\n")]
    return render.pod_lines(pods, only_unmanaged=arguments.unmanaged)


def _backtest(arguments: argparse.Namespace) -> Iterable[str]:
    # Imported late: numpy costs a quarter of a second, which no other command needs.
    from koordctl import predict

    found = predict.run(arguments.trace, backtest.options(arguments))
    return [predict.as_json(found)] if arguments.json else predict.lines(found)


def _restore(arguments: argparse.Namespace) -> Iterable[str]:
    root = arguments.cgroup_root_dir
    report = put_back(
        Kernel(("/proc", "/sys", root)),
        arguments.state,
        _say,
        cgroup_root=root,
        force=arguments.force,
        dry_run=arguments.dry_run,
    )
    if arguments.json:
        yield report_json(report)
    else:
        yield from report_lines(report, dry_run=arguments.dry_run)
    if any(one.fate is Fate.REFUSED for one in report):
        raise SystemExit(1)


def _read(body: bytes, kind: type[A], address: str) -> A:
    try:
        return read(body, kind)
    except ValueError as error:
        raise AskError(
            f"{address} answers what is no status of koord-runtime-proxy: {error}"
        ) from None


def _say(message: str) -> None:
    sys.stderr.write(f"{PROGRAM}: {message}\n")


def _leave(code: int, message: str) -> NoReturn:
    _say(message)
    raise SystemExit(code)


if __name__ == "__main__":
    main()
