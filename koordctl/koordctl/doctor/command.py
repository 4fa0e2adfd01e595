"""The command: what is looked at, and the results as text or JSON."""

from __future__ import annotations

import argparse
import datetime
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from koordctl import cluster_client, koordlet_client
from koordctl.doctor.check_results import CheckResult, Level, blocks, summary
from koordctl.errors import AskError, UsageError
from koordctl.output.result import CommandOutput
from koordctl.output.tables import Block, indented
from koordctl.places import NODE, add_place, places

if TYPE_CHECKING:
    from koord_kube.client import Client

DESCRIPTION = (
    "Checks this node, the cluster, or both: what does not work or does not fit together, each "
    "with the way out. Changes nothing; a pod is tried with a dry run. Exit code 1 if there is a "
    "problem."
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The flags of ``koordctl doctor`` beside the proxy's address."""
    add_place(parser)
    koordlet_client.add_arguments(parser)
    cluster_client.add_namespace(parser, "namespace of manager and scheduler")
    cluster_client.add_arguments(parser)


def run(arguments: argparse.Namespace) -> CommandOutput:
    """Look, and say what was found.

    Raises:
        UsageError: an address is not valid, or there is neither a node nor a cluster here.
    """
    looked_at = places(arguments)
    if not looked_at:
        raise UsageError(
            "neither a node nor a cluster is here; run koordctl doctor node, or "
            "koordctl doctor cluster --kubeconfig=FILE"
        )
    found = {
        place: list(_node(arguments) if place == NODE else _cluster(arguments))
        for place in looked_at
    }
    every = [result for results in found.values() for result in results]
    document = [result.as_json(place) for place, group in found.items() for result in group]
    failed = any(result.level is Level.PROBLEM for result in every)
    return CommandOutput(document, [*_blocks(found), summary(every)], "" if failed else None)


def _blocks(found: Mapping[str, Sequence[CheckResult]]) -> Iterator[Block]:
    for place, results in found.items():
        yield place
        yield from indented(blocks(results))
        yield ""


def _node(arguments: argparse.Namespace) -> Iterator[CheckResult]:
    # Imported late: what they read of the kernel costs a tenth of a second.
    from koordctl.doctor.node_checks import check_node
    from koordctl.doctor.node_survey import read_node

    files = arguments.kernel()
    return check_node(read_node(files, arguments.address, arguments.koordlet_address))


def _cluster(arguments: argparse.Namespace) -> Iterator[CheckResult]:
    from koordctl.doctor.cluster_checks import check_cluster
    from koordctl.doctor.cluster_survey import ClusterSurvey, read_cluster

    async def question(api: Client) -> ClusterSurvey:
        return await read_cluster(api, arguments.namespace)

    try:
        survey = cluster_client.ask_cluster(arguments, question)
    except AskError as error:
        yield CheckResult(Level.PROBLEM, "API server", str(error))
        return
    yield from check_cluster(survey, datetime.datetime.now(datetime.UTC))
