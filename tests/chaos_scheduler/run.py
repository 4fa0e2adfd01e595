"""A run on an API server of its own."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from koord_demo.programs import console_script

from tests.apiserver.real_cluster import ROOT, RealCluster
from tests.apiserver.scheduler_cluster import NAMESPACE
from tests.chaos_scheduler.churn import Churn
from tests.chaos_scheduler.nodes import ChaosNodes
from tests.chaos_scheduler.patient_client import patient_client
from tests.chaos_scheduler.replicas import unreliable_schedulers
from tests.chaos_scheduler.report import ChurnReport
from tests.support.kube_apiserver import ADMIN, KubeApiserver
from tests.support.network import OwnNetwork


async def run(
    nodes: int, pods: int, seconds: float, kills: int, pauses: int, seed: int
) -> ChurnReport:
    """What came of it; what the schedulers said last goes to stderr if it cannot be finished."""
    with _server() as server:
        schedulers = unreliable_schedulers(server)
        try:
            async with await patient_client(server) as client:
                churn = Churn(ChaosNodes(server, client), schedulers, seed)
                try:
                    return await churn.run(nodes, pods, seconds, kills, pauses)
                except BaseException:
                    sys.stderr.write(f"{churn.report}\n")
                    raise
        except BaseException:
            for one in schedulers:
                sys.stderr.write(f"---- {one.name}\n{one.said[-3000:]}\n")
            raise
        finally:
            for one in schedulers:
                one.close()


@contextmanager
def _server() -> Iterator[KubeApiserver]:
    """One with our definitions, and the classes of priority."""
    with (
        tempfile.TemporaryDirectory(prefix="pykoord-k8s-") as name,
        OwnNetwork() as own,
        KubeApiserver(Path(name), own) as server,
    ):
        config = server.kubeconfig("admin", ADMIN)
        command = [console_script("koordctl"), "crds", "install", f"--kubeconfig={config}"]
        subprocess.run(command, check=True, capture_output=True)
        server.kubectl("wait", "--for=condition=Established", "crd", "--all", "--timeout=60s")
        server.kubectl("apply", "-f", str(ROOT / "deploy" / "priority-classes.yaml"))
        for namespace in (NAMESPACE, "kube-system", "koordinator-system"):
            RealCluster(server).namespace(namespace)
        yield server
