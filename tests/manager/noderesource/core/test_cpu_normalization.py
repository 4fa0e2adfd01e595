import json
from typing import Any

import pytest
from koord_manager.noderesource.core.cpu_normalization import cpu_normalization, ratio_in_force
from koord_manager.noderesource.core.desired_node import DesiredNode
from koord_manager.slo_config.core.colocation import CPUNormalization, ModelRatios
from koord_model.keys import (
    ANNOTATION_CPU_BASIC_INFO,
    ANNOTATION_CPU_NORMALIZATION_RATIO,
    LABEL_CPU_NORMALIZATION_ENABLED,
)

MODEL = "Fast CPU @ 3.00GHz"
STRATEGY = CPUNormalization(
    enable=True, models=((MODEL, ModelRatios(base=1.0, hyper_threads=1.2, turbo=1.3, both=1.567)),)
)
NODE: dict[str, Any] = {"metadata": {"name": "n1"}}


def labelled(word: str) -> dict[str, Any]:
    return {"metadata": {"labels": {LABEL_CPU_NORMALIZATION_ENABLED: word}}}


def topology(**info: object) -> dict[str, Any]:
    return {"metadata": {"annotations": {ANNOTATION_CPU_BASIC_INFO: json.dumps(info)}}}


def ratio(desired: DesiredNode) -> str | None:
    assert len(desired.decisions) == 1
    assert not desired.labels
    assert not desired.resources
    return desired.annotations.get(ANNOTATION_CPU_NORMALIZATION_RATIO)


def with_ratio(number: float) -> CPUNormalization:
    return CPUNormalization(enable=True, default_ratio=number)


PARTLY = CPUNormalization(enable=True, default_ratio=1.1, models=((MODEL, ModelRatios(base=2.0)),))
SWITCHED_OFF = CPUNormalization(models=STRATEGY.models)
HT, TURBO = {"hyperThreadEnabled": True}, {"turboEnabled": True}


@pytest.mark.parametrize(
    ("node", "info", "strategy", "expected"),
    [
        (NODE, topology(cpuModel=MODEL), STRATEGY, "1.00"),
        (NODE, topology(cpuModel=MODEL, **HT), STRATEGY, "1.20"),
        (NODE, topology(cpuModel=MODEL, **TURBO), STRATEGY, "1.30"),
        (NODE, topology(cpuModel=MODEL, **HT, **TURBO), STRATEGY, "1.57"),
        # The label counts before the strategy.
        (labelled("true"), topology(cpuModel=MODEL, **HT), SWITCHED_OFF, "1.20"),
        (labelled("True"), topology(cpuModel=MODEL, **HT), STRATEGY, "1.20"),
        (labelled("false"), topology(cpuModel=MODEL, **HT), STRATEGY, "1.00"),
        (labelled("0"), topology(cpuModel=MODEL, **HT), STRATEGY, "1.00"),
        (NODE, topology(cpuModel=MODEL, **HT), SWITCHED_OFF, "1.00"),
        # Switched off, the topology does not matter.
        (NODE, None, CPUNormalization(), "1.00"),
        # What has no ratio has the default one, which may be at its bounds.
        (NODE, topology(cpuModel="Other"), PARTLY, "1.10"),
        (NODE, topology(cpuModel=MODEL), PARTLY, "2.00"),
        (NODE, topology(cpuModel=MODEL, **TURBO), PARTLY, "1.10"),
        (NODE, topology(cpuModel="x"), with_ratio(1.0), "1.00"),
        (NODE, topology(cpuModel="x"), with_ratio(5.0), "5.00"),
    ],
)
def test_the_ratio(node: Any, info: Any, strategy: CPUNormalization, expected: str) -> None:
    assert ratio(cpu_normalization(node, info, strategy)) == expected


def test_the_decision_says_where_the_ratio_comes_from() -> None:
    [decision] = cpu_normalization(NODE, topology(cpuModel=MODEL, **HT), STRATEGY).decisions
    assert str(decision).startswith("CPU normalization ratio 1.20 (ratio of model")
    assert MODEL in str(decision)
    [other] = cpu_normalization(NODE, topology(cpuModel="Other"), PARTLY).decisions
    assert other.formula == "default ratio"


@pytest.mark.parametrize(
    ("node", "info", "strategy", "why"),
    [
        (NODE, None, STRATEGY, "no NodeResourceTopology"),
        (NODE, {"metadata": {}}, STRATEGY, "names no CPU model"),
        (NODE, topology(vendorID="GenuineIntel"), STRATEGY, "names no CPU model"),
        (NODE, topology(cpuModel=3), STRATEGY, "cpuModel is 3; expected text"),
        (NODE, topology(cpuModel="Other"), STRATEGY, "no ratio for CPU model"),
        (NODE, topology(cpuModel="x"), with_ratio(0.99), "is 0.99; expected 1 to 5"),
        (NODE, topology(cpuModel="x"), with_ratio(5.01), "is 5.01; expected 1 to 5"),
        (labelled("maybe"), topology(cpuModel=MODEL), STRATEGY, "expected true or false"),
    ],
)
def test_what_cannot_be_found_out_is_left_as_it_is(
    node: Any, info: Any, strategy: CPUNormalization, why: str
) -> None:
    desired = cpu_normalization(node, info, strategy)
    assert ratio(desired) is None
    assert why in desired.decisions[0].outcome


def test_the_ratio_in_force_is_the_one_wished_for_or_that_of_the_node() -> None:
    node = {"metadata": {"annotations": {ANNOTATION_CPU_NORMALIZATION_RATIO: "1.50"}}}
    desired = cpu_normalization(node, topology(cpuModel=MODEL, turboEnabled=True), STRATEGY)
    assert ratio_in_force(node, desired) == 1.3
    assert ratio_in_force(node, DesiredNode()) == 1.5
    assert ratio_in_force(NODE, DesiredNode()) == 1.0
