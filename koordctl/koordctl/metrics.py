"""``koordctl metrics``: recent measurements by koordlet, with sparklines."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence

from koord_service.http_targets import with_query

from koordctl.amounts import formatter, sparkline
from koordctl.koordlet_client import ask_koordlet
from koordctl.koordlet_documents import MetricKindsDocument, SeriesDocument, SeriesRow
from koordctl.output.documents import from_page
from koordctl.output.result import CommandOutput
from koordctl.output.tables import Block, table
from koordctl.render import clean

_CURVE = 40
_IN_NAMES = ("pod_uid", "container_id")
_OWN = ("kind", "window", "aggregation", "points", "step")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The flags of ``koordctl metrics query``."""
    parser.add_argument("kind", metavar="KIND", help='such as pod_cpu_usage; see "metrics kinds"')
    parser.add_argument(
        "labels",
        nargs="*",
        type=_label,
        metavar="LABEL=VALUE",
        help="only series with this label",
    )
    parser.add_argument(
        "--window",
        default="30m",
        metavar="TIME",
        help="how far back: 90s, 5m, 12h (default: %(default)s)",
    )
    parser.add_argument(
        "--aggregation",
        default="avg,p95,max,last",
        metavar="NAMES",
        help="any of avg, p50, p90, p95, p99, last, count, min, max (default: %(default)s)",
    )


def run_query(arguments: argparse.Namespace) -> CommandOutput:
    """The aggregates of each series, and its curve.

    Raises:
        AskError: koordlet does not answer, or knows no such kind, label, window …
    """
    parameters = [
        ("kind", arguments.kind),
        ("window", arguments.window),
        ("aggregation", arguments.aggregation),
        ("points", "1"),
        *arguments.labels,
    ]
    page = with_query("/v1/metrics/query", parameters)
    body, found = ask_koordlet(arguments.address, page, SeriesDocument)
    document, problem = from_page(body, SeriesDocument), None if found.series else ""
    return CommandOutput(document, query_lines(found), problem)


def run_kinds(arguments: argparse.Namespace) -> CommandOutput:
    """List the kinds of metrics.

    Raises:
        AskError: koordlet does not answer, or not this.
    """
    body, found = ask_koordlet(arguments.address, "/v1/metrics/kinds", MetricKindsDocument)
    return CommandOutput(from_page(body, MetricKindsDocument), kind_lines(found))


def query_lines(found: SeriesDocument) -> Iterator[Block]:
    """A line a series; each curve goes from 0 to its own greatest value."""
    if not found.series:
        yield f"{clean(found.kind)}: nothing measured in the last {found.window_seconds:g} s."
        return
    names = list(found.series[0].values)
    header = ("SERIES", *(name.upper() for name in names), f"OVER {_span(found.window_seconds)}")
    rows = sorted(_row(series, names, found.unit) for series in found.series)
    yield table([header, *rows], words=(0, len(header) - 1))
    if found.left_out:
        yield f"{found.left_out} more series not shown; give LABEL=VALUE to select some."


def kind_lines(found: MetricKindsDocument) -> Iterator[Block]:
    """A line a kind."""
    rows = [
        (clean(kind.name), clean(kind.unit), clean(kind.meaning), clean(", ".join(kind.labels)))
        for kind in found.kinds
    ]
    yield table([("KIND", "UNIT", "MEANING", "LABELS"), *rows], words=(0, 1, 2, 3))


def _row(curve: SeriesRow, names: Sequence[str], unit: str) -> tuple[str, ...]:
    shown = formatter(unit)
    values = [
        str(int(curve.values[name])) if name == "count" else shown(curve.values.get(name))
        for name in names
    ]
    return (_name(curve), *values, sparkline(curve.points, _CURVE))


def _name(curve: SeriesRow) -> str:
    """The pod's or container's name, and the other labels of the series."""
    labels = curve.labels.items()
    rest = [value for name, value in labels if not (curve.who and name in _IN_NAMES)]
    return clean(" ".join([curve.who, *rest])) or "node"


def _span(seconds: float) -> str:
    for unit, length in (("H", 3600), ("M", 60)):
        if seconds >= length and seconds % length == 0:
            return f"{seconds / length:g} {unit}"
    return f"{seconds:g} S"


def _label(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not (name and equals) or name in _OWN:
        raise argparse.ArgumentTypeError(f'"{text}" is not a label; expected LABEL=VALUE')
    return name, value
