"""A koordlet's node side on a node in memory: all of ``open_node`` but real system calls."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

from koord_hooks.runner import HookRunner
from koord_host.core_sched import CoreSched
from koord_host.layout import Driver
from koord_host.network.netlink import Report
from koord_model.traffic import Traffic
from koordlet.config import Settings
from koordlet.metrics import NodeMetrics
from koordlet.node import Node, find_layout, open_node, open_pods
from koordlet.telling import Told
from prometheus_client import CollectorRegistry

from tests.support.fake_node.files import FakeNode

VERBS = "0000:3b:00.2"
"""The address of the node's one RDMA device, uverbs0."""


def settings_of(node: FakeNode, directory: Path, driver: Driver, **more: Any) -> Settings:
    """Settings for a node in memory, with its state and its RDMA device below ``directory``."""
    device = directory / "sys/class/infiniband_verbs/uverbs0"
    if not device.exists():
        device.mkdir(parents=True)
        (directory / VERBS).mkdir()
        (device / "device").symlink_to(directory / VERBS)
    given = {
        "cgroup_version": str(node.cgroups.version),
        "cgroup_driver": driver.value,
        "sys_root_dir": str(directory / "sys"),
        "state_dir": str(directory / "state"),
    }
    return Settings(**{**given, **more})


@contextmanager
def kept(
    node: FakeNode, settings: Settings, runner: HookRunner, told: Told | None = None
) -> Iterator[Node]:
    """The node, opened; cookies and traffic classes are those of the double."""

    class Traffics:
        def __init__(self, *_: object, **__: object) -> None: ...

        def level(self, wanted: Traffic | None, why: str) -> Report:
            node.traffic = wanted
            return Report()

    cookies: Callable[..., CoreSched] = partial(CoreSched, prctl=node.prctl)
    with patch("koordlet.node.CoreSched", cookies), patch("koordlet.node.HostTraffic", Traffics):
        metrics = NodeMetrics(CollectorRegistry())
        layout = find_layout(settings, node)
        pods = open_pods(settings, layout, node)
        opened = open_node(settings, runner, told or Told(), node, metrics, layout, pods)
        opened.look()
    try:
        yield opened
    finally:
        opened.let_go()
        opened.keeper._writer.shutdown()
