"""``node-backstop-config``: rules by node, and a line for whatever cannot be used."""

from __future__ import annotations

import json
from typing import Any

import pytest
from koord_manager.slo_config.core.backstop import (
    BackstopRule,
    ConditionRule,
    ConditionStatus,
    EvictScope,
    TaintEffect,
)
from koord_manager.slo_config.core.config import DEFAULTS, NODE_BACKSTOP, advance


def problems(document: Any) -> list[str]:
    _, found = advance(DEFAULTS, {NODE_BACKSTOP: json.dumps(document)})
    return [problem.line for problem in found]


def test_nodes_have_the_clusters_rules_and_their_own() -> None:
    gpu = {"name": "gpu", "nodeSelector": {"matchLabels": {"pool": "gpu"}}}
    document = {
        "conditions": {"KernelDeadlock": {"evict": "all"}},
        "nodeConfigs": [
            gpu
            | {
                "koordletSilent": {"effect": "PreferNoSchedule"},
                "conditions": {"GpuHealthy": {"status": "False", "afterSeconds": 0}},
            }
        ],
    }
    config, found = advance(DEFAULTS, {NODE_BACKSTOP: json.dumps(document)})
    assert found == ()
    deadlock = ConditionRule(rule=BackstopRule(evict=EvictScope.ALL))
    usual = config.backstop.of({})
    assert usual.silent == BackstopRule(evict=EvictScope.BE)
    assert usual.conditions == (("KernelDeadlock", deadlock),)
    of_gpus = config.backstop.of({"pool": "gpu"})
    assert of_gpus.silent == BackstopRule(effect=TaintEffect.PREFER_NO_SCHEDULE)
    assert of_gpus.conditions == (
        ("GpuHealthy", ConditionRule(ConditionStatus.FALSE, 0)),
        ("KernelDeadlock", deadlock),
    )


@pytest.mark.parametrize(
    ("document", "line"),
    [
        ({"conditions": 7}, "conditions is 7; expected an object"),
        (
            {"conditions": {"a/b": {}}},
            "conditions.a/b is an object; expected a name of at most 63 letters, digits and .-_",
        ),
        (
            {"conditions": {"Ready": {}}},
            "conditions.Ready is an object; expected nothing: Kubernetes taints nodes for it",
        ),
        (
            {"conditions": {"X": {"afterSeconds": -1}}},
            "conditions.X.afterSeconds is -1; expected 0 to 86400",
        ),
        (
            {"conditions": {"X": {"effect": "NoExecute"}}},
            'conditions.X.effect is "NoExecute"; expected NoSchedule or PreferNoSchedule',
        ),
        (
            {"koordletSilent": {"evict": "some"}},
            'koordletSilent.evict is "some"; expected none, BE or all',
        ),
        (
            {"koordletSilent": {"evict": "BE", "effect": "PreferNoSchedule"}},
            'koordletSilent.evict is "BE"; expected none, as the effect is PreferNoSchedule',
        ),
        (
            {"conditions": {f"X{number}": {} for number in range(33)}},
            "conditions is an object; expected 32 conditions or fewer",
        ),
    ],
)
def test_what_cannot_be_used_is_one_line(document: Any, line: str) -> None:
    assert problems(document) == [f"{NODE_BACKSTOP} {line}"]
