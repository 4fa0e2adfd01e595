"""Write Grafana's dashboards from their descriptions: ``python tools/dashboards.py``.

A description is a YAML file in ``deploy/grafana/descriptions``: the dashboard's variable, and rows
of panels. A panel has one of ``stat``, ``gauge`` (an expression) and ``lines`` (expressions by
legend). Panels of a row are put side by side, ``width`` of 24 columns each, in lines of ``height``.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

GRAFANA = Path(__file__).parents[1] / "deploy" / "grafana"
DESCRIPTIONS = GRAFANA / "descriptions"
_COLUMNS = 24
_SOURCE = {"type": "prometheus", "uid": "${datasource}"}
_CLASSES = {
    "LSE": "#43389f",
    "LSR": "#2f5bd7",
    "LS": "#17a2a2",
    "BE": "#f0a02f",
    "SYSTEM": "#5d6b7e",
    "system": "#8b97a7",
}
_PROCESS = (
    ("Memory", "bytes", "process_resident_memory_bytes"),
    ("CPU", "none", "rate(process_cpu_seconds_total[$__rate_interval])"),
    ("Open files", "none", "process_open_fds"),
)
_REDUCED = {"reduceOptions": {"calcs": ["lastNotNull"], "fields": "", "values": False}}
_OPTIONS: Mapping[str, dict[str, Any]] = {
    "stat": {**_REDUCED, "colorMode": "value", "graphMode": "area", "textMode": "auto"},
    "gauge": {**_REDUCED, "showThresholdMarkers": True, "showThresholdLabels": False},
    "lines": {
        "legend": {"displayMode": "list", "placement": "bottom", "showLegend": True},
        "tooltip": {"mode": "multi", "sort": "desc"},
    },
}

Description = Mapping[str, Any]


def dashboard(description: Description) -> dict[str, Any]:
    """The dashboard as Grafana imports it."""
    return {
        "uid": description["uid"],
        "title": description["title"],
        "description": description["about"],
        "tags": ["pykoord", description["title"]],
        "schemaVersion": 39,
        "version": description["version"],
        "editable": True,
        "graphTooltip": 1,
        "refresh": "10s",
        "time": {"from": "now-1h", "to": "now"},
        "timezone": "",
        "templating": {"list": list(_variables(description.get("variable")))},
        "annotations": {"list": []},
        "links": [],
        "panels": [
            {"id": number, **panel}
            for number, panel in enumerate(_panels(_rows(description)), start=1)
        ],
    }


def _variables(variable: Description | None) -> Iterator[dict[str, Any]]:
    common: dict[str, Any] = {"current": {}, "hide": 0}
    source = {"name": "datasource", "label": "Data source", "type": "datasource"}
    yield {**source, "query": "prometheus", **common}
    if variable is None:
        return
    name, many = variable["name"], variable.get("many", False)
    yield {
        "name": name,
        "label": name.capitalize(),
        "type": "query",
        "datasource": _SOURCE,
        "query": {"query": f"label_values({variable['of']}, {name})", "refId": name},
        "refresh": 2,
        "sort": 1,
        "multi": many,
        "includeAll": many,
        **common,
        **({"current": {"text": "All", "value": "$__all"}} if many else {}),
    }


def _rows(description: Description) -> list[Description]:
    """Its rows, and one of its processes: those that serve the series ``process``."""
    rows: list[Description] = list(description["rows"])
    if "process" in description:
        served_by = f"and on (instance, job) {description['process']}"
        panels = [
            {"title": title, "unit": unit, "lines": {"{{instance}}": f"{series} {served_by}"}}
            for title, unit, series in _PROCESS
        ]
        rows.append({"title": "Processes", "panels": panels})
    return rows


def _panels(rows: list[Description]) -> Iterator[dict[str, Any]]:
    y = 0
    for row in rows:
        place = {"x": 0, "y": y, "w": _COLUMNS, "h": 1}
        heading = {"type": "row", "title": row["title"], "collapsed": False}
        yield {**heading, "gridPos": place, "panels": []}
        x, y, height = 0, y + 1, row.get("height", 8)
        for panel in row["panels"]:
            width = panel.get("width", _COLUMNS // 2)
            if x + width > _COLUMNS:
                x, y = 0, y + height
            yield _panel(panel, {"x": x, "y": y, "w": width, "h": height})
            x += width
        y += height


def _panel(panel: Description, place: dict[str, int]) -> dict[str, Any]:
    kind = next(kind for kind in _OPTIONS if kind in panel)
    asked = panel[kind] if kind == "lines" else {"": panel[kind]}
    return {
        "type": "timeseries" if kind == "lines" else kind,
        "title": panel["title"],
        "description": panel.get("about", ""),
        "datasource": _SOURCE,
        "gridPos": place,
        "targets": [
            _target(chr(ord("A") + number), expression, legend)
            for number, (legend, expression) in enumerate(asked.items())
        ],
        "fieldConfig": {
            "defaults": _defaults(kind, panel),
            "overrides": list(_overrides(panel)),
        },
        "options": _OPTIONS[kind],
    }


def _target(letter: str, expression: str, legend: str) -> dict[str, Any]:
    return {
        "datasource": _SOURCE,
        "refId": letter,
        "expr": " ".join(expression.split()),
        "legendFormat": legend,
        "instant": False,
        "range": True,
        "format": "time_series",
    }


def _defaults(kind: str, panel: Description) -> dict[str, Any]:
    found: dict[str, Any] = {"unit": panel.get("unit", "none")}
    if not panel.get("log"):
        found["min"] = 0
    found |= {key: panel[key] for key in ("max", "decimals") if key in panel}
    if "colors" in panel:
        steps = [{"color": color, "value": value} for value, color in panel["colors"].items()]
        found["thresholds"] = {"mode": "absolute", "steps": steps}
        found["color"] = {"mode": "thresholds"}
    if kind == "lines":
        found["custom"] = _drawing(panel)
    return found


def _drawing(panel: Description) -> dict[str, Any]:
    stacked = panel.get("stacked", False)
    drawing: dict[str, Any] = {
        "drawStyle": "line",
        "lineWidth": 1,
        "fillOpacity": 70 if stacked else 10,
        "showPoints": "never",
        "spanNulls": 60000,
        "stacking": {"mode": "normal" if stacked else "none", "group": "A"},
    }
    if panel.get("log"):
        drawing["scaleDistribution"] = {"type": "log", "log": 10}
    return drawing


def _overrides(panel: Description) -> Iterator[dict[str, Any]]:
    """Colours of classes, and lines over stacked areas, by the beginning of their legends."""
    if panel.get("classes"):
        for name, color in _CLASSES.items():
            yield {"matcher": {"id": "byName", "options": name}, "properties": [_color(color)]}
    for beginning, color in panel.get("over", {}).items():
        properties = [
            _color(color),
            {"id": "custom.fillOpacity", "value": 0},
            {"id": "custom.lineWidth", "value": 2},
            {"id": "custom.stacking", "value": {"mode": "none", "group": "line"}},
        ]
        yield {
            "matcher": {"id": "byRegexp", "options": f"/{beginning}.*/"},
            "properties": properties,
        }


def _color(color: str) -> dict[str, Any]:
    return {"id": "color", "value": {"mode": "fixed", "fixedColor": color}}


def texts() -> dict[Path, str]:
    """The text of each dashboard, by its file."""
    return {
        GRAFANA / f"{path.stem}.json": json.dumps(
            dashboard(yaml.safe_load(path.read_text())), indent=2, ensure_ascii=False
        )
        + "\n"
        for path in sorted(DESCRIPTIONS.iterdir())
    }


if __name__ == "__main__":
    for file, text in texts().items():
        file.write_text(text)
