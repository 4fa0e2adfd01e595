"""Metrics and alerts of all programs.

They come from the tables of the pages about monitoring, which tests hold to what programs serve.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from tools import alert_rules
from tools.docs_site.reference.markdown import code, table

DOCS = Path(__file__).parents[3] / "docs"
_TABLE = re.compile(r"<!-- metrics.*? -->\n(.*?)<!-- end -->", re.DOTALL)
_CELL = re.compile(r"(?<!\\)\|")


def metrics() -> str:
    """Return all metrics by name, each with the page that has its labels."""
    rows = sorted(row for page in alert_rules.PAGES for row in _metrics_of(page))
    return table(("metric", "type", "what it counts", "more"), rows)


def _metrics_of(page: Path) -> Iterator[tuple[str, str, str, str]]:
    part = page.parent.name
    for found in _TABLE.findall(page.read_text()):
        for line in found.splitlines()[2:]:
            name, kind, _, about = (cell.strip() for cell in _CELL.split(line)[1:-1])
            yield name, kind, _without_links(about), f"[{part}](../{part}/monitoring.md)"


def _without_links(text: str) -> str:
    # Paths there are of the other page.
    return re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", text).replace("\\|", "|")


def alerts() -> str:
    """Return the alerts of each group."""
    return "\n".join(
        f"## Alerts of {group}\n\n"
        + table(
            ("alert", "severity", "for", "what it means", "while"),
            (
                (
                    code(alert.name),
                    alert.severity,
                    alert.wait,
                    alert.meaning,
                    code(alert.expression),
                )
                for alert in alerts
            ),
        )
        for group, alerts in alert_rules.groups().items()
    )
