"""The descheduler's account may do what the program asks for."""

from __future__ import annotations

import asyncio
import os
import signal
from typing import Any

from koord_descheduler.config.descheduler_config import read_descheduler_config
from koord_descheduler.program.program import DeschedulerProgram
from koord_descheduler.program.settings import DeschedulerSettings
from koord_kube.client import Client, Cluster, Limits
from koord_kube.definitions.tide_node_pool import TIDE_NODE_POOL
from koord_kube.protocol.resources import DEFINITIONS, NODES, PODS, TIDE_NODE_POOLS
from koord_scheduler.config.scheduler_config import scheduler_config

from tests.deploy.manifests import NAMESPACE
from tests.deploy.rights import missing, rights
from tests.descheduler.clusters import node, pod
from tests.support.assembled_scheduler import KOORDINATOR
from tests.support.kube_api import KubeApi
from tests.support.processes import PATIENCE
from tests.support.waiting import until

ACCOUNT, COMPONENTS = "koord-descheduler", ("descheduler", "tide-node-pools")
SETTINGS = DeschedulerSettings(
    port=0,
    cool_down=0.0,
    leader_elect_retry_period=0.1,
    leader_elect_resource_namespace=NAMESPACE,
    leader_elect_resource_name="koord-descheduler",
    pod_name="d1",
    feature_gates=("TideNodePool=true",),
)
CONFIG = read_descheduler_config(
    """
apiVersion: descheduler/v1alpha2
kind: DeschedulerConfiguration
deschedulingInterval: 1s
profiles:
  - name: direct
    plugins:
      deschedule: {enabled: [{name: RemovePodsViolatingNodeTaints}]}
      evict: {enabled: [{name: DefaultEvictor}], disabled: [{name: "*"}]}
      filter: {enabled: [{name: DefaultEvictor}], disabled: [{name: "*"}]}
"""
)


def _all_plugins() -> dict[str, Any]:
    """A scheduler's configuration with every plugin that reads something."""
    enabled = [{"name": name} for name in KOORDINATOR]
    return {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [{"plugins": {"multiPoint": {"enabled": enabled}}}],
    }


async def test_what_the_descheduler_asks_is_what_it_may() -> None:
    taint = {"key": "gone", "effect": "NoSchedule"}
    async with (
        KubeApi() as api,
        Client(Cluster(api.url), Limits(qps=0, answer=PATIENCE)) as client,
    ):
        api.streams_lists = False  # where it does, nobody lists
        for made in (node("a", taints=[taint]), node("b")):
            api.put(NODES, made)
        api.put(PODS, pod("p", "a"), "default")
        api.put(DEFINITIONS, TIDE_NODE_POOL)
        pool = {"metadata": {"name": "tide"}, "spec": {"nodeConfigs": {}}}
        api.put(TIDE_NODE_POOLS, pool)
        scheduler = scheduler_config(_all_plugins())
        async with asyncio.timeout(PATIENCE), asyncio.TaskGroup() as group:
            program = DeschedulerProgram(SETTINGS, CONFIG, scheduler, client, "d1_0")
            group.create_task(program.serve())
            await until(lambda: api.count("create", "pods") > 0, "an eviction")
            await until(lambda: api.count("create", "events") > 0, "an Event")
            await until(lambda: api.count("create", "drainnodes") > 0, "a move of a node")
            os.kill(os.getpid(), signal.SIGTERM)
        asked = rights(api.asked)
    assert {"pods/eviction", "pods/status", "events", "leases"} <= {
        right.resource for right in asked
    }
    assert missing(asked, ACCOUNT, COMPONENTS) == []
    tide = missing(asked, ACCOUNT, ("descheduler",))
    assert {right.group for right in tide} == {TIDE_NODE_POOLS.group}
    assert missing(asked, ACCOUNT) == sorted(asked), "nothing is allowed without the component"
