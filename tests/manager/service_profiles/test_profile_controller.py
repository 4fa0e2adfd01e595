"""Profiles of services beside the double of the API server."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from koord_kube.client import Client, Cluster, Limits
from koord_kube.protocol.resources import CONFIG_MAPS, PODS, STATEFUL_SETS
from koord_manager.service_profiles import controller
from koord_manager.service_profiles.core.document import TYPE_LABEL

from tests.manager.conftest import PACE, event_recorder
from tests.support.kube_api import KubeApi

META = {"name": "web", "namespace": "shop"}
SPEC = """
targetRef: {apiVersion: apps/v1, kind: StatefulSet, name: web}
systemIndicator: [{name: cpi, indicators: [{indicatorLevel: UpperBound, value: 1.5}]}]
"""


async def test_a_new_leader_leaves_nodes_what_they_have_until_it_knows_better(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """At each turn of the event loop a node has its profile: the one of before, then the new."""
    monkeypatch.setattr(controller, "_REFRESH_SECONDS", 0.05)
    labels = {"app": "web"}
    twin = {"metadata": {**META, "labels": dict([TYPE_LABEL])}, "data": {"spec": SPEC}}
    pod = {"metadata": {**META, "labels": labels}, "spec": {"nodeName": "n1"}}
    workload = {"metadata": META, "spec": {"selector": {"matchLabels": labels}}}
    there: list[dict[str, Any]] = [{"name": "shop/web", "targets": {"cpi": 1.4}}]
    async with KubeApi() as api, Client(Cluster(api.url), Limits(qps=0)) as client:
        for resource, given in ((CONFIG_MAPS, twin), (STATEFUL_SETS, workload), (PODS, pod)):
            api.put(resource, given, "shop")
        made = controller.ServiceProfileController(
            client, lambda _: None, event_recorder(client), on_warning=print, pace=PACE
        )
        seen = [0.0]
        async with asyncio.timeout(30), asyncio.TaskGroup() as group:
            running = group.create_task(made.run())
            while seen[-1] != 1.5:
                seen += [entry["targets"]["cpi"] for entry in made.entries("n1", there)] or [0.0]
                await asyncio.sleep(0)
            running.cancel()
    assert set(seen[1:]) == {1.4, 1.5}
