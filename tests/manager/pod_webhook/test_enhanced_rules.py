from __future__ import annotations

import json

import pytest
from koord_manager.pod_webhook import document
from koord_manager.pod_webhook.enhanced_rules import problems, read
from koord_manager.webhooks.cluster_view import ClusterView

TEAMS = {"name": "teams", "requiredLabels": ["team", "app"], "namespaceWhitelist": ["free"]}
COSTS = {"name": "costs", "requiredLabels": ["cost"]}


def view(rules: object, enable: str = "true", *, gate: bool = True) -> ClusterView:
    text = rules if isinstance(rules, str) else json.dumps(rules)
    return ClusterView(
        enhanced_validation={"enable": enable, "rules": text},
        gates={"EnablePodEnhancedValidator": gate},
    )


def found(cluster: ClusterView, namespace: str = "ns", **labels: str) -> list[str]:
    named = {name.replace("_", "/"): value for name, value in labels.items()}
    pod = document.read({"metadata": {"labels": named}, "spec": {"containers": []}})
    missing, _ = problems(pod, namespace, cluster)
    return missing


def test_each_missing_label_by_its_rule() -> None:
    cluster = view([TEAMS, COSTS])
    assert found(cluster, team="a", app="b", cost="c") == []
    assert found(cluster, team="") == [
        'label "app" is missing; expected by rule "teams"',
        'label "cost" is missing; expected by rule "costs"',
    ]
    assert found(cluster, "free") == ['label "cost" is missing; expected by rule "costs"']


@pytest.mark.parametrize(
    "cluster",
    [
        view([COSTS], gate=False),
        view([COSTS], "false"),
        view([COSTS], ""),
        view([]),
        view(""),
        ClusterView(gates={"EnablePodEnhancedValidator": True}),
    ],
)
def test_nothing_is_asked_for_that_is_not_enabled(cluster: ClusterView) -> None:
    assert found(cluster) == []


def test_enabled_as_people_write_it() -> None:
    assert len(found(view([COSTS], " True "))) == 1


def test_a_pod_may_opt_out() -> None:
    labels = {"pod.koordinator.sh/skip-enhanced-validation": "true"}
    pod = document.read({"metadata": {"labels": labels}, "spec": {"containers": []}})
    assert problems(pod, "ns", view([COSTS])) == ([], [])


@pytest.mark.parametrize(
    ("rules", "names", "line"),
    [
        ("[", [], 'rules: "[" is not valid JSON (no rule is used)'),
        ({"name": "a"}, [], "rules is an object; expected a list (left out)"),
        ([COSTS, 1], ["costs"], "rules[1] is 1; expected an object (left out)"),
        (
            [{"name": "a", "requiredLabels": "team"}, COSTS],
            ["costs"],
            'rules[0].requiredLabels is "team"; expected a list of text (the rule is left out)',
        ),
        (
            [{"name": "a", "requiredLabels": ["b"], "namespaceWhitelist": [1]}],
            [],
            "rules[0].namespaceWhitelist is a list; expected a list of text (the rule is left out)",
        ),
    ],
)
def test_a_rule_that_cannot_be_used_is_left_out_and_reported(
    rules: object, names: list[str], line: str
) -> None:
    found = read(view(rules).enhanced_validation)
    assert [rule.name for rule in found.rules] == names
    assert found.ignored == (f"ConfigMap pod-enhanced-validator-config {line}",)
    pod = document.read({"spec": {"containers": []}})
    assert problems(pod, "ns", view(rules))[1] == list(found.ignored)
