"""Ratios of CPU models and of resources."""

from __future__ import annotations

from typing import Any

import pytest
from koord_manager.slo_config.core.colocation import (
    CPUNormalization,
    ModelRatios,
    ResourceAmplification,
)
from koord_manager.slo_config.core.ratios_document import (
    overlay_amplification,
    overlay_normalization,
)


def test_models_are_laid_over_each_other_one_by_one():
    usual = CPUNormalization(
        enable=True,
        default_ratio=1.1,
        models=(("a", ModelRatios(base=1.2)), ("b", ModelRatios(base=1.3))),
    )
    given = {
        "ratioModel": {
            "b": {"turboEnabledRatio": 1.5},
            "c": {
                "baseRatio": 1,
                "hyperThreadEnabledRatio": 2,
                "turboEnabledRatio": 3,
                "hyperThreadTurboEnabledRatio": 4,
            },
        }
    }
    problems: list[str] = []
    assert overlay_normalization(usual, given, "here", problems) == CPUNormalization(
        enable=True,
        default_ratio=1.1,
        models=(
            ("a", ModelRatios(base=1.2)),
            ("b", ModelRatios(turbo=1.5)),
            ("c", ModelRatios(base=1, hyper_threads=2, turbo=3, both=4)),
        ),
    )
    assert problems == []


def test_resources_are_laid_over_each_other_one_by_one():
    usual = ResourceAmplification(ratios=(("cpu", 1.5), ("memory", 2.0)))
    given = {"enable": True, "resourceAmplificationRatio": {"cpu": 2, "memory": None}}
    found = overlay_amplification(usual, given, "here", [])
    assert found == ResourceAmplification(enable=True, ratios=(("cpu", 2.0), ("memory", 2.0)))


@pytest.mark.parametrize("ratio", [0.99, 5.01, "1.5", True, -1])
def test_ratios_out_of_range_are_named(ratio: Any):
    problems: list[str] = []
    given = {"defaultRatio": ratio}
    assert overlay_normalization(CPUNormalization(), given, "here", problems) == CPUNormalization()
    assert len(problems) == 1
    assert problems[0].startswith("here defaultRatio is ")
    given = {"resourceAmplificationRatio": {"cpu": 0.5 if ratio == 5.01 else ratio}}
    assert (
        overlay_amplification(ResourceAmplification(), given, "here", problems)
        == ResourceAmplification()
    )
    assert problems[1].startswith("here resourceAmplificationRatio.cpu is ")
