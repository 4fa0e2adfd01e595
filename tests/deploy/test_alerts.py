"""The PrometheusRule is what the docs say, of metrics that there are, and fires when it should."""

from __future__ import annotations

import re
import shutil
import subprocess
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
        assert made["annotations"]["summary"]
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
    done = promtool("check", tmp_path, {})
    assert f"SUCCESS: {len(ALERTS)} rules found" in done


@needs_promtool
def test_rules_fire_when_they_should_and_not_before(tmp_path: Path) -> None:
    refused = 'koord_runtime_proxy_intercepted_calls_total{result="refused",instance="n1"}'
    tests = [
        # The leader is gone for some minutes; two replicas are scraped all the time.
        expects(
            {'koord_manager_leader{pod="a"}': "1x5 0x20", 'koord_manager_leader{pod="b"}': "0x25"},
            "KoordManagerNotOneLeader",
            {"5m": False, "7m": False, "9m": True},
        ),
        # A counter whose row comes up with the first refusal, and one that stands still.
        expects(
            {refused: "_x10 1x60", refused.replace("n1", "n2"): "7x70"},
            "KoordRuntimeProxyRefuses",
            # A Prometheus that has just begun takes n2 for new.
            {"9m": True, "12m": True, "16m": True, "40m": False},
        ),
        *scheduler_tests(),
    ]
    assert "SUCCESS" in promtool("test", tmp_path, {"tests": tests})


def scheduler_tests() -> list[dict[str, Any]]:
    """The scheduler's, of which two have to tell it from a kube-scheduler at instance "k"."""
    leader = 'pykoord_scheduler_leader{instance="a"}'
    attempts = 'scheduler_schedule_attempts_total{{result="{}",instance="{}"}}'.format
    waiting = 'scheduler_pending_pods{{queue="unschedulable",instance="{}"}}'.format
    unsent, bound = (
        f'{name}{{instance="a"}}'
        for name in (
            "pykoord_scheduler_unsent_bindings",
            "scheduler_pod_scheduling_sli_duration_seconds_count",
        )
    )
    fails, late = {"30m": False, "60m": True}, {"30m": False, "75m": True}
    return [
        expects({leader: "1x5 _x2000"}, "KoordSchedulerAbsent", {"9m": False, "16m": True}),
        expects(
            {
                leader: "1x90",
                attempts("scheduled", "a"): "0+100x90",
                attempts("error", "a"): "0x30 0+2x60",
                attempts("scheduled", "k"): "0+100x90",
                attempts("error", "k"): "0+50x90",
            },
            "KoordSchedulerBindingsFail",
            fails,
        ),
        expects(
            {leader: "1x90", waiting("k"): "3x90", waiting("a"): "0x35 1x60"},
            "KoordSchedulerPodsUnschedulable",
            late,
        ),
        # All the time some are under way; at last none gets done, or there are too many.
        expects({unsent: "9x90", bound: "0+50x40 2000x50"}, "KoordSchedulerBindingsWait", fails),
        expects({unsent: "9x30 999x60", bound: "0+5x90"}, "KoordSchedulerBindingsWait", fails),
    ]


def expects(series: dict[str, str], alert: str, fires: dict[str, bool]) -> dict[str, Any]:
    """A unit test of promtool; labels do not matter, so that alerts are counted."""
    count = f'count(ALERTS{{alertname="{alert}",alertstate="firing"}}) > 0 or vector(0)'
    return {
        "interval": "1m",
        "input_series": [{"series": name, "values": values} for name, values in series.items()],
        "promql_expr_test": [
            {
                "expr": f"({count}) > bool 0",
                "eval_time": at,
                "exp_samples": [{"labels": "{}", "value": int(firing)}],
            }
            for at, firing in fires.items()
        ],
    }


def promtool(verb: str, folder: Path, tests: dict[str, Any]) -> str:
    """What it says of the rules, or of tests of them."""
    rules = folder / "rules.yaml"
    rules.write_text(yaml.safe_dump(OBJECT["spec"]))
    file = rules
    if verb == "test":
        file = folder / "tests.yaml"
        file.write_text(yaml.safe_dump({"rule_files": [str(rules)], **tests}))
    assert PROMTOOL is not None
    command = [PROMTOOL, verb, "rules", str(file)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
