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
from koord_host.knobs.layout import Driver
from koord_host.netlink import TrafficReport
from koord_host.planning.jobs import CancelToken, InlineJobs, Jobs
from koord_model.traffic import Traffic
from koord_service.log_deduplicator import LogDeduplicator
from koordlet.agent.config import KoordletSettings
from koordlet.agent.runtime_hooks import ManagedNode, find_layout, open_node, open_pods
from koordlet.http_api.hook_metrics import ReconcileMetrics
from prometheus_client import CollectorRegistry

from tests.support.fake_node.files import FakeNode

VERBS = "0000:3b:00.2"
"""The address of the node's one RDMA device, uverbs0."""


def settings_of(node: FakeNode, directory: Path, driver: Driver, **more: Any) -> KoordletSettings:
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
    return KoordletSettings(**{**given, **more})


@contextmanager
def kept(
    node: FakeNode,
    settings: KoordletSettings,
    runner: HookRunner,
    told: LogDeduplicator | None = None,
    jobs: Jobs | None = None,
) -> Iterator[ManagedNode]:
    """The node, opened; cookies and traffic classes are those of the double.

    What takes long is done at once, unless ``jobs`` are given.
    """

    class Traffics:
        def __init__(self, *_: object, **__: object) -> None: ...

        def level(self, wanted: Traffic | None, why: str, cancel: CancelToken) -> TrafficReport:
            node.traffic = wanted
            return TrafficReport()

    cookies: Callable[..., CoreSched] = partial(CoreSched, prctl=node.prctl)
    with (
        patch("koordlet.agent.runtime_hooks.CoreSched", cookies),
        patch("koordlet.agent.runtime_hooks.HostTraffic", Traffics),
    ):
        metrics = ReconcileMetrics(CollectorRegistry())
        layout = find_layout(settings, node)
        pods = open_pods(settings, layout, node)
        opened = open_node(
            settings,
            runner,
            told or LogDeduplicator(),
            node,
            metrics,
            layout,
            pods,
            jobs=jobs or InlineJobs(lambda: 0.0),
        )
        opened.build_view()
    try:
        yield opened
    finally:
        opened.shut_down()
        opened.reconcile_loop._writer.shutdown()
