"""All strategies, while the kubelet's list lacks pods that run: as after its restart."""

from __future__ import annotations

from pathlib import Path

from koord_host.knobs.layout import Driver
from koord_model import cpuset
from koord_model.qos import QoSClass

from tests.support.node.strategies import StrategyNode, StrategyRun
from tests.support.node.workload import a_pod, everything_on, measured
from tests.support.views import pod_view

BE, KUBEPODS = "kubepods/besteffort", "kubepods"


def test_pods_that_run_keep_their_cpus_and_their_memory(tmp_path: Path) -> None:
    with StrategyNode(tmp_path, 2, Driver.CGROUPFS) as node:
        node.slo = everything_on()
        static = pod_view("haproxy", layout=node.layout)
        db, web = (
            a_pod(node.layout, "lse-db", QoSClass.LSE, 2, "0-1"),
            a_pod(node.layout, "web-a", QoSClass.LS, 2),
        )
        job = a_pod(node.layout, "be-job", QoSClass.BE, 2)
        node.start(static, db, web, job)
        everybody = node.pods

        def protection() -> list[str]:
            return [node.read(one, "memory.min") for one in (db.group, web.group, KUBEPODS)]

        def rounds(run: StrategyRun) -> None:
            for _ in range(15):
                node.measured = measured(everybody, 0.1, at=node.wall + 5)
                run.round(5.0)

        with node.run() as run:
            rounds(run)
            before = protection()
            assert int(before[0]) > 0
            for listed in ([static], [static, web]):
                node.pods = listed
                rounds(run)
                assert protection() == before
                assert not cpuset.parse(str(node.value(BE, "cpuset.cpus"))) & {0, 1}
            everybody = [static, web]
            for gone in (db, job):
                node.files.remove_group(gone.group)
            rounds(run)
            assert int(node.read(KUBEPODS, "memory.min")) < int(before[2]), "these have ended"
