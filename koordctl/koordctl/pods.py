"""``koordctl pods``: pods and containers, and the hooks that they missed."""

from __future__ import annotations

import argparse

from koordctl import render
from koordctl.output.documents import from_page, from_value
from koordctl.output.result import CommandOutput
from koordctl.proxy_documents import PodHooks, add_address, ask_proxy, unmanaged


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options for which pods, and the proxy's address."""
    parser.add_argument(
        "--unmanaged", action="store_true", help="show only those that missed a hook"
    )
    add_address(parser)


def run(arguments: argparse.Namespace) -> CommandOutput:
    """The pods that the proxy knows. Raises AskError."""
    body, pods = ask_proxy(arguments.address, "/pods", list[PodHooks])
    if arguments.unmanaged:
        pods = unmanaged(pods)
    document = from_value(pods) if arguments.unmanaged else from_page(body, list[PodHooks])
    return CommandOutput(document, render.pod_lines(pods, only_unmanaged=arguments.unmanaged))
