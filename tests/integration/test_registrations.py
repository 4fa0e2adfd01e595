"""Hook servers come, go, change, write badly, and disagree; koordlet restarts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import grpc
import pytest
from koord_hooks.stages import Stage

from tests.support.cri import (
    Cri,
    PodPlan,
    RunningPod,
    batch_pod_config,
    burstable_pod_config,
    pb,
    remove_pod,
    run_pod,
)
from tests.support.embedded import EmbeddedRuntime
from tests.support.hook_server import HookServer, wishing
from tests.support.processes import until
from tests.support.proxy import Koordlet, Proxy

CREATE = Stage.PRE_CREATE_CONTAINER
WATCHER = "koord_proxy.hookservers"


def _said(proxy: Proxy, name: str, level: str = "warning") -> list[str]:
    """What was said about one file."""
    return [
        event["message"]
        for event in proxy.events()
        if event["logger"] == WATCHER
        and event["level"] == level
        and event["message"].startswith(f"{name}:")
    ]


def _troubles(proxy: Proxy) -> dict[str, str]:
    found: dict[str, str] = proxy.healthz()["registrations"]
    return found


def _created(cri: Cri, runtime: EmbeddedRuntime, plan: PodPlan | None = None) -> Any:
    """What the runtime is sent for a new pod's container."""
    pod = run_pod(cri, plan or batch_pod_config())
    (*_, sent) = runtime.requests_of("CreateContainer")
    remove_pod(cri, pod)
    return pb.CreateContainerRequest.FromString(sent).config


def _is_hooked(cri: Cri, runtime: EmbeddedRuntime) -> bool:
    return bool(_created(cri, runtime).linux.resources.cpu_shares == 321)


# Files.


BAD_FILES = {
    "half written": '{"remote-endpoint": "/run/x.sock", "runtime-ho',
    "empty": "",
    "no object": "[1, 2]",
    "wrong kind": '{"remote-endpoint": 7, "runtime-hooks": ["PreCreateContainer"]}',
    "no endpoint": '{"runtime-hooks": ["PreCreateContainer"]}',
    "relative": '{"remote-endpoint": "x.sock", "runtime-hooks": ["PreCreateContainer"]}',
    "policy": '{"remote-endpoint": "/x.sock", "failure-policy": "Abort", "runtime-hooks": []}',
    "timeout": '{"remote-endpoint": "/x.sock", "timeout": -1, "runtime-hooks": []}',
    "nested": "[" * 5000,
    "not text": "\udcff\udcfe",
}


def test_bad_files_disturb_nobody_and_are_reported_once(proxy, cri, runtime, hooks):
    hooks.behave = wishing(resources={"cpu_shares": 321})
    hooks.register(proxy.hooks)
    proxy.wait_for_server(hooks.name)
    for number, content in enumerate(BAD_FILES.values()):
        file = proxy.hooks / f"bad-{number}.json"
        file.write_bytes(content.encode(errors="surrogateescape"))
        proxy.wait_until(lambda file=file: _said(proxy, file.name), f"not reported: {file.name}")
        assert _is_hooked(cri, runtime)
    for number in range(len(BAD_FILES)):
        # Written again as it was, it is no news.
        file = proxy.hooks / f"bad-{number}.json"
        file.write_bytes(file.read_bytes())
    (proxy.hooks / "mark.json").write_text("x")
    proxy.wait_until(lambda: _said(proxy, "mark.json"), "not reported")
    for number in range(len(BAD_FILES)):
        (line,) = _said(proxy, f"bad-{number}.json")
        assert "\n" not in line
    assert [one["name"] for one in proxy.healthz()["hook_servers"]] == ["hooks"]
    # Changed, and still bad: that is reported.
    (proxy.hooks / "mark.json").write_text("y")
    proxy.wait_until(lambda: len(_said(proxy, "mark.json")) == 2, "not reported")


def test_half_written_file_is_used_once_it_is_whole(proxy, cri, runtime, hooks):
    hooks.behave = wishing(resources={"cpu_shares": 321})
    whole = hooks.register(proxy.hooks)
    proxy.wait_for_server(hooks.name)
    text = whole.read_text()
    # In place, as the Go koordlet writes it.
    whole.write_text(text[:30])
    proxy.wait_until(lambda: _said(proxy, whole.name), "not reported")
    assert "last good version stays in use" in _said(proxy, whole.name)[0]
    assert _is_hooked(cri, runtime)
    whole.write_text(text.replace('"Ignore"', '"Fail"'))
    proxy.wait_until(lambda: proxy.policy(hooks.name) == "Fail", "not in use when whole")
    assert _is_hooked(cri, runtime)


def test_file_that_vanishes(proxy, cri, runtime, hooks):
    hooks.behave = wishing(resources={"cpu_shares": 321})
    file = hooks.register(proxy.hooks)
    proxy.wait_for_server(hooks.name)
    assert _is_hooked(cri, runtime)
    file.unlink()
    proxy.wait_until(lambda: _troubles(proxy), "not named")
    # Nobody said that it is not to be asked any more.
    assert _is_hooked(cri, runtime)
    assert "koordctl hooks remove hooks" in _troubles(proxy)["hooks"]
    assert proxy.healthz()["status"] == "degraded"
    (proxy.hooks / "hooks.removed").touch()
    proxy.wait_until(lambda: not proxy.healthz()["hook_servers"], "still asks")
    assert not _is_hooked(cri, runtime)
    assert proxy.healthz()["status"] == "ok"
    assert not list(proxy.hooks.iterdir())
    # Nothing to ask: nothing is missed.
    assert proxy.metric("unmanaged") == 0


@pytest.mark.parametrize("spoilt", [None, "{"], ids=["deleted", "damaged"])
def test_last_good_registration_outlives_the_proxy(proxy, runtime, hooks, spoilt):
    hooks.behave = wishing(resources={"cpu_shares": 321})
    file = hooks.register(proxy.hooks, policy="Fail")
    proxy.wait_for_server(hooks.name)
    proxy.stop()
    if spoilt is None:
        file.unlink()
    else:
        file.write_text(spoilt)
    proxy.start()
    assert proxy.policy(hooks.name) == "Fail"
    assert proxy.healthz()["status"] == "degraded"
    assert list(_troubles(proxy)) == [hooks.name]
    with proxy.cri() as cri:
        assert _is_hooked(cri, runtime)
        hooks.die()
        with pytest.raises(grpc.RpcError) as caught:
            run_pod(cri, batch_pod_config())
    assert caught.value.code() is grpc.StatusCode.UNAVAILABLE


def test_unknown_stage_is_passed_over(proxy, cri, runtime, hooks):
    hooks.behave = wishing(resources={"cpu_shares": 321})
    file = hooks.register(proxy.hooks)
    content = json.loads(file.read_text())
    content["runtime-hooks"] = ["PreCreateContainer", "PreImaginePod", "NoneRuntimeHookType"]
    file.write_text(json.dumps(content))
    proxy.wait_until(lambda: _said(proxy, file.name), "not reported")
    (line,) = _said(proxy, file.name)
    assert "PreImaginePod" in line
    # Read again as it changes, it may be in use by nobody for a moment.
    stages = lambda: [one["stages"] for one in proxy.healthz()["hook_servers"]]  # noqa: E731
    proxy.wait_until(lambda: stages() == [["PreCreateContainer"]], "not in use")
    assert _is_hooked(cri, runtime)


def test_other_files_are_left_alone(proxy, hooks):
    hooks.register(proxy.hooks)
    for name in ("README", ".hidden.json", "hooks.json.swp", "notes.yaml"):
        (proxy.hooks / name).write_text("nothing")
    (proxy.hooks / "directory.json").mkdir()
    proxy.wait_for_server(hooks.name)
    assert [one["name"] for one in proxy.healthz()["hook_servers"]] == ["hooks"]


def test_directory_that_is_removed_and_made_anew(proxy, hooks):
    hooks.register(proxy.hooks)
    proxy.wait_for_server(hooks.name)
    for file in proxy.hooks.iterdir():
        file.unlink()
    proxy.hooks.rmdir()
    proxy.wait_until(lambda: _troubles(proxy), "not named")
    hooks.register(proxy.hooks)
    proxy.wait_until(lambda: not _troubles(proxy), "not read again")
    assert proxy.breaker(hooks.name) == "closed"


# Several servers.


def test_order_and_conflicts(proxy, cri, runtime, directory):
    """Each sees what those before it changed; of two different wishes the first counts."""
    names = {"zulu": 1, "alpha": 2, "bravo": 2}
    servers = {name: HookServer(directory, name) for name in names}
    for shares, (name, server) in enumerate(servers.items(), 101):
        server.behave = wishing(
            resources={"cpu_shares": shares}, envs={f"BY_{name.upper()}": name}, stages=(CREATE,)
        )
    for name, server in servers.items():
        server.start()
        server.register(proxy.hooks, priority=names[name])
        proxy.wait_for_server(name)
    try:
        config = _created(cri, runtime)
    finally:
        for server in servers.values():
            server.die()
    assert [one["name"] for one in proxy.healthz()["hook_servers"]] == ["zulu", "alpha", "bravo"]
    first, second, third = (servers[name].requests(CREATE)[0] for name in names)
    assert [seen.container_resources.cpu_shares for seen in (first, second, third)] == [2, 101, 101]
    new = {"BY_ZULU", "BY_ALPHA", "BY_BRAVO"}
    assert [sorted(new & seen.container_envs.keys()) for seen in (first, second, third)] == [
        [],
        ["BY_ZULU"],
        ["BY_ALPHA", "BY_ZULU"],
    ]
    assert config.linux.resources.cpu_shares == 101
    assert new <= {one.key for one in config.envs}
    conflicts = [event for event in proxy.events() if "conflict" in event["message"]]
    assert [(one["kept"], one["overruled"]) for one in conflicts] == [
        ("zulu", "alpha"),
        ("zulu", "bravo"),
    ]
    assert all("cpu_shares" in one["field"] for one in conflicts)


def test_each_server_is_asked_about_its_own_stages_only(proxy, cri, hooks, directory):
    with HookServer(directory, "other") as other:
        hooks.register(proxy.hooks, stages=(Stage.PRE_RUN_POD_SANDBOX,))
        other.register(proxy.hooks, stages=(Stage.POST_START_CONTAINER,))
        for server in (hooks, other):
            proxy.wait_for_server(server.name)
        remove_pod(cri, run_pod(cri, batch_pod_config()))
        until(lambda: other.asked, "not asked after the start")
    assert [asked.stage for asked in hooks.asked] == [Stage.PRE_RUN_POD_SANDBOX]
    assert [asked.stage for asked in other.asked] == [Stage.POST_START_CONTAINER]


def test_every_stage_of_a_life(proxy, cri, hooks):
    hooks.register(proxy.hooks)
    proxy.wait_for_server(hooks.name)
    pod = run_pod(cri, batch_pod_config())
    cri.update_container_resources(pod.container_id, pb.LinuxContainerResources(cpu_shares=5))
    cri.stop_container(pod.container_id)
    until(lambda: hooks.requests(Stage.POST_STOP_CONTAINER), "not asked after the stop")
    cri.remove_container(pod.container_id)
    cri.stop_pod_sandbox(pod.sandbox_id)
    # Those that come after a call are asked in their own time.
    due = set(Stage) - {Stage.PRE_REMOVE_POD_SANDBOX}
    until(lambda: due <= {asked.stage for asked in (*hooks.asked,)}, "a stage is missing")
    counts = {stage: len(hooks.requests(stage)) for stage in Stage}
    removed = counts.pop(Stage.PRE_REMOVE_POD_SANDBOX)
    assert (set(counts.values()), removed) == ({1}, 0)
    for asked in hooks.asked:
        assert asked.request.pod_meta.name == pod.plan.sandbox.metadata.name


def test_removing_a_pod_that_runs_asks_first(proxy, cri, hooks):
    hooks.register(proxy.hooks)
    proxy.wait_for_server(hooks.name)
    pod = run_pod(cri, batch_pod_config())
    cri.remove_pod_sandbox(pod.sandbox_id)
    (asked,) = hooks.requests(Stage.PRE_REMOVE_POD_SANDBOX)
    assert asked.pod_meta.uid == pod.plan.sandbox.metadata.uid
    assert proxy.pods() == []


# koordlet.


def _is_batch(cri: Cri, runtime: EmbeddedRuntime) -> bool:
    return bool(_created(cri, runtime).linux.resources.cpu_shares == 512)


@pytest.mark.parametrize("how", ["stopped", "killed"])
def test_koordlet_that_is_away_is_expected(directory, runtime, how):
    """Under Fail a stop for a restart opens the node no more than kill -9."""
    fail = "--runtime-hooks-failure-policy=Fail"
    with (
        Koordlet(directory, directory / "hookserver.d", fail) as koordlet,
        Proxy(directory, runtime.address) as proxy,
        proxy.cri() as cri,
    ):
        assert _is_batch(cri, runtime)
        koordlet.stop() if how == "stopped" else koordlet.kill()
        assert koordlet.registration.exists()
        with pytest.raises(grpc.RpcError) as caught:
            run_pod(cri, batch_pod_config())
        assert caught.value.code() is grpc.StatusCode.UNAVAILABLE
        assert "koordlet" in caught.value.details()
        koordlet.start()
        proxy.wait_for_breaker_not_open("koordlet")
        assert _is_batch(cri, runtime)


@pytest.mark.parametrize("how", ["stopped", "killed"])
@pytest.mark.parametrize("proxy_too", [False, True], ids=["proxy stays", "proxy restarts"])
def test_what_started_without_koordlet_is_named_and_repaired(
    proxy, runtime, koordlet, how, proxy_too
):
    """Under Ignore, without NRI and without the kubelet's list."""
    proxy.wait_for_server("koordlet")
    koordlet.stop() if how == "stopped" else koordlet.kill()
    with proxy.cri() as cri:
        pods = [run_pod(cri, batch_pod_config()) for _ in range(3)]
        plain = run_pod(cri, burstable_pod_config())
    assert proxy.metric("unmanaged") == 2 * len([*pods, plain])
    assert {_shares(runtime, pod) for pod in pods} == {2}
    if proxy_too:
        proxy.restart_after_kill()
    koordlet.start()
    proxy.wait_until(lambda: not proxy.healthz()["unmanaged"], "not repaired")
    assert {_shares(runtime, pod) for pod in pods} == {512}
    assert _shares(runtime, plain) == plain.plan.container.linux.resources.cpu_shares
    assert len(proxy.events("repaired")) >= len(pods)


def _shares(runtime: EmbeddedRuntime, pod: RunningPod) -> int:
    request = pb.ContainerStatusRequest(container_id=pod.container_id)
    status: Any = runtime.runtime.pods.container_status(request)
    shares: int = status.status.resources.linux.cpu_shares
    return shares


@pytest.mark.parametrize("first", ["proxy", "koordlet"])
def test_either_may_start_first(directory, runtime, koordlet, first):
    if first == "proxy":
        koordlet.stop()
    with Proxy(directory, runtime.address) as proxy, proxy.cri() as cri:
        if first == "proxy":
            koordlet.start()
            proxy.wait_for_server("koordlet")
        # With koordlet there first, the very first pod is hooked.
        assert _is_batch(cri, runtime)


def test_registration_lives_where_it_should(koordlet, directory):
    content = json.loads(koordlet.registration.read_text())
    assert Path(content["remote-endpoint"]) == directory / "koordlet.sock"
    assert set(content) <= {"remote-endpoint", "failure-policy", "runtime-hooks", "timeout"}
