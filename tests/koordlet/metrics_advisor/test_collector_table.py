"""Collectors are found by their files, and switched on by gates and settings."""

from __future__ import annotations

import dataclasses
from dataclasses import asdict
from pathlib import Path

import pytest
from koord_host.knobs.layout import Driver, Layout
from koordlet.agent.config import KoordletSettings
from koordlet.agent.feature_gates import DEFAULTS
from koordlet.metrics_advisor import collectors
from koordlet.metrics_advisor.collector_table import select_enabled
from koordlet.metrics_advisor.contract.collector import CollectorSources

from tests.support.text_tree import TextTree

SOURCES = CollectorSources(TextTree(), Layout(2, Driver.SYSTEMD))
ALWAYS = {
    *("beresource", "hostapplication", "nodeinfo", "noderesource"),
    *("podresource", "podthrottled", "sysresource"),
}


[FOLDER] = collectors.__path__
NAMES = {path.stem for path in Path(FOLDER).iterdir() if path.stem[0] != "_"}


@pytest.mark.parametrize(
    ("settings", "gates", "expected"),
    [
        ({}, set(), set()),
        ({}, {"PSICollector"}, {"psi"}),
        ({"enable_pagecache_collector": True}, set(), {"pagecache"}),
        ({"enable_resctrl_collector": True}, set(), set()),
        ({"enable_resctrl_collector": True}, {"ResctrlCollector"}, {"resctrl"}),
        ({}, {"Accelerators"}, {"gpu", "xpu"}),
    ],
)
def test_switches(settings: dict[str, bool], gates: set[str], expected: set[str]) -> None:
    chosen = dataclasses.replace(KoordletSettings(), **settings)  # type: ignore[arg-type]
    on, off = select_enabled(asdict(chosen), {**DEFAULTS, **dict.fromkeys(gates, True)}, SOURCES)
    order = [collector.name for collector in on]
    assert set(order) == ALWAYS | expected
    assert order[-1] == "sysresource"  # it uses samples of others
    assert {state.name for state in off} == NAMES - ALWAYS - expected
    assert all(state.reason for state in off)


def test_intervals_are_the_settings() -> None:
    on, _ = select_enabled(
        asdict(KoordletSettings(collect_node_cpu_info_interval=7.0)), DEFAULTS, SOURCES
    )
    assert {one.name: one.interval for one in on}["nodeinfo"] == 7.0
