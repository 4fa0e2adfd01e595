"""One run: workers and havoc for so long, then order, then what is left."""

from __future__ import annotations

import contextlib
import random
import tempfile
import threading
import time
from pathlib import Path

import grpc

from tests.chaos.havoc import Havoc
from tests.chaos.node import Node, running
from tests.chaos.tally import Report, Tally
from tests.chaos.workers import Worker
from tests.support.cri import Cri, batch_pod_config, remove_pod, run_pod
from tests.support.processes import until

WORKERS = 8
WARM_PODS = 40


def chaos(seconds: float, seed: int, *, real: bool = False) -> Report:
    """Let everything go wrong for so long."""
    with (
        tempfile.TemporaryDirectory(prefix="pykoord-ch-") as name,
        running(Path(name), real=real) as node,
    ):
        return _chaos(node, seconds, seed)


def _chaos(node: Node, seconds: float, seed: int) -> Report:
    _warm(node)
    before = node.usage()
    tally, done = Tally(), threading.Event()
    workers = [Worker(node, tally, f"{seed}-{number}", done) for number in range(WORKERS)]
    began = time.monotonic()
    for worker in workers:
        worker.start()
    try:
        _wreak(node, tally, began + seconds, random.Random(seed))
    finally:
        done.set()
        for worker in workers:
            worker.join()
    tally.evidence += [f"{one.name}: {one.failure!r}" for one in workers if one.failure]
    passed = time.monotonic() - began
    _put_in_order(node, workers)
    left_over = _left_over(node)
    return Report(seed, passed, tally, before, node.usage(), left_over, node.tracebacks())


def _warm(node: Node) -> None:
    """What comes with the first pods is not what is looked for."""
    with node.proxy.cri() as cri:
        for _ in range(WARM_PODS):
            remove_pod(cri, run_pod(cri, batch_pod_config(cgroup_root=node.runtime.cgroup_root)))


def _wreak(node: Node, tally: Tally, end: float, chance: random.Random) -> None:
    havoc = Havoc(node, chance)
    while time.monotonic() < end:
        tally.did(havoc.wreak())
        time.sleep(chance.uniform(0.1, 1.0))


def _put_in_order(node: Node, workers: list[Worker]) -> None:
    """All is well again, and kubelets remove what they made, known to them or not."""
    until(lambda: node.proxy.healthz()["status"] == "ok", f"not well: {node.proxy.healthz()}")
    with node.proxy.cri() as cri:
        for worker in workers:
            worker.clean_up(cri)
        _remove_all(node, cri)


def _remove_all(node: Node, cri: Cri) -> None:
    """Those whose making was answered when nobody listened any more."""

    def removed() -> bool:
        with contextlib.suppress(grpc.RpcError):
            for sandbox in cri.list_pod_sandbox():
                cri.stop_pod_sandbox(sandbox.id)
                cri.remove_pod_sandbox(sandbox.id)
            return not cri.list_pod_sandbox()
        return False

    until(removed, "pods cannot be removed")


def _left_over(node: Node) -> int:
    """Records of what is gone, after all that is gone was noticed."""
    proxy = node.proxy
    with contextlib.suppress(AssertionError):
        until(lambda: not proxy.pods(), "records are left over", seconds=10.0)
    return len(proxy.pods()) + len(proxy.containers())
