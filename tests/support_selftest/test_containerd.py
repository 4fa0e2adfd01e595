"""The harness itself: a containerd comes up, runs a pod, and leaves nothing behind."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest

from tests.support.cgroups import container_pid
from tests.support.containerd import Containerd, requires_containerd, why_not
from tests.support.cri import Cri, batch_pod_config, remove_pod, run_pod


def _runs(pid: int) -> bool:
    """Whether a process runs; a dead one may wait for its new parent to notice."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0] not in "ZX"
    except FileNotFoundError:
        return False


@pytest.fixture(scope="module")
def own() -> Iterator[Containerd]:
    """One for this file: here it is killed."""
    with Containerd() as instance:
        yield instance
    assert instance.leftovers() == []


@pytest.fixture
def cri(own: Containerd) -> Iterator[Cri]:
    with own.cri() as client:
        yield client


@requires_containerd
def test_pods_outlive_a_killed_daemon(own, cri):
    pod = run_pod(cri, batch_pod_config(cgroup_root=own.cgroup_root))
    pid = container_pid(cri, pod.container_id)
    own.kill()
    with pytest.raises(grpc.RpcError):
        cri.version(timeout=1)
    own.start()
    cri.wait_until_ready()
    assert container_pid(cri, pod.container_id) == pid
    own.restart()
    cri.wait_until_ready()
    assert container_pid(cri, pod.container_id) == pid
    remove_pod(cri, pod)


@requires_containerd
@pytest.mark.parametrize("starts_again", [True, False])
def test_close_takes_running_pods_away(monkeypatch, starts_again: bool):
    with Containerd() as instance, instance.cri() as cri:
        pod = run_pod(cri, batch_pod_config(cgroup_root=instance.cgroup_root))
        pid = container_pid(cri, pod.container_id)
        assert instance.leftovers()
        instance.kill()
        if not starts_again:
            monkeypatch.setattr(instance, "start", lambda: None)
    assert instance.leftovers() == []
    assert not _runs(pid)


def test_says_why_it_cannot_run(monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert why_not() == "a real containerd needs root"
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr("koord_demo.containerd._PATH", "/nowhere")
    assert str(why_not()).startswith("not installed: containerd, containerd-shim-runc-v2")
