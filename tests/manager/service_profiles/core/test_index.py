"""Profiles of services: their content, their pods, and the nodes that they reach."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import yaml
from koord_manager.service_profiles.core import document
from koord_manager.service_profiles.core.baseline import baseline
from koord_manager.service_profiles.core.document import ProfileDocument, ProfileSource
from koord_manager.service_profiles.core.entries import MOST_BYTES, Entry
from koord_manager.service_profiles.core.index import ServiceIndex, WorkloadLookup
from koord_manager.service_profiles.core.objects import (
    ProfiledWorkload,
    ServicePod,
    WorkloadKind,
    read_workload,
)
from koord_model.node_slo_document import parse

SPD, TWIN = ProfileSource.DESCRIPTOR, ProfileSource.CONFIG_MAP
SPEC: dict[str, Any] = {
    "targetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
    "baselinePercent": 30,
    "systemIndicator": [
        {
            "name": "cpu_sched_wait",
            "indicators": [
                {"indicatorLevel": "UpperBound", "value": 460},
                {"indicatorLevel": "LowerBound", "value": 400},
            ],
        }
    ],
    "extendedIndicator": [
        {
            "name": "TransparentMemoryOffloading",
            "indicators": {"configDetail": {"enableTMO": True}},
        },
        {"name": "CPUWeight", "baselinePercent": 1, "indicators": {"cores": 4}},
    ],
}


def profile(
    name: str = "web", source: ProfileSource = SPD, created: str = "", **more: Any
) -> ProfileDocument:
    spec = SPEC | more
    given = {"spec": spec} if source is SPD else {"data": {"spec": yaml.safe_dump(spec)}}
    meta = {"namespace": "shop", "name": name, "creationTimestamp": created}
    return document.read({"metadata": meta, **given}, source)


class Shop:
    """A namespace with the Deployment web."""

    def __init__(self) -> None:
        selector = b'{"spec": {"selector": {"matchLabels": {"app": "web"}}}}'
        self.workloads: dict[str, ProfiledWorkload] = {"web": read_workload(selector)}
        self.unknown = ""
        self.index = ServiceIndex(
            WorkloadLookup(self._workload, lambda _kind, _namespace: self.unknown)
        )

    def _workload(self, _kind: WorkloadKind, _namespace: str, name: str) -> ProfiledWorkload | None:
        return self.workloads.get(name)

    def entries(self, node: str, there: Sequence[Entry]) -> list[Entry]:
        found, left_out = self.index.entries(node, there)
        assert left_out == []
        return found

    def put(self, given: ProfileDocument) -> None:
        self.index.profile_changed((given.source.value, given.key), given)

    def pod(self, number: int, node: str, app: str = "web", **more: Any) -> None:
        created = f"2026-01-01T00:00:{number:02}Z"
        made = ServicePod("shop", f"p{number}", node, created, {"app": app}, **more)
        self.index.pod_changed("shop", f"shop/p{number}", made)

    def reason(self, given: ProfileDocument) -> str:
        return self.index.reason((given.source.value, given.key))


def test_profiles_reach_the_nodes_of_their_pods_alone():
    shop = Shop()
    shop.put(profile())
    for number in range(4):
        shop.pod(number, "n1" if number < 2 else "n2")
    shop.pod(5, "n3", app="mail")
    shop.pod(6, "n4", active=False)
    assert shop.index.refresh() == {"n1", "n2"}
    [entry] = shop.entries("n1", [])
    assert entry == {
        "name": "shop/web",
        "namespace": "shop",
        "selector": {"matchLabels": {"app": "web"}},
        "targets": {"sched_wait": 460.0},
        "memoryOffload": True,
        "weightCores": 4.0,
        "baseline": ["p0"],
        "weightBaseline": ["p0"],
    }
    assert "baseline" not in shop.entries("n2", [])[0]
    slo, ignored = parse({"extensions": {"pykoord": {"services": [entry]}}})
    assert ignored == ()
    assert slo.services[0].baseline == slo.services[0].weight_baseline == {"p0"}
    assert slo.services[0].weight_cores == 4

    shop.index.pod_changed("shop", "shop/p3", None)
    shop.index.pod_changed("shop", "shop/p2", None)
    assert shop.index.refresh() == {"n2"}
    assert shop.entries("n2", []) == []
    shop.index.profile_changed((SPD.value, "shop/web"), None)
    assert shop.index.refresh() == {"n1"}
    assert shop.index.refresh() == set()


def test_what_is_not_known_stays_as_it_is():
    shop = Shop()
    shop.unknown = "Deployments are not known yet"
    shop.put(profile())
    shop.pod(0, "n1")
    assert shop.index.refresh() == set()
    there = [{"name": "shop/web"}, {"name": "shop/gone"}]
    assert shop.entries("n1", there) == [{"name": "shop/web"}]
    shop.unknown = ""
    shop.index.workloads_changed("shop")
    assert shop.index.refresh() == {"n1"}
    assert "selector" in shop.entries("n1", there)[0]


def test_what_a_node_has_no_room_for_is_named_and_costs_the_others_nothing():
    shop = Shop()
    shop.unknown = "Deployments are not known yet"
    shop.put(profile())
    shop.put(profile("big", targetRef=SPEC["targetRef"] | {"name": "big"}))
    shop.index.refresh()
    there = [{"name": "shop/web"}, {"name": "shop/big", "namespace": "n" * MOST_BYTES}]
    assert shop.index.entries("n1", there) == ([{"name": "shop/web"}], ["shop/big"])


def test_one_profile_of_a_workload_counts():
    shop = Shop()
    named, other = profile(created="2026-02"), profile("other", created="2026-01")
    twin = profile(source=TWIN, created="2025-01")
    for given in (twin, other, named):
        shop.put(given)
    shop.pod(0, "n1")
    shop.index.refresh()
    assert shop.reason(named) == ""
    wanted = "ServiceProfileDescriptor shop/web is for the same Deployment, and goes before"
    assert (shop.reason(other), shop.reason(twin)) == (wanted, wanted)
    found = shop.index.why("shop/web", ["n1"])
    assert [(profile["in_force"], profile["nodes"]) for profile in found["profiles"]] == [
        (True, {"n1": 1}),
        (False, {}),
    ]
    assert (found["reason"], found["no_room"]) == ("", ["n1"])
    assert shop.index.why("shop/mail", ())["reason"] == (
        "there is no profile shop/mail; there are other (Deployment web), web (Deployment web)"
    )
    assert "no profiles in namespace pub" in shop.index.why("pub/web", ())["reason"]

    for given in (named, other):
        shop.index.profile_changed((SPD.value, given.key), None)
    del shop.workloads["web"]
    shop.index.refresh()
    assert shop.reason(twin) == "apps/v1 Deployment shop/web does not exist"


def test_a_bad_part_of_a_profile_costs_itself_alone():
    bounds = [{"indicatorLevel": "UpperBound", "value": -1}]
    found = profile(
        systemIndicator=[
            {"name": "cpi", "indicators": bounds},
            {"name": "mem_l3_miss_lat", "indicators": []},
            SPEC["systemIndicator"][0],
        ],
        baselinePercent=101,
    )
    assert found.problem == ""
    assert dict(found.targets) == {"sched_wait": 460.0}
    assert any("value is -1; expected a number above 0" in line for line in found.refused)
    assert any("baselinePercent is 101; expected 0 to 100" in line for line in found.refused)
    assert any("mem_l3_miss_lat" in line for line in found.unused)
    whole = profile(targetRef={})
    assert whole.problem.startswith("spec targetRef.apiVersion is missing")


def test_the_baseline_is_katalysts():
    pods = [ServicePod("shop", name, created="2026") for name in "cab"]
    assert baseline(pods, None) == baseline(pods, 0) == frozenset()
    assert baseline(pods, 100) == {"a", "b", "c"}
    assert baseline(pods, 1) == {"a"}
    assert baseline(pods, 50) == {"a", "b"}
    assert baseline([], 50) == frozenset()
