"""``koordctl quota``: what quotas use, and those of scheduler-plugins as Koordinator's, or back."""

from __future__ import annotations

import argparse
import json
from typing import TYPE_CHECKING, Any

from koordctl import cluster_client, manifests, quota_tree
from koordctl.errors import AskError
from koordctl.manifests import read_file
from koordctl.output.result import CommandOutput
from koordctl.quota_conversion import QuotaApi, converted
from koordctl.status_client import SCHEDULER, ask

if TYPE_CHECKING:
    from koord_kube.client import Client

_PAGE = "/apis/v1/plugins/ElasticQuota/quotas"
_TO = {"koordinator": QuotaApi.KOORDINATOR, "scheduler-plugins": QuotaApi.SCHEDULER_PLUGINS}


def add_tree(parser: argparse.ArgumentParser) -> None:
    """The flags of ``koordctl quota tree``."""
    parser.add_argument(
        "--address",
        default="",
        metavar="HOST:PORT",
        help="--bind-address and --port of the scheduler, to show what it knows itself (default: "
        "the ElasticQuotas of the API)",
    )
    cluster_client.add_arguments(parser)


def run_tree(arguments: argparse.Namespace) -> CommandOutput:
    """The quotas of the cluster. Raises AskError."""
    if arguments.address:
        body = ask(arguments.address, _PAGE, SCHEDULER)
        try:
            shown = quota_tree.documents_of(json.loads(body))
        except (ValueError, AttributeError) as error:
            raise AskError(f"koord-scheduler's answer cannot be read: {error}") from None
        return CommandOutput(shown, quota_tree.lines(shown))
    from koord_kube.protocol.resources import ELASTIC_QUOTAS

    async def question(api: Client) -> list[Any]:
        return await cluster_client.objects(api, ELASTIC_QUOTAS)

    found = cluster_client.ask_cluster(arguments, question)
    return CommandOutput(found, quota_tree.lines(found))


def add_convert(parser: argparse.ArgumentParser) -> None:
    """The flags of ``koordctl quota convert``."""
    parser.add_argument(
        "file", metavar="FILE", help='file of ElasticQuotas, YAML or JSON; "-" is standard input'
    )
    parser.add_argument(
        "--to",
        choices=tuple(_TO),
        default="koordinator",
        help="whose API to convert to (default: %(default)s)",
    )


def run_convert(arguments: argparse.Namespace) -> CommandOutput:
    """The quotas, as YAML that ``kubectl apply`` takes, or as JSON. Raises AskError."""
    try:
        found = converted(read_file(arguments.file), _TO[arguments.to])
    except ValueError as error:
        raise AskError(f"{arguments.file}: {error}") from None
    return manifests.report(found)
