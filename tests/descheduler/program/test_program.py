"""The descheduler's program beside the double of the API server."""

from __future__ import annotations

import asyncio
import dataclasses

from koord_descheduler.config.descheduler_config import read_descheduler_config
from koord_descheduler.program.program import DeschedulerProgram
from koord_descheduler.program.settings import DeschedulerSettings
from koord_kube.client import Client, Cluster, Limits
from koord_kube.protocol.resources import DRAIN_NODES, LEASES, NODES, POD_MIGRATION_JOBS, PODS
from koord_scheduler.config.scheduler_config import default_scheduler_config

from tests.descheduler.clusters import node, pod
from tests.support.kube_api import USUAL, KubeApi
from tests.support.processes import PATIENCE

SETTINGS = DeschedulerSettings(
    port=0, leader_elect_retry_period=0.1, leader_elect_resource_namespace="default"
)
CONFIG = """
apiVersion: descheduler/v1alpha2
kind: DeschedulerConfiguration
deschedulingInterval: 0s
"""


async def test_one_round_alone_ends_the_program() -> None:
    async with (
        KubeApi() as api,
        Client(Cluster(api.url), Limits(qps=0, answer=PATIENCE)) as client,
    ):
        for name in ("a", "b"):
            api.put(NODES, node(name))
        config = read_descheduler_config(CONFIG)
        program = DeschedulerProgram(SETTINGS, config, default_scheduler_config(), client, "d_0")
        async with asyncio.timeout(PATIENCE):
            await program.serve()
        lease = api.get(LEASES, "koord-descheduler", "default")
    assert not lease["spec"].get("holderIdentity"), "it hands over at once"
    overview = program._overview_document()
    assert {"leads", "leader", "dry_run", "obstacle", "under_way", "results"} <= overview.keys()
    assert (overview["plan"]["moves"], overview["plan"]["refused"]) == (0, {})


async def test_jobs_of_drains_are_looked_after_whatever_evicts_for_profiles() -> None:
    """To the double's clock they were made long ago, so they are removed at once."""
    evictor = "{enabled: [{name: DefaultEvictor}], disabled: [{name: '*'}]}"
    plugins = f"{{evict: {evictor}, filter: {evictor}}}"
    config = f"{CONFIG.replace('0s', '1h')}profiles: [{{name: direct, plugins: {plugins}}}]"
    async with (
        KubeApi() as api,
        Client(Cluster(api.url), Limits(qps=0, answer=PATIENCE)) as client,
        asyncio.TaskGroup() as group,
    ):
        for name in ("a", "b"):
            api.put(NODES, node(name))
        api.put(PODS, pod("p", "a", owner=None), "default")
        spec = {"nodeName": "a", "podRules": [{"behavior": "Drain"}], "confirmState": "Confirmed"}
        api.put(DRAIN_NODES, {"metadata": {"name": "d"}, "spec": spec})
        read = read_descheduler_config(config)
        program = DeschedulerProgram(SETTINGS, read, default_scheduler_config(), client, "d_0")
        task = group.create_task(program.serve())
        async with asyncio.timeout(PATIENCE):
            while api.count("delete", "podmigrationjobs") == 0:
                await asyncio.sleep(0.01)
        task.cancel()


JOB = {
    "metadata": {"name": "by-hand"},
    "spec": {"podRef": {"namespace": "default", "name": "p"}, "mode": "EvictDirectly"},
}


async def test_a_dry_run_leaves_jobs_made_by_hand_alone() -> None:
    async with (
        KubeApi(installed=USUAL | {POD_MIGRATION_JOBS}) as api,
        Client(Cluster(api.url), Limits(qps=0, answer=PATIENCE)) as client,
    ):
        for name in ("a", "b"):
            api.put(NODES, node(name))
        api.put(PODS, pod("p", "a"), "default")
        api.put(POD_MIGRATION_JOBS, JOB)
        config = read_descheduler_config(CONFIG)
        settings = dataclasses.replace(SETTINGS, dry_run=True)
        program = DeschedulerProgram(settings, config, default_scheduler_config(), client, "d_0")
        async with asyncio.timeout(PATIENCE):
            await program.serve()
        assert "status" not in api.get(POD_MIGRATION_JOBS, "by-hand")
        assert api.count("create", "pods") == 0
