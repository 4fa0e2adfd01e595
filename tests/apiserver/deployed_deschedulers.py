"""koord-deschedulers beside a real API server, with the rights that deploy/ gives them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from tests.apiserver.real_cluster import RealCluster
from tests.support.scheduler_program import QUICK, SchedulerProgram


@contextmanager
def two_deschedulers(
    cluster: RealCluster, config: str, scheduler_config: str, *flags: str
) -> Iterator[list[SchedulerProgram]]:
    """Two that are to be started; they must ask for nothing else."""
    folder, network = cluster.server.folder, cluster.server.network
    (folder / "descheduler.yaml").write_text(config)
    (folder / "scheduler.yaml").write_text(scheduler_config)
    arguments = (
        *QUICK,
        *flags,
        f"--config={folder / 'descheduler.yaml'}",
        f"--scheduler-config={folder / 'scheduler.yaml'}",
    )
    made = []
    with ExitStack() as stack:
        for name in ("d1", "d2"):
            kubeconfig = cluster.server.kubeconfig(name, cluster.token("koord-descheduler"))
            program = SchedulerProgram(
                name,
                folder,
                kubeconfig,
                *arguments,
                host=network.address,
                inside=network.inside([]),
                module="koord_descheduler",
            )
            stack.callback(program.close)
            made.append(program)
        yield made
    for program in made:
        assert "Traceback" not in program.said, program.said
        assert "forbidden" not in program.said.lower(), program.said
