"""The harness itself: a dockerd comes up, runs containers, and leaves nothing behind."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import docker
import pytest

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
@pytest.mark.parametrize("starts_again", [True, False])
def test_close_takes_running_containers_away(monkeypatch, starts_again: bool):
    with Dockerd() as instance:
        with instance.client() as client:
            pid = _run(client)
        assert instance.leftovers()
        instance.kill()
        if not starts_again:
            monkeypatch.setattr(instance, "start", lambda: None)
    assert instance.leftovers() == []
    assert not _runs(pid)


def test_says_why_it_cannot_run(monkeypatch):
    monkeypatch.setattr("koord_demo.containerd.why_not", lambda: None)
    monkeypatch.setattr("tests.support.dockerd._PATH", "/nowhere")
    assert why_not() == "not installed: dockerd, docker"
    monkeypatch.setattr("koord_demo.containerd.why_not", lambda: "for this")
    assert why_not() == "for this"
