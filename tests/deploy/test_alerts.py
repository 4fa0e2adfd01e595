"""The PrometheusRule is what the docs say, of metrics that there are, and fires when it should."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.deploy.manifests import NAMESPACE, installed
from tests.docs.words import metric_rows
from tools import alert_rules
from tools.alert_rules import PAGES, RULE, groups, rule

OBJECT = installed("alerts")["PrometheusRule", NAMESPACE, "koordinator"]
ALERTS = [one for group in groups().values() for one in group]
PROMTOOL = shutil.which("promtool")
Cases = list[dict[str, Any]]
LAST = 90
"""Longest case, in intervals; those that end before have no values then, and cannot fire."""
needs_promtool = pytest.mark.skipif(PROMTOOL is None, reason="needs promtool (Debian: prometheus)")
_NAME = r"((?:koord|pykoord_|scheduler_|descheduler_)\w+)"
_METRIC = re.compile(rf"\b{_NAME}(?:\{{([^}}]*)\}})?")


def documented() -> dict[str, set[str]]:
    """The labels of each series that is scraped: test_operations holds those tables to the code."""
    found: dict[str, set[str]] = {}
    for page in PAGES:
        for name, kind, labels in metric_rows(page.read_text()):
            suffixes = {"counter": ["_total"], "histogram": ["_bucket", "_count", "_sum"]}
            for suffix in suffixes.get(kind, [""]):
                found[name + suffix] = labels
    return found


def test_it_is_made_of_the_tables() -> None:
    assert RULE.read_text() == rule(), "run: python tools/alert_rules.py"
    assert {one["name"] for one in OBJECT["spec"]["groups"]} == groups().keys()
    assert sum(len(one["rules"]) for one in OBJECT["spec"]["groups"]) == len(ALERTS) > 20


def test_rules_say_what_their_rows_say() -> None:
    rules = [one for group in OBJECT["spec"]["groups"] for one in group["rules"]]
    for made, alert in zip(rules, ALERTS, strict=True):
        assert (made["alert"], made["expr"]) == (alert.name, alert.expression)
        assert (made.get("for", ""), made["labels"]["severity"]) == (alert.wait, alert.severity)
        assert made["annotations"] == {"summary": alert.meaning, "runbook": alert.runbook}
        assert alert.severity in ("critical", "warning", "info")


@pytest.mark.parametrize("alert", ALERTS, ids=lambda alert: alert.name)
def test_metrics_and_labels_are_those_served(alert: alert_rules.Alert) -> None:
    series = documented()
    asked = _METRIC.findall(alert.expression)
    assert asked
    for name, matchers in asked:
        assert name in series
        assert set(re.findall(r"(\w+)=~?", matchers)) <= series[name]


@needs_promtool
def test_promtool_takes_the_rules(tmp_path: Path) -> None:
    rules = write(tmp_path / "rules.yaml", OBJECT["spec"])
    assert f"SUCCESS: {len(ALERTS)} rules found" in promtool("check", [rules])


@needs_promtool
def test_each_alert_fires_when_it_should_and_not_at_the_border(tmp_path: Path) -> None:
    cases = yaml.safe_load((Path(__file__).parent / "alert_cases.yaml").read_text())
    assert list(cases) == [alert.name for alert in ALERTS]
    files = [
        file
        for group in OBJECT["spec"]["groups"]
        for file in files_of_tests(group, cases, tmp_path / group["name"])
    ]
    assert promtool("test", files).count("SUCCESS") == len(files)


def files_of_tests(group: dict[str, Any], cases: Mapping[str, Cases], folder: Path) -> list[Path]:
    """The unit tests of a group of rules, by interval: all rules of a file are tried."""
    folder.mkdir()
    write(folder / "rules.yaml", {"groups": [group]})
    tests: dict[str, list[dict[str, Any]]] = {}
    for alert in (one["alert"] for one in group["rules"]):
        assert {"fires", "never"} <= {key for case in cases[alert] for key in case}, alert
        for case in cases[alert]:
            interval = case.get("interval", "1m")
            tests.setdefault(interval, []).append(unit_test(alert, case, interval))
    head = {"rule_files": ["rules.yaml"]}
    return [
        write(folder / f"{interval}.yaml", {**head, "evaluation_interval": interval, "tests": some})
        for interval, some in tests.items()
    ]


def unit_test(alert: str, case: dict[str, Any], interval: str) -> dict[str, Any]:
    """A unit test of promtool; labels do not matter, so that alerts are counted."""
    firing = f'ALERTS{{alertname="{alert}",alertstate="firing"}}'
    if "never" in case:
        asked = [(f"max_over_time({firing}[3d])", LAST, 0)]
    else:
        asked = [(firing, case["fires"] - 1, 0), (firing, case["fires"], 1)]
        if "ends" in case:
            asked += [(firing, case["ends"] - 1, 1), (firing, case["ends"], 0)]
    return {
        "name": f"{alert}, {case}",
        "interval": interval,
        "input_series": [
            {"series": name, "values": values} for name, values in case["series"].items()
        ],
        "promql_expr_test": [
            {
                "expr": f"(count({series}) > 0 or vector(0)) > bool 0",
                "eval_time": f"{time}{interval[-1]}",
                "exp_samples": [{"labels": "{}", "value": is_firing}],
            }
            for series, time, is_firing in asked
            if time >= 0
        ],
    }


def promtool(verb: str, files: list[Path]) -> str:
    """Output of promtool about rules, or about tests of them."""
    assert PROMTOOL is not None
    command = [PROMTOOL, verb, "rules", *map(str, files)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def write(file: Path, document: dict[str, Any]) -> Path:
    file.write_text(yaml.safe_dump(document))
    return file
