"""``koordctl hooks``: the hook servers that the proxy expects, and deregistering one.

Who may register may deregister: it is a file in the directory where servers register, which
the proxy takes away when it has been done. So it also counts for a proxy that does not run.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from pathlib import Path

from koord_hooks.hook_files import DIRECTORY, REGISTERED, REMOVED

from koordctl.errors import AskError, UsageError
from koordctl.output.documents import from_value
from koordctl.output.result import CommandOutput
from koordctl.output.tables import Block, bad, good, table
from koordctl.proxy_documents import ProxyStatus, add_address, ask_proxy
from koordctl.render import BREAKERS, clean
from koordctl.suggestions import near

WAIT_SECONDS = 10.0
"""Time for the proxy to notice the change: it looks twice a second."""
_PAUSE_SECONDS = 0.1

_HEADER = ("HOOK SERVER", "POLICY", "BREAKER", "REGISTRATION")


def add_remove(parser: argparse.ArgumentParser) -> None:
    """The arguments of ``koordctl hooks remove``."""
    parser.add_argument("name", metavar="NAME", help="the hook server, as in koordctl hooks list")
    parser.add_argument(
        "--hook-config-path",
        default=DIRECTORY,
        metavar="DIR",
        help="the proxy's --hook-config-path (default: %(default)s)",
    )
    add_address(parser)


def run_list(arguments: argparse.Namespace) -> CommandOutput:
    """The servers, and how their registrations are."""
    _, status = ask_proxy(arguments.address, "/healthz", ProxyStatus)
    document = {
        "hookServers": from_value(status.hook_servers),
        "registrations": status.registrations,
    }
    return CommandOutput(document, lines(status))


def lines(status: ProxyStatus) -> Iterator[Block]:
    """Output of ``koordctl hooks list``."""
    named = {server.name for server in status.hook_servers}
    rows = [
        (
            clean(server.name),
            clean(server.policy),
            BREAKERS.get(server.breaker, clean(server.breaker)),
            bad(clean(status.registrations[server.name]))
            if server.name in status.registrations
            else good("ok"),
        )
        for server in status.hook_servers
    ]
    rows += [
        (clean(name), "–", "–", bad(clean(problem)))
        for name, problem in sorted(status.registrations.items())
        if name not in named
    ]
    if rows:
        yield table((_HEADER, *rows))
    else:
        yield "No hook server is registered."


def run_remove(arguments: argparse.Namespace) -> CommandOutput:
    """Deregister one, and wait until the proxy has taken that in."""
    name, address = arguments.name, arguments.address
    directory = Path(arguments.hook_config_path)
    if not name or not name.isprintable() or name.startswith(".") or Path(name).name != name:
        raise UsageError(f'"{clean(name)}" is not a name of a hook server')
    known = _known(address)
    if known is not None and name not in known and not _file(directory, name).exists():
        raise AskError(f'no hook server "{name}"{near(name, known)}')
    _mark(directory, name)
    message = f"{name} is deregistered"
    if known is None:
        message += (
            f". koord-runtime-proxy does not answer at {address}: it will notice when it starts."
        )
    else:
        _wait_until_gone(address, directory, name)
        message += ": it gets no more calls until it registers again."
    return CommandOutput({"hookServer": name, "message": message}, [message])


def _mark(directory: Path, name: str) -> None:
    mark = directory / f"{name}{REMOVED}"
    try:
        try:
            # In one step: the proxy never sees the file gone without the mark.
            _file(directory, name).rename(mark)
        except FileNotFoundError:
            mark.touch()
    except OSError as error:
        raise AskError(
            f"{mark}: {error.strerror}; this needs root, and the proxy's --hook-config-path"
        ) from None


def _wait_until_gone(address: str, directory: Path, name: str) -> None:
    end = time.monotonic() + WAIT_SECONDS
    while name in (_known(address) or ()):
        if time.monotonic() > end:
            raise AskError(
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
