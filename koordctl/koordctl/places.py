"""The places that a command looks at: this node, the cluster, or both."""

from __future__ import annotations

import argparse

from koordctl import cluster_client

NODE, CLUSTER = "node", "cluster"


def add_place(parser: argparse.ArgumentParser) -> None:
    """Add the argument that chooses one place."""
    parser.add_argument(
        "what",
        nargs="?",
        choices=(NODE, CLUSTER),
        help="only this (default: the node where a kubelet or a unit of ours is here, and the "
        "cluster where there is a kubeconfig)",
    )


def places(arguments: argparse.Namespace) -> list[str]:
    """The places that were asked for, or that are here."""
    if arguments.what:
        return [arguments.what]
    # Imported late: what it reads of the kernel costs a tenth of a second.
    from koordctl.doctor.node_survey import is_node

    there = {
        NODE: is_node(arguments.kernel()),
        CLUSTER: cluster_client.is_configured(arguments),
    }
    return [place for place, is_here in there.items() if is_here]
