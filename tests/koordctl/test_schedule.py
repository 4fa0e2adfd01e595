"""``koordctl schedule --what-if``: pods of a file in a snapshot, or in the live cluster."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from koord_kube.protocol.api import ListPage
from koord_kube.protocol.resources import (
    NAMESPACES,
    NODE_METRICS,
    NODES,
    PODS,
    SERVICES,
    Resource,
)

from koordctl import cluster_client
from tests.koordctl.conftest import Ctl, Failing, Run
from tests.support.kube_api import KubeApi
from tests.support.kube_api.kinds import USUAL

NODE = {
    "kind": "Node",
    "metadata": {"name": "n1"},
    "status": {"allocatable": {"cpu": "4", "memory": "16Gi", "pods": "110"}},
}


def pod(name: str, cpu: str, **spec: Any) -> dict[str, Any]:
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}
    metadata = {"name": name, "namespace": "shop"}
    return {"kind": "Pod", "metadata": metadata, "spec": {"containers": [container], **spec}}


RUNS = pod("runs", "1", nodeName="n1")
DEPLOYMENT = {"kind": "Deployment", "metadata": {"name": "many", "namespace": "shop"}}


@pytest.fixture
def pods(tmp_path: Path) -> str:
    path = tmp_path / "pods.yaml"
    listed = {"kind": "List", "items": [pod("big", "4")]}
    path.write_text(yaml.safe_dump_all([pod("web", "2"), listed, DEPLOYMENT, None]))
    return str(path)


@pytest.fixture
def snapshot(tmp_path: Path) -> str:
    path = tmp_path / "cluster.json"
    items = [NODE, {"kind": "Namespace", "metadata": {"name": "shop"}}, RUNS, pod("wait", "1")]
    path.write_text(json.dumps({"kind": "List", "items": items}))
    return str(path)


def test_pods_in_a_snapshot(run: Run, pods: str, snapshot: str) -> None:
    lines = run("schedule", "--what-if", "-f", pods, "--snapshot", snapshot).splitlines()
    assert lines[1].split()[:4] == ["shop/web", "n1", "score", lines[1].split()[3]]
    assert lines[2].split()[:3] == ["shop/big", "none", "0/1"]
    assert "shop/web on n1" in lines
    assert "  n1 lacks 3 cpu" in lines
    assert lines[-3].startswith("1 of 2 pods")
    assert "1 pod of the cluster" in lines[-2]
    assert "Deployment shop/many" in lines[-1]


def test_the_same_as_json(run: Run, pods: str, snapshot: str) -> None:
    text = run("schedule", "--what-if", "-f", pods, "--snapshot", snapshot, "--json")
    found = json.loads(text)
    assert [one.get("node") for one in found["pods"]] == ["n1", None]
    assert (found["pending"], found["skipped"]) == (1, ["Deployment shop/many"])


def test_profiles_are_those_of_a_configuration(
    run: Run, failing: Failing, tmp_path: Path, pods: str, snapshot: str
) -> None:
    path = tmp_path / "config.yaml"
    command = ("schedule", "--what-if", "-f", pods, "--snapshot", snapshot, "--config", str(path))
    kind = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
    path.write_text(f"{kind}profiles: [{{schedulerName: other}}]")
    assert [one["state"] for one in json.loads(run(*command, "--json"))["pods"]] == ["foreign"] * 2
    off = "plugins: {multiPoint: {disabled: [{name: NodeResourcesFit}]}}"
    path.write_text(f"{kind}profiles: [{{{off}}}]")
    assert [one["node"] for one in json.loads(run(*command, "--json"))["pods"]] == ["n1", "n1"]
    path.write_text(f"{kind}profiles: 3")
    assert "profiles" in failing(*command)[1]


async def test_pods_in_the_live_cluster(ctl: Ctl, api: KubeApi, pods: str) -> None:
    api.put(NODES, NODE)
    api.put(NAMESPACES, {"metadata": {"name": "shop"}})
    api.put(PODS, RUNS, "shop")
    over = {**pod("over", "3", nodeName="n1"), "status": {"phase": "Succeeded"}}
    api.put(PODS, over, "shop")
    code, out, _ = await ctl("schedule", "--what-if", "-f", pods, "--json")
    assert code == 0
    assert [one["state"] for one in json.loads(out)["pods"]] == ["placed", "unschedulable"]
    assert {one.verb for one in api.asked} == {"list"}
    assert SERVICES.path() in {one.path for one in api.asked}
    [listed] = [one for one in api.asked if one.path.endswith("/pods")]
    assert "status.phase!=Succeeded" in listed.query["fieldSelector"]


async def test_a_live_cluster_that_does_not_report_its_load(
    ctl: Ctl, api: KubeApi, pods: str, tmp_path: Path
) -> None:
    api.installed = USUAL - {NODE_METRICS}
    api.put(NODES, NODE)
    config = tmp_path / "config.yaml"
    plugins = {"multiPoint": {"enabled": [{"name": "LoadAwareScheduling"}]}}
    kind = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    config.write_text(yaml.safe_dump({**kind, "profiles": [{"plugins": plugins}]}))
    code, _, _ = await ctl("schedule", "--what-if", "-f", pods, f"--config={config}")
    assert code == 0
    assert NODE_METRICS.path() in {one.path for one in api.asked}


class ForgetfulApi:
    """An API server whose lists begin again after their first page."""

    async def pages(
        self, resource: Resource, namespace: str, field_selector: str
    ) -> AsyncIterator[ListPage]:
        if resource == NODES:
            yield ListPage([json.dumps({**NODE, "metadata": {"name": "gone"}}).encode()], "1", True)
            yield ListPage([json.dumps(NODE).encode()], "2", True)
            yield ListPage([json.dumps({**NODE, "metadata": {"name": "n2"}}).encode()], "2", False)


def test_a_list_that_begins_again(run: Run, pods: str, monkeypatch: pytest.MonkeyPatch) -> None:
    ask = lambda _, question: asyncio.run(question(ForgetfulApi()))  # noqa: E731
    monkeypatch.setattr(cluster_client, "ask_cluster", ask)
    found = json.loads(run("schedule", "--what-if", "-f", pods, "--json"))
    assert [one["nodes"] for one in found["pods"]] == [2, 2]


def test_lists_of_one_kind(run: Run, tmp_path: Path) -> None:
    """Their objects have no kind of their own."""
    for kind, one in (("Node", NODE), ("Pod", pod("web", "1"))):
        without = {key: value for key, value in one.items() if key != "kind"}
        (tmp_path / kind).write_text(json.dumps({"kind": f"{kind}List", "items": [without]}))
    command = ("-f", str(tmp_path / "Pod"), "--snapshot", str(tmp_path / "Node"))
    assert "1 of 1 pod would" in run("schedule", "--what-if", *command)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("hello", "without a kind"),
        ("{kind: 3}", "without a kind"),
        ("kind: [", "pods.yaml: "),
        ("kind: 2020-13-45", "pods.yaml: a value that cannot be read"),
        ("kind: Foo\nmetadata: x", 'metadata of "Foo" is "x"; expected fields'),
        ("kind: PodList\nitems: 5", 'items of "PodList" is "5"; expected a list'),
        ("kind: List\nitems: [x]", "without a kind"),
        ("kind: Pod\nspec: {containers: 3}", "number 1 is not a valid Pod"),
    ],
)
def test_what_is_no_file_of_objects(
    failing: Failing, tmp_path: Path, snapshot: str, text: str, said: str
) -> None:
    path = tmp_path / "pods.yaml"
    path.write_text(text)
    code, line = failing("schedule", "--what-if", "-f", str(path), "--snapshot", snapshot)
    assert code == 1
    assert said in line


def test_what_is_not_there(failing: Failing, tmp_path: Path, pods: str) -> None:
    command = ("schedule", "--what-if", "-f", pods, "--snapshot")
    assert "No such file" in failing(*command, str(tmp_path / "nothing"))[1]
    assert "the snapshot has no Node" in failing(*command, pods)[1]
    assert failing("schedule", "-f", pods)[0] == 2


def test_without_its_libraries_the_extra_is_named(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    run: Run,
    pods: str,
    snapshot: str,
) -> None:
    def missing(name: str) -> Any:
        raise ModuleNotFoundError("No module named 'numpy'", name="numpy")

    monkeypatch.setattr("koordctl.schedule.importlib.import_module", missing)
    with pytest.raises(SystemExit, match="1"):
        run("schedule", "--what-if", "-f", pods, "--snapshot", snapshot)
    assert 'the extra "scheduler" is not installed' in capsys.readouterr().err


def test_nothing_to_place(run: Run, tmp_path: Path, snapshot: str) -> None:
    path = tmp_path / "none.yaml"
    path.write_text("")
    [line, _] = run("schedule", "--what-if", "-f", str(path), "--snapshot", snapshot).splitlines()
    assert line.startswith("0 of 0 pods")


def workload(kind: str, name: str, cpu: str, **spec: Any) -> dict[str, Any]:
    template = {"metadata": {"labels": {"app": name}}, "spec": pod(name, cpu)["spec"]}
    return {
        "kind": kind,
        "metadata": {"name": name, "namespace": "shop"},
        "spec": {**spec, "template": template},
    }


def cron(name: str, cpu: str, **spec: Any) -> dict[str, Any]:
    made = workload("CronJob", name, cpu, **spec)
    return {**made, "spec": {"jobTemplate": {"spec": made["spec"]}}}


@pytest.mark.parametrize(
    ("given", "names"),
    [
        (workload("Deployment", "web", "100m", replicas=2), ["web-1", "web-2"]),
        (workload("StatefulSet", "db", "100m", replicas=2), ["db-0", "db-1"]),
        (workload("ReplicaSet", "one", "100m"), ["one-1"]),
        (workload("Job", "job", "100m", parallelism=3, completions=2), ["job-1", "job-2"]),
        (cron("nightly", "100m", parallelism=2), ["nightly-1", "nightly-2"]),
        (workload("Deployment", "off", "1", replicas=0), []),
    ],
)
def test_workloads_stand_for_their_pods(
    run: Run, tmp_path: Path, snapshot: str, given: dict[str, Any], names: list[str]
) -> None:
    path = tmp_path / "workload.json"
    path.write_text(json.dumps(given))
    text = run("schedule", "--what-if", "-f", str(path), "--snapshot", snapshot, "--json")
    found = json.loads(text)
    assert [one["pod"] for one in found["pods"]] == [f"shop/{name}" for name in names]
    assert {one["node"] for one in found["pods"]} <= {"n1"}


def test_what_is_said_of_alike_pods_is_said_once(run: Run, tmp_path: Path, snapshot: str) -> None:
    path = tmp_path / "workload.json"
    path.write_text(json.dumps(workload("Deployment", "big", "5", replicas=40)))
    lines = run("schedule", "--what-if", "-f", str(path), "--snapshot", snapshot).splitlines()
    assert lines[1].startswith("shop/big-1 … shop/big-40 (40 pods)  none")
    assert "The same holds for shop/big-2 … shop/big-40 (39 pods)." in lines
    assert sum("lacks" in line for line in lines) == 1


@pytest.mark.parametrize(
    ("replicas", "said"), [("two", "replicas is 'two'"), (10_001, "at most 10000")]
)
def test_a_number_of_pods_that_cannot_be(
    failing: Failing, tmp_path: Path, snapshot: str, replicas: Any, said: str
) -> None:
    path = tmp_path / "workload.json"
    path.write_text(json.dumps(workload("Deployment", "web", "1", replicas=replicas)))
    code, line = failing("schedule", "--what-if", "-f", str(path), "--snapshot", snapshot)
    assert (code, said in line) == (1, True)
