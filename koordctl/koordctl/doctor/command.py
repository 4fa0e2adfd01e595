"""The command: what is looked at, and the results as text or JSON."""

from __future__ import annotations

import argparse
import datetime
import json
from collections.abc import Iterator
from typing import TYPE_CHECKING

from koord_host.kernel_files.interface import FileReader

from koordctl import cluster_client, koordlet_client
from koordctl.doctor.check_results import CheckResult, Level, lines, summary
from koordctl.doctor.cluster_checks import check_cluster
from koordctl.doctor.cluster_survey import ClusterSurvey, read_cluster
from koordctl.doctor.node_checks import check_node
from koordctl.doctor.node_survey import is_node, read_node
from koordctl.replay import UsageError
from koordctl.status_client import AskError

if TYPE_CHECKING:
    from koord_kube.client import Client

DESCRIPTION = (
    "Checks this node, the cluster, or both: what does not work or does not fit together, each "
    "with the way out. Changes nothing; a pod is tried with a dry run. Exit code 1 if there is a "
    "problem."
)
NODE, CLUSTER = "node", "cluster"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The flags of ``koordctl doctor`` beside the proxy's address."""
    parser.add_argument(
        "what",
        nargs="?",
        choices=(NODE, CLUSTER),
        help="check this alone (default: the node where a kubelet or a unit of ours is here, and "
        "the cluster where there is a kubeconfig)",
    )
    koordlet_client.add_arguments(parser)
    cluster_client.add_namespace(parser, "namespace of manager and scheduler")
    cluster_client.add_arguments(parser)


def run(arguments: argparse.Namespace) -> Iterator[str]:
    """Look, and say what was found.

    Raises:
        AddressError: an address is not valid.
        UsageError: there is neither a node nor a cluster here.
    """
    files: FileReader = arguments.kernel()
    places = _places(arguments, files)
    if not places:
        raise UsageError(
            "neither a node nor a cluster is here; say which, and give --kubeconfig=FILE"
        )
    found: dict[str, list[CheckResult]] = {}
    for place in places:
        found[place] = list(_node(arguments, files) if place == NODE else _cluster(arguments))
        if not arguments.json:
            yield place
            yield from (f"  {line}" for line in lines(found[place]))
            yield ""
    every = [result for results in found.values() for result in results]
    if arguments.json:
        rows = [result.as_json(place) for place, group in found.items() for result in group]
        yield json.dumps(rows, indent=2, ensure_ascii=False)
    else:
        yield summary(every)
    if any(result.level is Level.PROBLEM for result in every):
        raise SystemExit(1)


def _places(arguments: argparse.Namespace, files: FileReader) -> list[str]:
    if arguments.what:
        return [arguments.what]
    there = {NODE: is_node(files), CLUSTER: cluster_client.is_configured(arguments)}
    return [place for place, is_here in there.items() if is_here]


def _node(arguments: argparse.Namespace, files: FileReader) -> Iterator[CheckResult]:
    return check_node(read_node(files, arguments.address, arguments.koordlet_address))


def _cluster(arguments: argparse.Namespace) -> Iterator[CheckResult]:
    async def question(api: Client) -> ClusterSurvey:
        return await read_cluster(api, arguments.namespace)

    try:
        survey = cluster_client.ask_cluster(arguments, question)
    except AskError as error:
        yield CheckResult(Level.PROBLEM, "API server", str(error))
        return
    yield from check_cluster(survey, datetime.datetime.now(datetime.UTC))
