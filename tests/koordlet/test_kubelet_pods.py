import json
from typing import Any

import pytest
from koord_host.layout import Driver, Layout
from koordlet.kubelet_pods import parse

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


def test_a_pod_with_its_running_containers() -> None:
    [record] = parse(listed(pod()), LAYOUT)
    assert record.pod.name == "job-1"
    assert record.pod.cgroup_parent == "kubepods/besteffort/poda-b"
    assert record.pod.runtime_handler == "kata"
    assert record.pod.ip == "10.0.0.7"
    assert {ident: one.name for ident, one in record.containers.items()} == {"c1": "main"}
    assert record.runtime == "containerd"


def test_the_runtime_is_told_by_the_container_id() -> None:
    running = {"name": "main", "containerID": "docker://d1", "state": {"running": {}}}
    [record] = parse(listed(pod(containerStatuses=[running])), LAYOUT)
    assert (record.runtime, tuple(record.containers)) == ("docker", ("d1",))


def test_init_containers_that_run_count() -> None:
    running = {"name": "init", "containerID": "cri-o://i1", "state": {"running": {}}}
    [record] = parse(listed(pod(initContainerStatuses=[running], containerStatuses=[])), LAYOUT)
    assert (record.runtime, tuple(record.containers)) == ("cri-o", ("i1",))


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_a_pod_that_has_ended_is_left_out(phase: str) -> None:
    assert parse(listed(pod(phase=phase)), LAYOUT) == ()


def test_a_pod_on_the_hosts_network_has_no_address_of_its_own() -> None:
    one = pod()
    one["spec"]["hostNetwork"] = True
    assert parse(listed(one), LAYOUT)[0].pod.ip == ""


@pytest.mark.parametrize("text", [b"", b"[]", b'{"items": 1}', b"\xff"])
def test_what_is_no_list_is_refused(text: bytes) -> None:
    with pytest.raises(ValueError, match="is no pod list"):
        parse(text, LAYOUT)


@pytest.mark.parametrize("text", [b"{}", b'{"items": []}', b'{"items": null}'])
def test_an_empty_list_is_no_answer(text: bytes) -> None:
    with pytest.raises(ValueError, match="lists no pods"):
        parse(text, LAYOUT)
