"""``koordctl recommend``: resource requests recommended by what containers used."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from koordctl import cluster_client
from koordctl.amounts import UNKNOWN
from koordctl.errors import UsageError
from koordctl.output.result import CommandOutput
from koordctl.output.tables import Block, table
from koordctl.render import clean

if TYPE_CHECKING:
    from koord_kube.client import Client

Json = Mapping[str, Any]

_HEADER = ("TARGET", "CONTAINER", "CPU", "MEMORY", "CPU LIMIT", "MEMORY LIMIT")
_CONDITION = "RecommendationProvided"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The flags of ``koordctl recommend``."""
    parser.add_argument(
        "name", nargs="?", default="", metavar="NAME", help="only this Recommendation"
    )
    parser.add_argument(
        "-n",
        "--namespace",
        default="default",
        metavar="NAMESPACE",
        help="namespace (default: %(default)s)",
    )
    parser.add_argument("-A", "--all-namespaces", action="store_true", help="show all namespaces")
    cluster_client.add_arguments(parser)


def run(arguments: argparse.Namespace) -> CommandOutput:
    """The recommendations of a namespace. Raises AskError."""
    from koord_kube.protocol.resources import RECOMMENDATIONS

    namespace = "" if arguments.all_namespaces else arguments.namespace
    if arguments.name and not namespace:
        raise UsageError("NAME needs one namespace: leave out --all-namespaces")

    async def question(api: Client) -> list[Any]:
        if arguments.name:
            found = await cluster_client.get(api, RECOMMENDATIONS, arguments.name, namespace)
            return [found]
        return await cluster_client.objects(api, RECOMMENDATIONS, namespace)

    found = cluster_client.ask_cluster(arguments, question)
    return CommandOutput(found, lines(found, named=bool(arguments.name)))


def lines(found: Sequence[Json], *, named: bool = False) -> Iterator[Block]:
    """A line a container; of one that was asked for by name also why."""
    if not found:
        yield "No Recommendation found. Create one for each workload to get a recommendation for."
        return
    ordered = sorted(
        found,
        key=lambda recommendation: (
            _meta(recommendation, "namespace"),
            _meta(recommendation, "name"),
        ),
    )
    yield table([_HEADER, *(row for recommendation in ordered for row in _rows(recommendation))])
    for recommendation in ordered:
        message = clean(str(_condition(recommendation).get("message", "not processed yet")))
        if named or not _containers(recommendation):
            yield f"{_about(recommendation)}: {message}"


def _rows(recommendation: Json) -> Iterator[tuple[str, ...]]:
    for container in _containers(recommendation):
        resources = container.get("resources") or {}
        wanted = ("cpu", "memory", "limits.cpu", "limits.memory")
        amounts = (clean(str(resources.get(name, UNKNOWN))) for name in wanted)
        yield (_about(recommendation), clean(str(container.get("containerName", ""))), *amounts)


def _containers(recommendation: Json) -> Sequence[Json]:
    status = (recommendation.get("status") or {}).get("podStatus") or {}
    return status.get("containerStatuses") or ()


def _condition(recommendation: Json) -> Json:
    conditions = (recommendation.get("status") or {}).get("conditions") or ()
    return next((each for each in conditions if each.get("type") == _CONDITION), {})


def _about(recommendation: Json) -> str:
    target = ((recommendation.get("spec") or {}).get("target") or {}).get("workload") or {}
    of = f" ({target.get('kind')} {target.get('name')})" if target else ""
    return clean(f"{_meta(recommendation, 'namespace')}/{_meta(recommendation, 'name')}{of}")


def _meta(recommendation: Json, name: str) -> str:
    return str((recommendation.get("metadata") or {}).get(name, ""))
