"""The state database is spoilt, or cannot be written: the proxy carries on, and says so."""

from __future__ import annotations

from pathlib import Path

import pytest
from koord_hooks.stages import Stage

from tests.integration.conftest import assert_sound
from tests.support.cri import batch_pod_config, pb, remove_pod, run_pod
from tests.support.hook_server import HookServer, nothing, wishing
from tests.support.proxy import Proxy


def _lives_without_its_database(proxy: Proxy, hooks: HookServer) -> None:
    proxy.use(hooks, wishing(envs={"FROM_THE_HOOK": "yes"}, stages=(Stage.PRE_CREATE_CONTAINER,)))
    with proxy.cri() as cri:
        pod = run_pod(cri, batch_pod_config(envs={"PLAIN": "as it was"}))
        cri.update_container_resources(pod.container_id, pb.LinuxContainerResources(cpu_shares=2))
        assert proxy.containers()[pod.container_id]["managed"]
        asked = hooks.requests(Stage.PRE_UPDATE_CONTAINER_RESOURCES)[-1]
        assert asked.container_envs["FROM_THE_HOOK"] == "yes"
        remove_pod(cri, pod)


@pytest.mark.parametrize("spoilt", ["garbage", "cut", "pages"])
def test_corrupt_database(directory, runtime, hooks, spoilt):
    proxy = Proxy(directory, runtime.address)
    with proxy:
        proxy.use(hooks)
        with proxy.cri() as cri:
            pods = [run_pod(cri, batch_pod_config()) for _ in range(40)]
        assert proxy.healthz()["database"] == "ok"
        assert proxy.stop() == 0
        _spoil(proxy.state, spoilt)
        proxy.start()
        [event] = [event for event in proxy.events() if event["level"] == "error"]
        assert event["path"] == str(proxy.state)
        # The new one is as good as the old one was.
        assert proxy.healthz()["status"] == "ok"
        assert proxy.metric("database_ok") == 1
        assert proxy.containers().keys() == {pod.container_id for pod in pods}
        _lives_without_its_database(proxy, hooks)
        proxy.restart_after_kill()
        assert proxy.containers().keys() == {pod.container_id for pod in pods}
        assert_sound(proxy)


def _spoil(path: Path, how: str) -> None:
    data = path.read_bytes()
    assert len(data) > 3 * 4096
    if how == "garbage":
        path.write_bytes(b"this is no database\n" * 1000)
    elif how == "cut":
        path.write_bytes(data[:6000])
    else:
        path.write_bytes(data[:4096] + b"\xa5" * (len(data) - 4096))


@pytest.mark.parametrize("where", ["a directory", "below a file"])
def test_unwritable_database(directory, runtime, hooks, where):
    path = directory / "taken"
    if where == "a directory":
        path.mkdir()
    else:
        path.write_text("a file")
        path /= "state.db"
    with Proxy(directory, runtime.address, f"--state-path={path}") as proxy:
        assert str(path) in proxy.healthz()["database"]
        assert proxy.healthz()["status"] == "degraded"
        assert proxy.metric("database_ok") == 0
        assert [event["level"] for event in proxy.events()].count("error") == 1
        _lives_without_its_database(proxy, hooks)
        assert_sound(proxy)


def test_database_is_the_owners_alone(proxy, hooks):
    proxy.use(hooks, nothing)
    with proxy.cri() as cri:
        run_pod(cri, batch_pod_config(envs={"PLAIN": "as it was"}))
    files = [path for path in proxy.directory.iterdir() if path.name.startswith("state.db")]
    assert {path.name for path in files} == {"state.db", "state.db-wal", "state.db-shm"}
    assert {path.stat().st_mode & 0o777 for path in files} == {0o600}
