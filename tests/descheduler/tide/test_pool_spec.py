"""TideNodePools as Katalyst's users write them are read, and what is wrong is named."""

from __future__ import annotations

import re
from typing import Any

import pytest
from koord_descheduler.tide.core.node_marks import Side, cleaning_patch, marks_patch
from koord_descheduler.tide.core.pod_sides import LABEL_POD_TYPE, is_online
from koord_descheduler.tide.core.pool_spec import Label, read_pool

from tests.support.merge_patch import merged

KATALYSTS: dict[str, Any] = {
    "nodeConfigs": {
        "nodeSelector": {"test": "test"},
        "onlineLabel": {"key": "on", "value": "true"},
        "offlineLabel": {"key": "off", "value": "true"},
        "tideLabel": {"key": "may-move", "value": "yes"},
        "reserve": {"online": "25%", "offline": "25%"},
    },
    "evictStrategy": {
        "type": "watermark",
        "watermark": {
            "evictOnlinePodTaint": {"key": "a", "value": "b", "effect": "NoExecute"},
            "evictOfflinePodTaint": {"key": "c", "value": "d"},
        },
    },
}
LABEL = {"key": "a", "value": "b"}


def _pool(**spec: Any) -> Any:
    return {"metadata": {"name": "p", "uid": "u"}, "spec": {"nodeConfigs": {}} | spec}


def test_labels_and_taints_are_those_of_the_pool_and_no_pod_is_evicted_by_them() -> None:
    pool = read_pool(_pool(**KATALYSTS))
    assert (pool.low, pool.high, pool.cool_down) == (60, 80, 900.0)
    assert [
        pool.reserve_online.of(5, rounds_up=True),
        pool.reserve_offline.of(5, rounds_up=False),
    ] == [2, 1]
    assert pool.offline_taint == Label("a", "b")
    others = [{"key": "mine", "effect": "NoExecute"}, {"key": "a", "effect": "NoExecute"}]
    node: Any = {"metadata": {"name": "n", "labels": {"on": "true"}}, "spec": {"taints": others}}
    node = merged(node, marks_patch(node, pool, Side.OFFLINE, reserved=False))
    labels = node["metadata"]["labels"]
    assert (labels.get("on"), labels["off"], labels["may-move"]) == (None, "true", "yes")
    taint = {"key": "a", "value": "b", "effect": "NoSchedule"}
    assert node["spec"]["taints"] == [others[0], taint]
    assert marks_patch(node, pool, Side.OFFLINE, reserved=False) is None
    node = merged(node, marks_patch(node, pool, Side.ONLINE, reserved=True))
    assert node["spec"]["taints"][1]["key"] == "c"
    assert "may-move" not in node["metadata"]["labels"]
    node = merged(node, cleaning_patch(node, pool))
    assert (node["metadata"]["labels"], node["spec"]["taints"]) == ({}, others[:1])


def test_sides_of_pods() -> None:
    best_effort = {"koordinator.sh/qosClass": "BE"}
    assert is_online({})
    assert is_online(best_effort | {LABEL_POD_TYPE: "online"})
    assert not is_online(best_effort)
    assert not is_online({LABEL_POD_TYPE: "batch"})


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"evictStrategy": {"type": "usage"}}, 'type is "usage"; expected watermark'),
        (
            {"nodeConfigs": {"reserve": {"online": "120%"}}},
            'spec.nodeConfigs.reserve.online is "120%"; expected a number from 0, or 0% to 100%',
        ),
        ({"coolDown": "soon"}, 'spec.coolDown is "soon"; expected a duration like 15m'),
        (
            {
                "nodeConfigs": {
                    k: {"key": "a", "value": "b"} for k in ("onlineLabel", "offlineLabel")
                }
            },
            "onlineLabel and offlineLabel are both a=b; expected two",
        ),
        ({"podRules": [{"behavior": "Fly"}]}, "Fly"),
        ({"nodeConfigs": {"nodeSelector": 7}}, "nodeConfigs.nodeSelector"),
    ],
)
def test_what_is_wrong_is_named(spec: Any, message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)) as raised:
        read_pool(_pool(**spec))
    assert "\n" not in str(raised.value)
