"""Write the PrometheusRule of the alerts that the docs name: ``python tools/alert_rules.py``.

A table between ``<!-- alerts: GROUP -->`` and the next ``<!-- end -->`` is a group of rules, a row
a rule: name, expression, for how long, severity, what it means, where the docs say what to do.
``new SERIES in 15m`` is true of a counter that has increased, or has just begun: a new series has
no increase yet.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = (
    DOCS / "operations/monitoring.md",
    DOCS / "manager/monitoring.md",
    DOCS / "scheduler/monitoring.md",
    DOCS / "descheduler/monitoring.md",
)
RULE = ROOT / "deploy" / "components" / "alerts" / "rule.yaml"
MADE = "# Made by tools/alert_rules.py of tables in docs; do not edit.\n"
_HEAD = """\
apiVersion: monitoring.coreos.com/v1
kind: PrometheusRule
metadata:
  name: koordinator
  namespace: koordinator-system # chart: namespace
  labels: {} # chart: monitoring.labels, by which your Prometheus selects rules and monitors
spec:
  groups:
"""
_TABLE = re.compile(r"<!-- alerts: (\S+) -->\n(.*?)<!-- end -->", re.DOTALL)
_NEW = re.compile(r"new (\S+) in (\w+)")
_LINK = re.compile(r"\[[^]]+\]\(([^)#]+)#([^)]+)\)")
_CELLS = re.compile(r"(?<!\\)\|")


class Alert(NamedTuple):
    """A row; ``wait`` is "" where it is not waited for, ``runbook`` a path and heading in docs."""

    name: str
    expression: str
    wait: str
    severity: str
    meaning: str
    runbook: str


def groups() -> dict[str, list[Alert]]:
    """The alerts of all pages, by their group."""
    return {
        name: [_alert(line, page) for line in table.splitlines()[2:]]
        for page in PAGES
        for name, table in _TABLE.findall(page.read_text())
    }


def rule() -> str:
    """The object, as YAML with the marks that the chart is made by."""
    return MADE + _HEAD + "".join(f"{line}\n" for line in _lines())


def _alert(row: str, page: Path) -> Alert:
    """A row of a Markdown table.

    Raises:
        ValueError: it does not have a row's cells, or its last is not a link.
    """
    _, *cells, _ = (cell.strip().replace("\\|", "|") for cell in _CELLS.split(row))
    if len(cells) != len(Alert._fields):
        raise ValueError(f'"{row}" has {len(cells)} cells; expected {", ".join(Alert._fields)}')
    name, expression, wait, severity, meaning, see = cells
    link = _LINK.fullmatch(see)
    if link is None:
        raise ValueError(
            f'"{see}" of {name} is not a link to a section; expected [TEXT](PAGE#SECTION)'
        )
    plain = meaning.replace("`", "'")
    full = _NEW.sub(r"increase(\1[\2]) > 0 or (\1 > 0 unless \1 offset \2)", expression.strip("`"))
    section = f"{(page.parent / link[1]).resolve().relative_to(ROOT)}#{link[2]}"
    return Alert(name.strip("`"), full, wait.strip("–"), severity, plain, section)


def _lines() -> Iterator[str]:
    for name, alerts in groups().items():
        yield f"    - name: {name}"
        yield "      rules:"
        for alert in alerts:
            yield f"        - alert: {alert.name}"
            yield f"          expr: {json.dumps(alert.expression)}"
            if alert.wait:
                yield f"          for: {alert.wait}"
            yield f"          labels: {{severity: {alert.severity}}}"
            yield "          annotations:"
            yield f"            summary: {json.dumps(alert.meaning)}"
            yield f"            runbook: {json.dumps(alert.runbook)}"


if __name__ == "__main__":
    RULE.write_text(rule())
