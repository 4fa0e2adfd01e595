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


@pytest.mark.parametrize(
    ("on", "expected"),
    [
        ({}, "1.00"),
        ({"hyperThreadEnabled": True}, "1.20"),
        ({"turboEnabled": True}, "1.30"),
        ({"hyperThreadEnabled": True, "turboEnabled": True}, "1.57"),
    ],
)
def test_the_ratio_is_that_of_the_model_with_what_is_on(on: Any, expected: str) -> None:
    desired = cpu_normalization(NODE, topology(cpuModel=MODEL, **on), STRATEGY)
    assert ratio(desired) == expected
    assert str(desired.decisions[0]).startswith(
        f"CPU normalization ratio {expected} (ratio of model"
    )
    assert MODEL in str(desired.decisions[0])


@pytest.mark.parametrize(
    ("node", "enable", "expected"),
    [
        (NODE, True, "1.20"),
        (NODE, False, "1.00"),
        (labelled("true"), False, "1.20"),
        (labelled("True"), True, "1.20"),
        (labelled("false"), True, "1.00"),
        (labelled("0"), True, "1.00"),
    ],
)
def test_the_label_counts_before_the_strategy(node: Any, enable: bool, expected: str) -> None:
    strategy = CPUNormalization(enable=enable, models=STRATEGY.models)
    info = topology(cpuModel=MODEL, hyperThreadEnabled=True)
    assert ratio(cpu_normalization(node, info, strategy)) == expected


def test_switched_off_the_topology_does_not_matter() -> None:
    assert ratio(cpu_normalization(NODE, None, CPUNormalization())) == "1.00"


def test_a_model_without_a_ratio_has_the_default_one() -> None:
    partly = ((MODEL, ModelRatios(base=2.0)),)
    strategy = CPUNormalization(enable=True, default_ratio=1.1, models=partly)
    other = cpu_normalization(NODE, topology(cpuModel="Other"), strategy)
    assert ratio(other) == "1.10"
    assert other.decisions[0].formula == "default ratio"
    assert ratio(cpu_normalization(NODE, topology(cpuModel=MODEL), strategy)) == "2.00"
    turbo = topology(cpuModel=MODEL, turboEnabled=True)
    assert ratio(cpu_normalization(NODE, turbo, strategy)) == "1.10"


def with_ratio(number: float) -> CPUNormalization:
    return CPUNormalization(enable=True, default_ratio=number)


@pytest.mark.parametrize(("least_or_most", "text"), [(1.0, "1.00"), (5.0, "5.00")])
def test_the_bounds_are_valid(least_or_most: float, text: str) -> None:
    desired = cpu_normalization(NODE, topology(cpuModel="x"), with_ratio(least_or_most))
    assert ratio(desired) == text


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
