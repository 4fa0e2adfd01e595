"""``koordctl hooks``: the hook servers that the proxy expects, and deregistering one.

Who may register may deregister: it is a file in the directory where servers register, which
the proxy takes away when it has been done. So it also counts for a proxy that does not run.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec
from koord_hooks.hook_files import DIRECTORY, REGISTERED, REMOVED

from koordctl.columns import table
from koordctl.proxy_documents import ProxyStatus, ask_proxy
from koordctl.render import BREAKERS, clean
from koordctl.status_client import AskError

WAIT_SECONDS = 10.0
"""Time for the proxy to notice the change: it looks twice a second."""
_PAUSE_SECONDS = 0.1

_HEADER = ("HOOK SERVER", "POLICY", "BREAKER", "REGISTRATION")


class HooksError(Exception):
    """It cannot be done; the message is one line with the way out."""


def add_remove(parser: argparse.ArgumentParser) -> None:
    """The arguments of ``koordctl hooks remove``."""
    parser.add_argument("name", metavar="NAME", help="the hook server, as in koordctl hooks list")
    parser.add_argument(
        "--hook-config-path",
        default=DIRECTORY,
        metavar="DIR",
        help="the proxy's --hook-config-path (default: %(default)s)",
    )


def run_list(arguments: argparse.Namespace) -> Iterator[str]:
    """The servers, and how their registrations are."""
    _, status = ask_proxy(arguments.address, "/healthz", ProxyStatus)
    if arguments.json:
        found = {"hook_servers": status.hook_servers, "registrations": status.registrations}
        yield msgspec.json.format(msgspec.json.encode(found), indent=2).decode()
        return
    yield from lines(status)


def lines(status: ProxyStatus) -> Iterator[str]:
    """Output of ``koordctl hooks list``."""
    named = {server.name for server in status.hook_servers}
    rows = [
        (
            clean(server.name),
            clean(server.policy),
            BREAKERS.get(server.breaker, clean(server.breaker)),
            clean(status.registrations.get(server.name, "ok")),
        )
        for server in status.hook_servers
    ]
    rows += [
        (clean(name), "–", "–", clean(problem))
        for name, problem in sorted(status.registrations.items())
        if name not in named
    ]
    if rows:
        yield from table((_HEADER, *rows))
    else:
        yield "No hook server is registered."


def run_remove(arguments: argparse.Namespace) -> Iterator[str]:
    """Deregister one, and wait until the proxy has taken that in."""
    name, address = arguments.name, arguments.address
    directory = Path(arguments.hook_config_path)
    if not name.isprintable() or name.startswith(".") or Path(name).name != name:
        raise HooksError(f'"{clean(name)}" is not a name of a hook server')
    known = _known(address)
    if known is not None and name not in known and not _file(directory, name).exists():
        there = ", ".join(sorted(known)) or "none"
        raise HooksError(f'no hook server "{name}"; registered: {there}')
    _mark(directory, name)
    if known is None:
        yield f"{name} is deregistered. koord-runtime-proxy does not answer at {address}: "
        yield "it will notice when it starts."
    else:
        _wait_until_gone(address, directory, name)
        yield f"{name} is deregistered: it gets no more calls until it registers again."


def _mark(directory: Path, name: str) -> None:
    mark = directory / f"{name}{REMOVED}"
    try:
        try:
            # In one step: the proxy never sees the file gone without the mark.
            _file(directory, name).rename(mark)
        except FileNotFoundError:
            mark.touch()
    except OSError as error:
        raise HooksError(
            f"{mark}: {error.strerror}; this needs root, and the proxy's --hook-config-path"
        ) from None


def _wait_until_gone(address: str, directory: Path, name: str) -> None:
    end = time.monotonic() + WAIT_SECONDS
    while name in (_known(address) or ()):
        if time.monotonic() > end:
            raise HooksError(
                f"koord-runtime-proxy still expects {name}; is {directory} its --hook-config-path?"
            )
        time.sleep(_PAUSE_SECONDS)


def _file(directory: Path, name: str) -> Path:
    return directory / f"{name}{REGISTERED}"


def _known(address: str) -> set[str] | None:
    """The names that the proxy knows; ``None`` where it does not answer."""
    try:
        _, status = ask_proxy(address, "/healthz", ProxyStatus)
    except AskError:
        return None
    return {hook_server.name for hook_server in status.hook_servers} | status.registrations.keys()
