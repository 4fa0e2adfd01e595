"""A koord-scheduler beside a real API server, with the rights that deploy/ gives it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tests.apiserver.real_cluster import RealCluster
from tests.support.manager_program import NAMESPACE
from tests.support.scheduler_program import QUICK, SchedulerProgram

_LEASE = (
    "--leader-elect-resource-name=koord-scheduler",
    f"--leader-elect-resource-namespace={NAMESPACE}",
)
"""As the configuration in deploy/ has it."""


@contextmanager
def deployed_scheduler(
    cluster: RealCluster, config: str = "", *flags: str
) -> Iterator[SchedulerProgram]:
    """One that is to be started, by a KubeSchedulerConfiguration; it must ask for nothing else."""
    folder, network = cluster.server.folder, cluster.server.network
    kubeconfig = cluster.server.kubeconfig("s1", cluster.token("koord-scheduler"))
    arguments = [*QUICK, *_LEASE, *flags]
    if config:
        path = folder / "scheduler-config.yaml"
        path.write_text(config)
        arguments.append(f"--config={path}")
    made = SchedulerProgram(
        "s1", folder, kubeconfig, *arguments, host=network.address, inside=network.inside([])
    )
    try:
        yield made
    finally:
        made.close()
    assert "Traceback" not in made.said
    assert "forbidden" not in made.said.lower()
