"""``koordctl quota convert``: quotas of scheduler-plugins as Koordinator's, or back."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable

import yaml

from koordctl.manifests import read_file
from koordctl.quota_conversion import QuotaApi, converted
from koordctl.status_client import AskError

_TO = {"koordinator": QuotaApi.KOORDINATOR, "scheduler-plugins": QuotaApi.SCHEDULER_PLUGINS}


def add_convert(parser: argparse.ArgumentParser) -> None:
    """The flags of ``koordctl quota convert``."""
    parser.add_argument("file", help='file of ElasticQuotas, YAML or JSON; "-" is standard input')
    parser.add_argument(
        "--to", choices=tuple(_TO), default="koordinator", help="whose (default: %(default)s)"
    )


def run_convert(arguments: argparse.Namespace) -> Iterable[str]:
    """The quotas, as YAML that ``kubectl apply`` takes, or as JSON. Raises AskError."""
    try:
        found = converted(read_file(arguments.file), _TO[arguments.to])
    except ValueError as error:
        raise AskError(f"{arguments.file}: {error}") from None
    if arguments.json:
        items = {"apiVersion": "v1", "kind": "List", "items": found}
        return [json.dumps(items, indent=2)]
    return [yaml.safe_dump_all(found, sort_keys=False, allow_unicode=True).rstrip("\n")]
