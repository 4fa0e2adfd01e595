"""The harness itself: a dockerd comes up, runs containers, and leaves nothing behind."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import docker
import pytest

from tests.support.cgroups import read_values
from tests.support.dockerd import IMAGE, Dockerd, requires_dockerd, why_not
from tests.support.processes import get


def _runs(pid: int) -> bool:
    """Whether a process runs; a dead one may wait for its new parent to notice."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0] not in "ZX"
    except FileNotFoundError:
        return False


@pytest.fixture(scope="module")
def own() -> Iterator[Dockerd]:
    """One for this file: here it is killed."""
    with Dockerd() as instance:
        yield instance
    assert instance.leftovers() == []


@pytest.fixture
def client(own: Dockerd) -> Iterator[docker.DockerClient]:
    with own.client() as instance:
        yield instance
    own.remove_all_containers()


def _run(client: docker.DockerClient, **options: object) -> int:
    """Start a container, and return its first process."""
    container = client.containers.run(IMAGE, detach=True, network_mode="none", **options)
    container.reload()
    return int(container.attrs["State"]["Pid"])


@requires_dockerd
def test_limits_reach_the_kernel(own, client):
    values = read_values(_run(client, cpu_shares=321, mem_limit=32 << 20))
    assert values.cpu_shares == 321 or values.cpu_weight
    assert values.memory_limit == 32 << 20


@requires_dockerd
def test_cgroups_are_below_ours(own, client):
    usual = _run(client)
    chosen = _run(client, cgroup_parent=f"{own.cgroup_root}/below")
    assert f":{own.cgroup_root}/" in Path(f"/proc/{usual}/cgroup").read_text()
    assert f":{own.cgroup_root}/below/" in Path(f"/proc/{chosen}/cgroup").read_text()


@requires_dockerd
def test_images_come_in_under_any_name(own, client):
    own.import_image("pykoord.test/other:1")
    said = client.containers.run("pykoord.test/other:1", ["echo", "hi"], network_mode="none")
    assert said == b"hi\n"


@requires_dockerd
def test_containers_outlive_the_daemon(own, client):
    pid = _run(client, name="lasting")
    own.kill()
    with pytest.raises(OSError, match="refused"):
        get(own.address, "/_ping")
    own.start()
    assert client.containers.get("lasting").attrs["State"]["Pid"] == pid
    own.stop()
    own.start()
    assert client.containers.get("lasting").attrs["State"]["Pid"] == pid
    assert client.containers.get("lasting").exec_run(["echo", "hi"]).output == b"hi\n"


@requires_dockerd
def test_close_takes_running_containers_away():
    with Dockerd() as instance:
        with instance.client() as client:
            pid = _run(client)
        assert instance.leftovers()
        instance.kill()
    assert instance.leftovers() == []
    assert not _runs(pid)


@requires_dockerd
def test_what_the_daemon_can_no_longer_end_goes_too(monkeypatch):
    with Dockerd() as instance:
        with instance.client() as client:
            pid = _run(client)
        instance.kill()
        monkeypatch.setattr(instance, "start", lambda: None)
    assert instance.leftovers() == []
    assert not _runs(pid)


def test_says_why_it_cannot_run(monkeypatch):
    monkeypatch.setattr("koord_demo.containerd.why_not", lambda: None)
    monkeypatch.setattr("tests.support.dockerd._PATH", "/nowhere")
    assert why_not() == "not installed: dockerd, docker"
    monkeypatch.setattr("koord_demo.containerd.why_not", lambda: "for this")
    assert why_not() == "for this"
