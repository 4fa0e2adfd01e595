from __future__ import annotations

from dataclasses import replace

import pytest
from koord_manager.noderesource.core.outcomes import LONGEST, ResourceOutcome, said, short
from koord_manager.slo_config.core.colocation import (
    CalculatePolicy,
    ColocationStrategy,
    MidReclaimMode,
)

USUAL = ColocationStrategy()


@pytest.mark.parametrize("outcome", ResourceOutcome)
@pytest.mark.parametrize("tier", [0, 1])
@pytest.mark.parametrize("resource", [0, 1])
def test_each_outcome_names_what_it_is_about(
    outcome: ResourceOutcome, tier: int, resource: int
) -> None:
    line = said(outcome, tier, resource, USUAL)
    assert f"{('batch', 'mid')[tier]}-{('cpu', 'memory')[resource]}" in line
    assert len(line) < 120


@pytest.mark.parametrize(
    ("policy", "cpu", "memory"),
    [
        (CalculatePolicy.USAGE, "use", "use"),
        (CalculatePolicy.REQUEST, "use", "ask for"),
        (CalculatePolicy.MAX_USAGE_REQUEST, "whichever is more", "whichever is more"),
    ],
)
def test_a_policy_is_in_the_words(policy: CalculatePolicy, cpu: str, memory: str) -> None:
    strategy = replace(USUAL, cpu_policy=policy, memory_policy=policy)
    assert said(ResourceOutcome.LEFT, 0, 0, strategy).endswith(cpu)
    assert said(ResourceOutcome.LEFT, 0, 1, strategy).endswith(memory)


def test_a_static_share_says_so() -> None:
    static = replace(USUAL, mid_mode=MidReclaimMode.STATIC)
    assert said(ResourceOutcome.LEFT, 1, 0, static) == "mid-cpu is the configured share"


def test_the_text_is_cut_where_amounts_are_absurd() -> None:
    terms = dict.fromkeys(("offered", "capacity", "margin", "kept", "high"), 1 << 53)
    text = short({"cpu": "", "memory": ""}, {"cpu": terms, "memory": terms})
    assert len(text) <= LONGEST
    assert text.startswith("cpu 9007199254741 cores of ")
