"""Ratios of CPU models and of resources."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from koord_manager.slo_config.core.colocation import (
    CPUNormalization,
    ModelRatios,
    RealtimeOvercommit,
    ResourceAmplification,
)
from koord_manager.slo_config.core.ratios_document import (
    overlay_amplification,
    overlay_normalization,
)

ALL = {
    "baseRatio": 1,
    "hyperThreadEnabledRatio": 2,
    "turboEnabledRatio": 3,
    "hyperThreadTurboEnabledRatio": 4,
}


def test_models_and_resources_are_laid_over_each_other_one_by_one():
    models = (("a", ModelRatios(base=1.2)), ("b", ModelRatios(base=1.3)))
    usual = CPUNormalization(enable=True, default_ratio=1.1, models=models)
    given, problems = {"ratioModel": {"b": {"turboEnabledRatio": 1.5}, "c": ALL}}, list[str]()
    found = overlay_normalization(usual, given, "here", problems)
    new = (
        ("b", ModelRatios(turbo=1.5)),
        ("c", ModelRatios(base=1, hyper_threads=2, turbo=3, both=4)),
    )
    assert (found, problems) == (replace(usual, models=(models[0], *new)), [])
    amplification = ResourceAmplification(ratios=(("cpu", 1.5), ("memory", 2.0)))
    given = {"enable": True, "resourceAmplificationRatio": {"cpu": 2, "memory": None}}
    assert overlay_amplification(amplification, given, "here", []) == ResourceAmplification(
        enable=True, ratios=(("cpu", 2.0), ("memory", 2.0))
    )


def test_real_time_bounds_of_ratios():
    ours = {"enable": True, "cpuTargetPercent": 70, "stepPercent": 0}
    given, problems = {"extensions": {"pykoord": {"realtime": ours}}}, list[str]()
    found = overlay_amplification(ResourceAmplification(), given, "here", problems)
    assert found.realtime == RealtimeOvercommit(enable=True, cpu_target_percent=70)
    (line,) = problems
    assert line.startswith("here extensions.pykoord.realtime.stepPercent is 0; expected 1 to 1000")


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
