import json
from typing import Any

import pytest
from koord_host.knobs.layout import Driver, Layout
from koordlet.states_informer.state.kubelet_pods import parse

LAYOUT = Layout(1, Driver.CGROUPFS)


def pod(**status: Any) -> dict[str, Any]:
    return {
        "metadata": {
            "name": "job-1",
            "namespace": "batch",
            "uid": "a-b",
            "labels": {"koordinator.sh/qosClass": "BE"},
            "annotations": {"x": "y"},
            "managedFields": [{"manager": "kubelet"}],
        },
        "spec": {"runtimeClassName": "kata", "containers": []},
        "status": {
            "phase": "Running",
            "qosClass": "BestEffort",
            "podIP": "10.0.0.7",
            "containerStatuses": [
                {"name": "main", "containerID": "containerd://c1", "state": {"running": {}}},
                {"name": "done", "containerID": "containerd://c2", "state": {"terminated": {}}},
                {"name": "waits", "state": {"waiting": {"reason": "ContainerCreating"}}},
            ],
            **status,
        },
    }


def listed(*pods: dict[str, Any]) -> bytes:
    return json.dumps({"kind": "PodList", "apiVersion": "v1", "items": list(pods)}).encode()


def test_a_pod_with_its_running_containers():
    [record] = parse(listed(pod()), LAYOUT)
    assert record.pod.name == "job-1"
    assert record.pod.cgroup_parent == "kubepods/besteffort/poda-b"
    assert (record.pod.runtime_class, record.pod.runtime_handler) == ("kata", "")
    assert record.pod.ip == "10.0.0.7"
    assert {ident: one.name for ident, one in record.containers.items()} == {"c1": "main"}
    assert record.runtime == "containerd"


@pytest.mark.parametrize("field", ["containerStatuses", "initContainerStatuses"])
@pytest.mark.parametrize("runtime", ["docker", "cri-o"])
def test_the_runtime_is_that_of_the_container_id(runtime, field):
    running = {"name": "main", "containerID": f"{runtime}://c9", "state": {"running": {}}}
    [record] = parse(listed(pod(**{"containerStatuses": [], field: [running]})), LAYOUT)
    assert (record.runtime, tuple(record.containers)) == (runtime, ("c9",))


def limits(name: str, cpu: Any, **more: Any) -> dict[str, Any]:
    return {"name": name, "resources": {"limits": {"cpu": cpu}}, **more}


class TestQuotas:
    """The kubelet's requests, as far as its list of pods shows them."""

    def quotas(self, spec: dict[str, Any], **status: Any) -> tuple[int | None, int | None]:
        """Of the pod, and of its running container "main"."""
        one = pod(**status)
        one["spec"] = spec
        [record] = parse(listed(one), LAYOUT)
        return record.pod.resources.cpu_quota, record.containers["c1"].resources.cpu_quota

    @pytest.mark.parametrize(
        ("cpu", "quota"),
        [
            ("2", 200_000),
            ("500m", 50_000),
            (1.5, 150_000),
            ("1m", 1000),
            (None, None),
            ("0", None),
            ("-1", None),
            ("much", None),
        ],
    )
    def test_a_limit_is_a_quota_of_100_ms(self, cpu, quota):
        assert self.quotas({"containers": [limits("main", cpu)]}) == (quota, quota)

    def test_the_status_has_what_hooks_made_of_it(self):
        running = {"containerID": "containerd://c1", "state": {"running": {}}}
        divided = [{**running, **limits("main", "1600m")}]
        spec = {"containers": [limits("main", "2")]}
        assert self.quotas(spec, containerStatuses=divided) == (200_000, 200_000)

    @pytest.mark.parametrize(
        ("generation", "status", "pending"),
        [
            (None, {}, False),
            (2, {"observedGeneration": 2}, False),
            (2, {"observedGeneration": 1}, True),
            (2, {}, False),
            (1, {"conditions": [{"type": "PodResizePending", "status": "True"}]}, True),
            (1, {"conditions": [{"type": "PodResizePending", "status": "False"}]}, False),
            (1, {"conditions": [{"type": "PodResizeInProgress", "status": "True"}]}, False),
            (None, {"resize": "Infeasible"}, True),
            (None, {"resize": "InProgress"}, False),
        ],
    )
    def test_a_resize_that_the_kubelet_has_not_accepted(self, generation, status, pending):
        one = pod(**status)
        one["metadata"]["generation"] = generation
        assert parse(listed(one), LAYOUT)[0].resize_pending is pending

    @pytest.mark.parametrize(
        ("spec", "quota"),
        [
            ({"containers": [limits("main", "1"), limits("b", "1")]}, 200_000),
            ({"containers": [limits("main", "1"), {"name": "b"}]}, None),
            ({"containers": [{"name": "main"}], **limits("", "3")}, 300_000),
            (
                {
                    "containers": [limits("main", "1")],
                    "initContainers": [limits("i", "4"), limits("j", "2")],
                },
                400_000,
            ),
            (
                {
                    "containers": [limits("main", "1")],
                    "initContainers": [limits("beside", "2", restartPolicy="Always")],
                },
                300_000,
            ),
            ({"containers": [limits("main", "1")], "initContainers": [{"name": "i"}]}, None),
        ],
    )
    def test_the_pod_s_is_the_sum_unless_one_has_none(self, spec, quota):
        assert self.quotas(spec)[0] == quota


def test_without_a_class_in_the_status_it_is_computed():
    one = pod(qosClass="")
    one["spec"] = {"containers": [{"name": "c", "resources": {"requests": {"cpu": "100m"}}}]}
    assert parse(listed(one), LAYOUT)[0].pod.cgroup_parent == "kubepods/burstable/poda-b"


def test_the_api_servers_copy_of_a_static_pod_has_the_kubelets_uid():
    one = pod()
    one["metadata"]["annotations"] = {"kubernetes.io/config.mirror": "4f1c"}
    [record] = parse(listed(one), LAYOUT)
    assert (record.pod.uid, record.pod.cgroup_parent) == ("4f1c", "kubepods/besteffort/pod4f1c")


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_a_pod_that_has_ended_is_left_out(phase):
    assert parse(listed(pod(phase=phase)), LAYOUT) == ()


def test_a_pod_on_the_hosts_network_has_no_address_of_its_own():
    one = pod()
    one["spec"]["hostNetwork"] = True
    assert parse(listed(one), LAYOUT)[0].pod.ip == ""


@pytest.mark.parametrize("text", [b"", b"[]", b"{}", b'{"items": 1}', b"\xff"])
def test_what_is_no_list_is_refused(text):
    with pytest.raises(ValueError, match="is not a pod list"):
        parse(text, LAYOUT)


@pytest.mark.parametrize("text", [b'{"items": []}', b'{"items": null}'])
def test_a_node_without_pods_has_an_empty_list(text):
    assert parse(text, LAYOUT) == ()


def test_what_a_pod_asks_for():
    given = pod(startTime="2026-11-20T10:00:00Z")
    given["metadata"]["deletionTimestamp"] = "2026-11-20T11:00:00Z"
    given["spec"] |= {
        "priority": 5500,
        "overhead": {"cpu": "10m"},
        "containers": [
            {
                "name": "main",
                "resources": {"requests": {"cpu": "1", "memory": "1Mi"}, "limits": {"cpu": 2}},
            },
            {"name": "log", "resources": {"limits": {"memory": "1Ki", "bad": "x"}}},
        ],
        "initContainers": [{"name": "mesh", "restartPolicy": "Always", "resources": {}}],
    }
    [record] = parse(listed(given), LAYOUT)
    demand = record.demand
    assert demand is not None
    assert (demand.priority_name, demand.controller, demand.grace_seconds) == ("", "", None)
    assert (demand.priority, demand.phase, demand.terminating) == (5500, "Running", True)
    assert demand.started == 1795168800.0
    assert demand.requests == {"cpu": 1010, "memory": (1 << 20) + 1024}
    assert demand.limits == {"cpu": 2010, "memory": 1024}
    assert demand.container_requests == {
        "main": {"cpu": 1000, "memory": 1 << 20},
        "log": {"memory": 1024},
    }
    assert demand.init_requests == {"mesh": {}}


def test_who_made_it_and_how_it_is_to_end():
    given = pod()
    given["metadata"]["ownerReferences"] = [
        {"kind": "Node", "name": "n"},
        {"kind": "DaemonSet", "name": "d", "controller": True},
    ]
    given["spec"] |= {
        "priorityClassName": "system-node-critical",
        "terminationGracePeriodSeconds": 0,
    }
    [record] = parse(listed(given), LAYOUT)
    demand = record.demand
    assert demand is not None
    assert (demand.priority_name, demand.controller) == ("system-node-critical", "DaemonSet")
    assert demand.grace_seconds == 0
