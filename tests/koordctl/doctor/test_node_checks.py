"""Results of checks of a node: what is wrong is named once, and nothing else is."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from koord_model.version import VERSION
from koordctl.doctor.check_results import Level
from koordctl.doctor.node_checks import check_node
from koordctl.doctor.node_survey import NodeSurvey, units_of
from koordctl.koordlet_documents import (
    CollectorRow,
    HealthRow,
    HooksRow,
    KoordletStatus,
    NodeDocument,
    NriRow,
)
from koordctl.proxy_documents import HookServerRow, ProxyStatus

PROXY_ENDPOINT = "unix:///run/koord-runtimeproxy/runtimeproxy.sock"
WORKS = KoordletStatus(VERSION, HealthRow("ok"))
PROXY = ProxyStatus("ok", "ok", "ok", hook_servers=[HookServerRow("koordlet", breaker="closed")])
NODE = NodeDocument("n", 1.0)
GOOD = NodeSurvey(
    cgroup_version=2,
    features=frozenset({"psi", "delayacct"}),
    units=units_of("Id=koordlet.service\nLoadState=loaded\nActiveState=active\nNRestarts=0\n"),
    is_kubelet_running=True,
    endpoint=PROXY_ENDPOINT,
    is_clock_synchronized=True,
    koordlet=WORKS,
    node=NODE,
    proxy=PROXY,
)


def unit(**settings: str) -> dict[str, Any]:
    return {"units": {"koordlet.service": {"ActiveState": "active", "NRestarts": "0", **settings}}}


def test_a_good_node_has_nothing_to_mend() -> None:
    assert {result.level for result in check_node(GOOD)} == {Level.OK}
    nri = KoordletStatus(VERSION, HealthRow("ok"), HooksRow(nri=NriRow(connected=True)))
    other = replace(GOOD, endpoint="unix:///run/crio.sock", koordlet=nri, proxy=None)
    assert {result.level for result in check_node(other)} == {Level.OK}


@pytest.mark.parametrize(
    ("change", "level", "about", "words"),
    [
        ({"cgroup_error": "/x: no"}, "problem", "cgroups", "/x: no"),
        ({"cgroup_version": 1}, "note", "cgroups", "systemd.unified_cgroup_hierarchy=1"),
        ({"features": frozenset({"delayacct"})}, "warning", "kernel", "psi=1"),
        ({"features": frozenset({"psi"})}, "note", "kernel", "kernel.task_delayacct=1"),
        ({"cpu_flags": frozenset({"mba"})}, "note", "kernel", "mount -t resctrl"),
        ({"is_clock_synchronized": False}, "warning", "clock", "chrony"),
        (unit(ActiveState="failed", Result="signal"), "problem", "koordlet", "failed: signal"),
        (unit(ActiveState="inactive"), "warning", "koordlet", "systemctl enable --now koordlet"),
        (unit(NRestarts="3"), "warning", "koordlet", "restarted the unit 3 times"),
        ({"is_kubelet_running": False}, "note", "kubelet", "none runs"),
        ({"endpoint_error": "refused"}, "problem", "kubelet", "restart koord-runtime-proxy"),
        ({"endpoint": "unix:///run/crio.sock"}, "problem", "kubelet", "no hooks are called"),
        (
            {"proxy": None, "proxy_error": "no answer"},
            "problem",
            "koord-runtime-proxy",
            "no answer",
        ),
        (
            {"proxy": ProxyStatus("ok", "ok", "ok")},
            "warning",
            "koord-runtime-proxy",
            "no hook server",
        ),
        (
            {"proxy": ProxyStatus("x", "gone", "ok", hook_servers=PROXY.hook_servers)},
            "problem",
            "koord-runtime-proxy",
            "runtime: gone",
        ),
        (
            {
                "proxy": ProxyStatus(
                    "x", "ok", "ok", hook_servers=[HookServerRow("a", breaker="open")]
                )
            },
            "problem",
            "koord-runtime-proxy",
            "koordctl hooks remove a",
        ),
        ({"koordlet": None, "koordlet_error": "no answer"}, "problem", "koordlet", "no answer"),
        ({"koordlet": KoordletStatus(VERSION, HealthRow("x", ["r"]))}, "problem", "koordlet", "r"),
        ({"koordlet": KoordletStatus("0.0.1")}, "warning", "versions", "0.0.1"),
        ({"node": NodeDocument("n", 1.0, read_only=True)}, "note", "koordlet", "--read-only"),
        (
            {
                "node": NodeDocument(
                    "n", 1.0, collectors=[CollectorRow("rdt", "unavailable", reason="w")]
                )
            },
            "note",
            "koordlet",
            "cannot measure rdt here: w",
        ),
    ],
)
def test_what_is_wrong(change: dict[str, Any], level: str, about: str, words: str) -> None:
    [found] = [each for each in check_node(replace(GOOD, **change)) if each.level != Level.OK]
    assert (found.level, found.about) == (level, about)
    assert words in f"{found.text} {found.way_out}"


def test_units_that_are_not_installed_are_left_out() -> None:
    text = (
        "Id=a.service\nLoadState=not-found\nActiveState=inactive\n\n"
        "Id=b.service\nLoadState=loaded\nActiveState=active\n"
    )
    assert list(units_of(text)) == ["b.service"]
