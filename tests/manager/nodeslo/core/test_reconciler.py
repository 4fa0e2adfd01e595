"""NodeSLOs: every section, what a Node says itself, and what is others'."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from koord_manager.node_objects.core.nodes import ClusterNode
from koord_manager.node_objects.core.reconciler import ExistingObject
from koord_manager.nodeslo.core import reconciler
from koord_manager.nodeslo.core.rollout import Rollout
from koord_manager.slo_config.core.config import DEFAULTS, UNREAD, SLOConfig, advance
from koord_manager.slo_config.core.sections import laid_over
from koord_model.node_slo_document import parse

NODE = ClusterNode("n1", "u1")
GPU = ClusterNode("n2", "u2", {"pool": "gpu"})
BANDWIDTH = "node.koordinator.sh/network-bandwidth"


def config(**keys: Any) -> SLOConfig:
    data = {f"{name.replace('_', '-')}-config": json.dumps(one) for name, one in keys.items()}
    found, problems = advance(UNREAD, data)
    assert problems == ()
    return found


def desired(
    config: SLOConfig, node: ClusterNode, there: ExistingObject | None
) -> tuple[dict[str, Any], list[str]]:
    """Its spec without the line on where our section is from."""
    spec, lines = reconciler.desired(config, node, there, Rollout(dict, lambda: 0.0))
    spec.get("extensions", {}).get("pykoord", {}).pop("rollout", None)
    return spec, lines


def there(spec: dict[str, Any]) -> ExistingObject:
    return ExistingObject("u", (), json.dumps(spec).encode())


def test_without_a_configuration_nodes_have_what_they_would_have_anyway():
    spec, lines = desired(DEFAULTS, NODE, None)
    assert lines == []
    assert parse(spec) == parse({})
    assert spec["resourceUsedThresholdWithBE"]["cpuSuppressThresholdPercent"] == 65
    assert spec["systemStrategy"] == {"totalNetworkBandwidth": "0"}
    assert "hostApplications" not in spec
    assert "extensions" not in spec


def maybe(**fields: Any) -> Any:
    return st.fixed_dictionaries({}, optional=fields)


def enabled(**fields: Any) -> Any:
    return st.fixed_dictionaries({"enable": st.booleans(), **fields})


MODES = st.fixed_dictionaries({"mode": st.sampled_from(["on", "off", "shadow"])})
SECTIONS = {
    "resource_threshold": maybe(
        enable=st.booleans(),
        cpuSuppressThresholdPercent=st.integers(0, 100),
        cpuSuppressPolicy=st.sampled_from(["cpuset", "cfsQuota", ""]),
        memoryEvictThresholdPercent=st.none() | st.integers(51, 100),
        memoryEvictLowerPercent=st.integers(0, 50),
    ),
    "resource_qos": maybe(
        policies=st.fixed_dictionaries({"cpuPolicy": st.sampled_from(["coreSched", ""])}),
        beClass=maybe(
            cpuQOS=enabled(groupIdentity=st.integers(-1, 2)),
            networkQOS=enabled(ingressRequest=st.integers(0, 50)),
            memoryQOS=enabled(),
        ),
    ),
    "cpu_burst": maybe(
        policy=st.sampled_from(["none", "auto"]), cpuBurstPercent=st.integers(1, 10_000)
    ),
    "system": maybe(
        totalNetworkBandwidth=st.sampled_from(["10G", "0", 1000]),
        minFreeKbytesFactor=st.integers(1, 10_000),
    ),
    "pykoord": st.fixed_dictionaries(
        {"strategies": st.dictionaries(st.sampled_from(["cpu_suppress", "memory_evict"]), MODES)}
    ),
}
FIELDS = {
    "resource_threshold": "resourceUsedThresholdWithBE",
    "resource_qos": "resourceQOSStrategy",
    "cpu_burst": "cpuBurstStrategy",
    "system": "systemStrategy",
}


@given(st.fixed_dictionaries({name: st.tuples(one, one) for name, one in SECTIONS.items()}))
def test_nodes_take_all_of_what_a_valid_configuration_gives_them(sections):
    found = config(
        **{
            name: {
                "clusterStrategy": cluster,
                "nodeStrategies": [{"nodeSelector": {"matchLabels": {"pool": "gpu"}}, **nodes}],
            }
            for name, (cluster, nodes) in sections.items()
        }
    )
    for node, layers in ((NODE, 1), (GPU, 2)):
        spec, lines = desired(found, node, None)
        slo, ignored = parse(spec)
        assert lines == []
        assert ignored == ()
        wanted: dict[str, Any] = {"extensions": {"pykoord": {}}}
        for name, given_layers in sections.items():
            merged: Any = {}
            for layer in given_layers[:layers]:
                merged = laid_over(merged, layer)
            if name in FIELDS:
                wanted[FIELDS[name]] = merged
            else:
                wanted["extensions"]["pykoord"] = merged
        assert slo == parse(wanted)[0]
        assert desired(found, node, there(spec)) == (spec, [])


@pytest.mark.parametrize("given", ["25G", "fast", "-1", "1E", ""])
def test_a_node_knows_its_own_bandwidth_and_a_bad_one_costs_only_itself(given: str):
    node = ClusterNode("n1", "u1", {}, {BANDWIDTH: given})
    cluster = {"totalNetworkBandwidth": "10G", "minFreeKbytesFactor": 9}
    spec, lines = desired(config(system={"clusterStrategy": cluster}), node, None)
    good = given == "25G"
    assert spec["systemStrategy"] == cluster | ({"totalNetworkBandwidth": given} if good else {})
    said = f'node n1: annotation {BANDWIDTH} is "{given}"; expected bits a second'
    assert [line[: len(said)] for line in lines] == ([] if good else [said])


def test_what_is_others_stays_and_ours_stays_while_the_config_map_does_not_have_it():
    before = {
        "extensions": {"acme": {"a": 1}, "pykoord": {"strategies": {"cpu_suppress": {}}}},
        "later": 7,
    }
    spec, _ = desired(DEFAULTS, NODE, there(before))
    assert spec["extensions"] == before["extensions"]
    assert spec["later"] == 7
    ours = {"strategies": {"cpu_suppress": {"mode": "shadow"}}}
    spec, _ = desired(config(pykoord={"clusterStrategy": ours}), NODE, there(before))
    assert spec["extensions"] == {"acme": {"a": 1}, "pykoord": ours}
    spec, _ = desired(config(pykoord={}), NODE, there(before))
    assert spec["extensions"] == {"acme": {"a": 1}}


def test_what_is_not_configured_any_more_goes():
    before = {"hostApplications": [{"name": "old"}], "resourceQOSStrategy": {"beClass": {}}}
    assert desired(DEFAULTS, NODE, there(before)) == desired(DEFAULTS, NODE, None)


def test_while_nothing_good_is_known_of_a_key_its_section_stays():
    bad, _ = advance(UNREAD, {"cpu-burst-config": "{", "host-application-config": "{"})
    before = {"cpuBurstStrategy": {"policy": "auto"}, "hostApplications": [{"name": "x"}]}
    spec, _ = desired(bad, NODE, there(before | {"systemStrategy": {"minFreeKbytesFactor": 5}}))
    assert {name: spec[name] for name in before} == before
    assert spec["systemStrategy"] == {"totalNetworkBandwidth": "0"}
    assert desired(bad, NODE, None) == desired(DEFAULTS, NODE, None)
    assert desired(UNREAD, NODE, there(before)) == (before, [])


def test_profiles_of_services_come_and_go_beside_everything_else():
    entry = {"name": "shop/web"}

    def made(spec: dict[str, Any], found: list[Any]) -> dict[str, Any]:
        rollout = Rollout(dict, lambda: 0.0)
        return reconciler.desired(DEFAULTS, NODE, there(spec), rollout, lambda _n, _t: found)[0]

    theirs = {"extensions": {"other": 1, "pykoord": {"strategies": {}}}}
    spec = made(theirs, [entry])
    assert spec["extensions"]["pykoord"]["services"] == [entry]
    assert made(spec, [])["extensions"] == theirs["extensions"]
    assert "extensions" not in made(made({}, [entry]), [])
