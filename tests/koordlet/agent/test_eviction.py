from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from koord_kube.client import Client, Cluster
from koordlet.agent.config import KoordletSettings
from koordlet.agent.eviction import open_evictor
from koordlet.qos_manager.eviction.api_eviction import EvictionApiBackend
from koordlet.qos_manager.eviction.container_stop import ContainerStopBackend
from koordlet.qos_manager.eviction.policy.account import EvictionLimits


@pytest.mark.parametrize(
    ("flags", "clustered", "name"),
    [
        ({}, True, EvictionApiBackend.name),
        ({}, False, ContainerStopBackend.name),
        ({"evict_by_stop": True}, True, ContainerStopBackend.name),
        ({"only_evict_by_api": True}, True, EvictionApiBackend.name),
        ({"only_evict_by_api": True, "evict_by_stop": True}, True, EvictionApiBackend.name),
        ({"only_evict_by_api": True}, False, ""),
        ({"evict_dry_run": True}, True, ""),
        ({"evict_dry_run": True}, False, ""),
    ],
)
async def test_the_backend_and_the_limits_are_those_of_the_settings(
    flags: dict[str, bool], clustered: bool, name: str
) -> None:
    client = Client(Cluster("http://api"))
    cluster: Any = SimpleNamespace(name="node-1", client=client) if clustered else None
    limits = {
        "evictions_per_minute": 3,
        "cpu_evict_cool_time_seconds": 7,
        "memory_evict_cool_time_seconds": 9,
    }
    settings = KoordletSettings(**flags, **limits)  # type: ignore[arg-type]
    evictor = open_evictor(settings, cluster, {"POD_UID": "u"})
    assert (evictor.backend_name, bool(evictor.why_not), evictor._own) == (name, not name, {"u"})
    assert evictor._account.limits == EvictionLimits(3, 7, 9)
