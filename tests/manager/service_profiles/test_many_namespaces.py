"""Profiles of services in more namespaces than the manager has connections for."""

from __future__ import annotations

import anyio
import pytest
from koord_kube.client import Client, Cluster, Limits
from koord_kube.protocol.resources import CONFIG_MAPS, EVENTS, NODES, PODS, STATEFUL_SETS
from koord_manager.service_profiles import controller
from koord_manager.service_profiles.controller import ServiceProfileController
from koord_manager.service_profiles.core.document import TYPE_LABEL

from tests.manager.conftest import PACE, event_recorder
from tests.support.kube_api import KubeApi
from tests.support.waiting import until

SERVICES = [f"n{number}/web" for number in range(30)]


SPEC = """
targetRef: {apiVersion: apps/v1, kind: StatefulSet, name: web}
systemIndicator: [{name: cpi, indicators: [{indicatorLevel: UpperBound, value: 1.5}]}]
"""


def put_service(api: KubeApi, namespace: str) -> None:
    labels = {"app": "web"}
    for resource, more in (
        (STATEFUL_SETS, {"spec": {"selector": {"matchLabels": labels}}}),
        (CONFIG_MAPS, {"data": {"spec": SPEC}}),
        (PODS, {"spec": {"nodeName": "n1"}}),
    ):
        meta = {"name": "web", "labels": labels | dict([TYPE_LABEL])}
        api.put(resource, {"metadata": meta, **more}, namespace)


async def test_all_are_in_force_and_others_get_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(controller, "_REFRESH_SECONDS", 0.05)
    warnings: list[str] = []
    limits = Limits(qps=0, connections=len(SERVICES) // 2)
    async with KubeApi() as api, Client(Cluster(api.url), limits) as client:
        for service in SERVICES:
            put_service(api, service.partition("/")[0])
        made = ServiceProfileController(
            client,
            lambda _: None,
            event_recorder(client),
            on_warning=warnings.append,
            pace=PACE,
        )
        async with anyio.create_task_group() as group:
            group.start_soon(made.run)
            await until(lambda: len(made.entries("n1", [])) == len(SERVICES))
            await anext(client.pages(NODES))
            group.cancel_scope.cancel()
        assert warnings == []
        assert not any(key.resource == EVENTS for key in api.objects)
