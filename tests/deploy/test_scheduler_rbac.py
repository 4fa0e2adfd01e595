"""The scheduler's account may do what the program asks for, and no more."""

from __future__ import annotations

import asyncio
import os
import signal
from typing import Any

import pytest
from koord_kube.client import Client, Cluster, Limits
from koord_kube.protocol.resources import NODES, PODS
from koord_scheduler.config.scheduler_config import default_scheduler_config
from koord_scheduler.program.program import SchedulerProgram
from koord_scheduler.program.settings import SchedulerSettings

from tests.deploy.manifests import NAMESPACE
from tests.deploy.rights import Right, missing, rights, unused
from tests.support.kube_api import KubeApi
from tests.support.processes import PATIENCE
from tests.support.waiting import until

ACCOUNT, COMPONENTS = "koord-scheduler", ("scheduler",)
SETTINGS = SchedulerSettings(
    port=0,
    leader_elect_retry_period=0.1,
    leader_elect_resource_namespace=NAMESPACE,
    leader_elect_resource_name="koord-scheduler",
    pod_name="s1",
)
CONFIG = default_scheduler_config()
CLAIMS = ("persistentvolumes", "persistentvolumeclaims")
STORAGE = ("csidrivers", "csinodes", "csistoragecapacities", "storageclasses", "volumeattachments")
COMING = {
    ("", "events", "patch"),
    ("", "pods", "delete"),
    *(("", plural, verb) for plural in CLAIMS for verb in ("get", "list", "watch", "patch")),
    *(
        (group, plural, verb)
        for group, plurals in {
            "": ("services", "replicationcontrollers"),
            "apps": ("replicasets", "statefulsets"),
            "policy": ("poddisruptionbudgets",),
            "storage.k8s.io": STORAGE,
        }.items()
        for plural in plurals
        for verb in ("list", "watch")
    ),
}
"""What preemption, volumes, default spreading and series of Events need, which come next."""


def _pod(name: str, cpu: str) -> dict[str, Any]:
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}
    spec = {"schedulerName": "default-scheduler", "containers": [container]}
    return {"metadata": {"name": name}, "spec": spec}


async def test_what_the_scheduler_asks_is_what_it_may() -> None:
    amounts = {"cpu": "4", "memory": "16Gi", "pods": "110"}
    limits = Limits(qps=0, answer=PATIENCE)
    async with KubeApi() as api, Client(Cluster(api.url), limits) as client:
        api.streams_lists = False  # where it does, nobody lists
        api.put(NODES, {"metadata": {"name": "n1"}, "status": {"allocatable": amounts}})
        api.put(PODS, _pod("fits", "1"), "shop")
        api.put(PODS, _pod("waits", "8"), "shop")
        # Whether the pod has its node has to be looked up.
        api.fail(verb="create", plural="pods", status=500)
        async with asyncio.timeout(PATIENCE), asyncio.TaskGroup() as group:
            group.create_task(SchedulerProgram(SETTINGS, CONFIG, client, "s1_0").serve())
            await until(lambda: api.count("create", "events") >= 2, "Events of both pods")
            await until(lambda: api.count("patch", "pods") > 0, "a condition")
            os.kill(os.getpid(), signal.SIGTERM)
        asked = rights(api.asked)
    assert missing(asked, ACCOUNT, COMPONENTS) == []
    assert unused(asked, ACCOUNT, COMPONENTS) == COMING
    assert missing(asked, ACCOUNT) == sorted(asked), "nothing is allowed without the component"


@pytest.mark.parametrize(
    "wanted",
    [
        Right("create", "", "bindings", "shop"),
        Right("create", "", "pods/eviction", "shop", "a"),
        Right("patch", "", "pods", "shop", "a"),
        Right("update", "", "pods/status", "shop", "a"),
        Right("patch", "", "nodes", "", "n1"),
        Right("delete", "", "persistentvolumeclaims", "shop", "a"),
        Right("get", "", "secrets", NAMESPACE, "a"),
        Right("update", "coordination.k8s.io", "leases", NAMESPACE, "koordinator-manager"),
        Right("update", "coordination.k8s.io", "leases", "kube-system", "kube-scheduler"),
        Right("create", "coordination.k8s.io", "leases", "kube-system"),
    ],
)
def test_what_it_does_not_ask_it_may_not(wanted: Right) -> None:
    assert missing([wanted], ACCOUNT, COMPONENTS) == [wanted]
