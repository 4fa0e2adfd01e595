from __future__ import annotations

import json
from typing import Any

import pytest
from koord_hooks.builtin import cpusetallocator, resourceplugins
from koord_hooks.runner import HookResult, HookRunner
from koord_hooks.stages import Stage
from koord_model.allocation import ResourceAllocation, allocated_patch, exclusive_cpus
from koord_model.keys import ANNOTATION_RESOURCE_STATUS, LABEL_QOS
from koord_model.node import NodeView, SharedPool, Topology
from koord_model.patch import Patch
from koord_model.pod import Container, Pod
from koord_model.resources import LinuxResources

RUNNER = HookRunner([("cpusetallocator", cpusetallocator), ("resourceplugins", resourceplugins)])
GIVEN = ResourceAllocation("CpusetCpus", "2-3", 2, env={"A": "1"}, annotations={"a": "2"})


def container(status: object = None, **options: Any) -> Container:
    annotations = {ANNOTATION_RESOURCE_STATUS: json.dumps(status)} if status else {}
    return Container(Pod("p", "ns", "uid", {LABEL_QOS: "LS"}, annotations), "main", **options)


def asked(
    subject: Container, stage: Stage = Stage.PRE_CREATE_CONTAINER, **given: Any
) -> HookResult[Patch]:
    view = NodeView(
        topology=Topology((SharedPool(0, "0-3"), SharedPool(1, "4-7")), online="0-7"),
        allocations={"uid": {"main": {"cpu": ResourceAllocation(**given)}}} if given else {},
    )
    found = RUNNER.run(stage, subject, view)
    assert (found.failures, found.conflicts) == ((), ())
    return found


def test_an_allocation_wins_over_shared_pools_and_brings_all_it_has() -> None:
    view = NodeView(
        topology=Topology((SharedPool(0, "0-7"),), online="0-7"),
        allocations={"uid": {"main": {"cpu": GIVEN}}},
    )
    created = RUNNER.run(Stage.PRE_CREATE_CONTAINER, container(), view).patch
    assert created.resources == LinuxResources(cpuset_cpus="2-3")
    assert (created.env, created.annotations) == ({"A": "1"}, {"a": "2"})
    assert created.why == "resourceplugins: cpu: CpusetCpus 2-3"
    updated = RUNNER.run(Stage.PRE_UPDATE_CONTAINER_RESOURCES, container(), view).patch
    assert (updated.resources, updated.env) == (created.resources, {})


@pytest.mark.parametrize(
    ("status", "cpus"),
    [
        ({"cpuset": "5"}, "5"),
        ({"numaNodeResources": [{"node": 1, "resources": {"cpu": "2"}}]}, "4-7"),
        ({"cpuset": "64"}, "2-3"),  # not of this node
    ],
)
def test_the_scheduler_wins_over_plugins(status: object, cpus: str) -> None:
    found = asked(container(status), limit="CpusetCpus", result="2-3", env={"A": "1"})
    assert found.patch.resources.cpuset_cpus == cpus
    assert found.patch.env == {"A": "1"}


@pytest.mark.parametrize(
    ("limit", "result", "resources"),
    [
        ("CpusetMems", "1", {"cpuset_mems": "1"}),
        ("MemoryLimitInBytes", "1048576", {"memory_limit": 1 << 20}),
        ("MemorySwapLimitInBytes", "-1", {"memory_swap_limit": -1}),
        ("CpuShares", "512", {"cpu_shares": 512}),
        ("CpuQuota", "-1", {"cpu_quota": -1}),
        ("CpuPeriod", "50000", {"cpu_period": 50000}),
        ("OomScoreAdj", "-5", {"oom_score_adj": -5}),
        ("", "", {}),
    ],
)
def test_every_limit_of_cri_applies(limit: str, result: str, resources: Any) -> None:
    patch = allocated_patch({"r": ResourceAllocation(limit, result)}, "0-7")
    assert (patch.resources, patch.ignored) == (LinuxResources(**resources), ())


@pytest.mark.parametrize(
    ("limit", "result"),
    [
        ("CpusetCpus", "0-8"),
        ("CpusetCpus", "all"),
        ("MemoryLimitInBytes", "1Gi"),
        ("MemoryLimitInBytes", "9" * 20),
        ("MemoryLimitInBytes", "²"),
        ("Privileged", "1"),
    ],
)
def test_what_no_container_can_have_is_left_out_in_a_line(limit: str, result: str) -> None:
    # The node's shared pools count again.
    found = asked(container(), limit=limit, result=result, annotations={"a": "b"})
    assert found.patch.resources == LinuxResources(cpuset_cpus="0-3,4-7")
    assert found.patch.annotations == {"a": "b"}
    [line] = found.patch.ignored
    assert line.startswith(f'resource plugin of cpu, "{limit}": ')


def test_plugins_that_disagree_change_nothing() -> None:
    given = {name: ResourceAllocation("CpusetMems", name, env={name: "1"}) for name in "01"}
    patch = allocated_patch(given, "")
    assert (patch.resources, patch.env) == (LinuxResources(), {"0": "1", "1": "1"})
    [line] = patch.ignored
    assert line.startswith("resource plugins disagree, left alone: resources[cpuset_mems]")


def test_cpus_of_pods_that_share_none_are_taken_out_of_pools() -> None:
    dedicated = {"katalyst.kubewharf.io/qos_level": "dedicated_cores"}
    pods = [
        Pod("a", "ns", "a", annotations=dedicated),
        Pod("b", "ns", "b", {LABEL_QOS: "LSR"}),
        Pod("c", "ns", "c", {LABEL_QOS: "LS"}),
    ]
    cpus = {"a": "0-1", "b": "2", "c": "3"}
    allocations = {
        uid: {"main": {"cpu": ResourceAllocation("CpusetCpus", listed)}}
        for uid, listed in cpus.items()
    }
    assert exclusive_cpus(allocations, pods) == {"a": {0, 1}, "b": {2}}
