"""The ``koordctl`` program: arguments, a question, an answer."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import NoReturn

import msgspec
from koord_model.version import VERSION

from koordctl import render
from koordctl.answers import A, Pod, Status, read, unmanaged
from koordctl.client import AddressError, AskError, ask

PROGRAM = "koordctl"
ADDRESS = "127.0.0.1:9319"
"""Where koord-runtime-proxy serves its status unless told otherwise."""


class _Parser(argparse.ArgumentParser):
    """Says what is wrong in one line, and exits with 2."""

    def error(self, message: str) -> NoReturn:
        _say(f"{' '.join(message.split())} (see {self.prog} --help)")
        raise SystemExit(2)


def main(argv: Sequence[str] | None = None) -> None:
    """The console script; exits with 2 on arguments that cannot be, 1 if nobody answers."""
    arguments = _parser().parse_args(argv)
    command: Callable[[argparse.Namespace], Iterable[str]] = arguments.command
    try:
        for line in command(arguments):
            sys.stdout.write(f"{line}\n")
        sys.stdout.flush()
    except AddressError as error:
        _leave(2, str(error))
    except AskError as error:
        _leave(1, str(error))
    except BrokenPipeError:
        # "koordctl pods | head" has seen enough; nothing more may be written at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _parser() -> _Parser:
    parser = _Parser(
        prog=PROGRAM,
        description="Says what koord-runtime-proxy on this node is doing. Changes nothing.",
        epilog="Exit codes: 0 answered, 1 no answer, 2 wrong arguments.",
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
        one.add_argument("--json", action="store_true", help="as JSON, for programs")
    return parser


def _command(
    commands: argparse._SubParsersAction[_Parser],
    name: str,
    command: Callable[[argparse.Namespace], Iterable[str]],
    words: str,
) -> _Parser:
    parser = commands.add_parser(
        name, help=words, description=f"Shows {words}.", allow_abbrev=False
    )
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
