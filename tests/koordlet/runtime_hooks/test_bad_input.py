"""What people and other programs get wrong costs the field it is in, and one clear line.

Each case is a pod, or the node's rules, with one thing wrong. It goes through the hook
server, NRI and the reconciler, with all plugins: the line names whom, which key and what it
says, the other fields apply, the pod starts, and nothing is reported twice.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml
from koord_host.knobs.layout import Driver
from koord_model import keys
from koord_model.qos import KubeQoS

from tests.koordlet.runtime_hooks.test_transport_matrix import (
    FIRST,
    SECOND,
    WAYS,
    Kind,
    Rig,
    requested,
    rules,
    start_all,
)
from tests.support.node import PodSpec

NODE = Kind(1, Driver.CGROUPFS, vendor=True)
"""Where plugins write most; how files differ elsewhere is the matrix's."""

SCORE = {keys.ANNOTATION_OOM_SCORE_ADJ: "100"}
"""The other field, wherever it is not the one that is wrong."""
POOLS = {"cpuset.cpus": "0-15"}
DIVIDED = {"cpu.cfs_quota_us": "160000"}
ALL_OTHERS = {"oom_score_adj": "100", **POOLS, **DIVIDED}


def batch(**limits: Any) -> dict[str, Any]:
    named = {"cpu": keys.BATCH_CPU, "memory": keys.BATCH_MEMORY}
    amounts = {named[name]: amount for name, amount in limits.items()}
    return {"containers": {"main": {"limits": amounts}}}


@dataclass(frozen=True)
class Case:
    """A pod with one annotation or label that cannot be used.

    ``says`` is what the line has besides the pod's name and the key. ``applies`` is what
    the container has all the same, by file.
    """

    key: str
    value: Any
    says: str
    applies: Mapping[str, str] = field(default_factory=lambda: ALL_OTHERS)
    qos: str = "LS"
    rule: str = FIRST

    @property
    def pod(self) -> PodSpec:
        qos, labels, annotations = self.qos, {}, {**SCORE}
        if self.key == keys.LABEL_QOS:
            qos = self.value
        elif self.key in LABELS:
            labels[self.key] = self.value
        else:
            annotations[self.key] = self.value
        kube = KubeQoS.BEST_EFFORT if qos == "BE" else KubeQoS.BURSTABLE
        return PodSpec("web-1", kube, qos, 0 if qos == "BE" else 2, labels, annotations)


LABELS = {keys.LABEL_CORE_SCHED_POLICY}
PODS = {
    "unknown class": Case(keys.LABEL_QOS, "GOLD", '"GOLD"; expected one of LSE, LSR, LS, BE'),
    "one amount that is none": Case(
        keys.ANNOTATION_EXTENDED_RESOURCE_SPEC,
        batch(cpu="half", memory="1Gi"),
        '"half" is not a valid quantity',
        {"oom_score_adj": "100", "memory.limit_in_bytes": str(1 << 30), "cpu.shares": "2"},
        "BE",
    ),
    "CPUs that the node does not have": Case(
        keys.ANNOTATION_RESOURCE_STATUS,
        {"cpuset": "2-3,64"},
        "cpuset 2-3,64 names CPUs that this node does not have: 64",
        {"oom_score_adj": "100", **POOLS},
    ),
    "status that is not valid JSON": Case(
        keys.ANNOTATION_RESOURCE_STATUS, "cpus", '"cpus"', {"oom_score_adj": "100"}
    ),
    "score out of range": Case(
        keys.ANNOTATION_OOM_SCORE_ADJ,
        "2000",
        '"2000"; expected -1000 to 1000',
        {"oom_score_adj": "900", **POOLS, **DIVIDED},
    ),
    "more than all memory bandwidth": Case(
        keys.ANNOTATION_RESCTRL,
        {"mb": {"schemata": {"percent": 150}}, "llc": {"schemata": {"range": [0, 50]}}},
        "mb.schemata.percent is 150; expected 1 to 100",
    ),
    "bandwidth that is none": Case(
        keys.ANNOTATION_NETWORK_QOS, {"egressLimit": "much"}, '"much" is not a valid quantity'
    ),
    "unknown core policy": Case(
        keys.LABEL_CORE_SCHED_POLICY, "always", '"always"; expected none or exclusive', rule=SECOND
    ),
    "devices that are no object": Case(keys.ANNOTATION_DEVICE_ALLOCATED, "GPU 0", '"GPU 0"'),
}
"""One of each kind; all values that cannot be used are in the plugins' own tests."""


async def values(one: Rig, way: str, pod: PodSpec) -> dict[str, str]:
    """What the pod's container has in the end, by the files' names."""
    await start_all(one, way, [pod])
    await one.loop.reconcile()
    return {Path(path).name: text.strip() for path, text in requested(one, [pod]).items()}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("case", PODS.values(), ids=list(PODS))
async def test_of_a_pod(case, way, directory, words):
    with Rig(NODE, "all", case.rule, directory) as one:
        found = await values(one, way, case.pod)
    [(event, fields)] = words(
        "field ignored", "hook plugin failed", "plugins conflict, field not changed"
    )
    assert event == "field ignored"
    for part in ("shop/web-1", case.key, case.says):
        assert part in fields["reason"]
    assert "\n" not in fields["reason"]
    assert {name: found[name] for name in case.applies} == case.applies


@pytest.mark.parametrize("way", WAYS)
async def test_of_the_node(way, directory, words):
    documents = list(yaml.safe_load_all(rules({"cpuPolicy": "groupIdentity"})))
    wrong = {"cpuQOS": {"enable": True, "groupIdentity": 5}}
    documents[0]["spec"]["resourceQOSStrategy"]["lsClass"] = wrong
    file = directory / "wrong.yaml"
    file.write_text(yaml.safe_dump_all(documents))
    pod = PodSpec("web-1", KubeQoS.BURSTABLE, "LS", 2, annotations=SCORE)
    with Rig(NODE, "all", "wrong", directory) as one:
        found = await values(one, way, pod)
        assert one.loop.view.slo.total_network_bandwidth == 10 * 10**9
    [(event, fields)] = words("node settings rejected", "field ignored", "hook plugin failed")
    assert event == "node settings rejected"
    says = "lsClass.cpuQOS.groupIdentity is 5; expected -1 to 2 (default 2 kept)"
    assert fields["reason"] == f"{file}: NodeSLO resourceQOSStrategy.{says}"
    assert {name: found[name] for name in ALL_OTHERS} == ALL_OTHERS
