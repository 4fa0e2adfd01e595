"""``python -m koord_demo``: the story, on an embedded runtime or on a real containerd."""

from __future__ import annotations

import argparse
import contextlib
import sys
import tempfile
from pathlib import Path

import grpc
from rich.console import Console

from koord_demo.nodes import containerd_node, embedded_node
from koord_demo.programs import DemoError
from koord_demo.story import show


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m koord_demo",
        description="Run a batch pod through the proxy and koordlet, and show what happens.",
    )
    parser.add_argument(
        "--runtime",
        choices=("embedded", "containerd"),
        default="embedded",
        help="runtime that runs the pod (default: %(default)s); containerd needs root",
    )
    runtime = parser.parse_args().runtime
    try:
        with contextlib.ExitStack() as ends:
            # Short, as it holds sockets.
            directory = Path(ends.enter_context(tempfile.TemporaryDirectory(prefix="koord-demo-")))
            node = embedded_node(directory) if runtime == "embedded" else containerd_node()
            # Output that is not a terminal has no width, and the usual 80 columns are too few.
            width = None if sys.stdout.isatty() else 100
            console = Console(highlight=False, width=width)
            show(console, ends.enter_context(node), directory)
    except DemoError as error:
        print(f"demo: {error}", file=sys.stderr)
        return 1
    except grpc.RpcError as error:
        print(f"demo: a call failed: {error.code().name}: {error.details()}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
