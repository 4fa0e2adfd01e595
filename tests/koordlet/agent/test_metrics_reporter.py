"""How reports to the cluster fare, as it is shown."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest
from koord_kube.client import Client, Cluster
from koord_model.keys import ANNOTATION_NODE_RESERVATION
from koord_model.node_info import NodeCPUInfo, NodeMemoryInfo
from koord_model.node_slo import NodeSLO
from koord_service.log_deduplicator import LogDeduplicator
from koordlet.agent.agent import Agent
from koordlet.agent.config import KoordletSettings
from koordlet.agent.feature_gates import parse_gates
from koordlet.agent.metrics_reporter import MetricsReporter, node_metric_state, publisher_state
from koordlet.agent.states_informer import StatesInformer
from koordlet.http_api.documents.node import ReportState
from koordlet.metrics_reporter.direct_link import DirectLink
from koordlet.metrics_reporter.publisher import PublisherState
from koordlet.metrics_reporter.reporter import ReporterState, ReportRoute
from koordlet.plugin_watcher.watcher import PluginWatcher
from koordlet.states_informer.kubelet_cpus import KubeletCPUs
from koordlet.states_informer.node_objects import NodeObjects
from koordlet.states_informer.state.share_pools import ReservedCPUs

from tests.support.observed import NOW
from tests.support.views import cpu_info, memory_info

LINK = cast("DirectLink", SimpleNamespace(leader="10.0.0.7:9443"))


@pytest.mark.parametrize(
    ("state", "link", "expected"),
    [
        (ReporterState(), None, ReportState("", 0.0, {"object": 0}, 0, "")),
        (
            ReporterState(ReportRoute.OBJECT, objects=3, failures=1, reported_at=NOW),
            None,
            ReportState("object", NOW, {"object": 3}, 1, ""),
        ),
        (
            ReporterState(
                ReportRoute.DIRECT, direct=5, objects=3, link_failures=2, reported_at=NOW
            ),
            LINK,
            ReportState("direct", NOW, {"object": 3, "direct": 5}, 2, "", "10.0.0.7:9443"),
        ),
        (
            ReporterState(
                ReportRoute.OBJECT, objects=1, link_failures=1, link_problem="m:1: refused"
            ),
            LINK,
            ReportState("object", 0.0, {"object": 1, "direct": 0}, 1, "direct link: m:1: refused"),
        ),
        (
            ReporterState(failures=2, link_failures=2, problem="403", link_problem="refused"),
            LINK,
            ReportState("", 0.0, {"object": 0, "direct": 0}, 4, "403; direct link: refused"),
        ),
    ],
    ids=["not yet", "object", "direct", "instead of the link", "neither"],
)
def test_node_metric(state, link, expected):
    assert node_metric_state(state, link) == expected


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        (PublisherState(), ReportState("", 0.0, {"object": 0}, 0, "")),
        (PublisherState(1, 2, 3, NOW), ReportState("object", NOW, {"object": 3}, 3, "")),
        (PublisherState(1, 0, 4, NOW, "403"), ReportState("", NOW, {"object": 1}, 4, "403")),
    ],
    ids=["nothing yet", "well", "problem"],
)
def test_what_is_published(state, expected):
    assert publisher_state(state) == expected


@pytest.mark.parametrize(
    ("settings", "given", "expected"),
    [
        (KoordletSettings(), "", ["NodeMetric", "NodeResourceTopology"]),
        (KoordletSettings(enable_node_metric_report=False), "", ["NodeResourceTopology"]),
        (KoordletSettings(), "NodeTopologyReport=false", ["NodeMetric"]),
        (KoordletSettings(), "RDMADevices=true", ["NodeMetric", "NodeResourceTopology", "Device"]),
        (
            KoordletSettings(),
            "CustomNodeResource=true",
            ["NodeMetric", "NodeResourceTopology", "CustomNodeResource"],
        ),
    ],
)
def test_reports_that_are_wanted(settings, given, expected):
    cluster: Any = SimpleNamespace(name="n1", client=None)
    nothing: Any = None
    gates, _ = parse_gates([given])
    reporting = MetricsReporter(settings, gates, cluster, nothing, nothing, NodeSLO)
    assert list(reporting.states()) == expected
    assert {one.problem for one in reporting.states().values()} == {""}


def test_the_topology_is_built_once_for_all_who_report_it():
    pods, infos = (), {NodeCPUInfo: cpu_info(4), NodeMemoryInfo: memory_info()}
    observed: Any = SimpleNamespace(pods=lambda: pods, latest=SimpleNamespace(info=infos.get))
    observing: Any = SimpleNamespace(observed=observed)
    given = {"metadata": {"name": "n1", "uid": "u"}, "status": {}}
    cluster: Any = SimpleNamespace(
        name="n1", client=None, node=lambda: given, kubelet_config=None, complain=lambda *_: None
    )
    aside = ReservedCPUs()
    reporting = MetricsReporter(
        *(KoordletSettings(), parse_gates([""])[0], cluster, observing, KubeletCPUs, NodeSLO),
        set_aside=lambda: aside,
    )
    built = reporting._topology()
    assert built is not None
    assert reporting._topology() is built
    aside = ReservedCPUs(claims={"irq_affinity": frozenset({3})})
    changed = reporting._topology()
    assert changed is not None
    assert changed["metadata"]["annotations"][ANNOTATION_NODE_RESERVATION] == '{"reservedCPUs":"3"}'


@pytest.mark.parametrize(
    ("given", "followed"),
    [
        (["CustomNodeResource=true"], False),
        (["ReporterPlugins=true"], False),
        (["CustomNodeResource=true", "ReporterPlugins=true"], True),
    ],
)
def test_reporter_plugins_register_where_they_are_exported(given, followed, caplog):
    cluster: Any = SimpleNamespace(name="n1", client=None)
    nothing: Any = None
    gates, _ = parse_gates(given)
    watcher = PluginWatcher("/nowhere")
    MetricsReporter(
        *(KoordletSettings(), gates, cluster, nothing, nothing, NodeSLO), plugins=watcher
    )
    assert watcher.is_followed is followed
    useless = given == ["ReporterPlugins=true"]
    assert ("reporter plugins are not asked" in caplog.messages) is useless


async def test_the_agent_shows_them(node, tmp_path, monkeypatch):
    monkeypatch.setattr("koordlet.agent.agent.os.geteuid", lambda: 1)
    settings = node.settings(
        runtime_hooks_addr=f"{tmp_path}/k.sock",
        runtime_hooks_host_endpoint=f"{tmp_path}/k.sock",
        runtime_hooks_config_path=f"{tmp_path}/hooks",
        status_address="none",
    )
    client = Client(Cluster("http://127.0.0.1:1"))
    state = NodeObjects(client, "n1", f"{tmp_path}/cluster.json", lambda _: None)
    kubelet: Any = None
    side = StatesInformer("n1", client, state, kubelet, LogDeduplicator())
    agent = Agent(settings, node.files, side)
    observing = agent._observing
    assert observing is not None
    assert list(observing.observed.reports()) == ["NodeMetric", "NodeResourceTopology"]
    await client.close()
