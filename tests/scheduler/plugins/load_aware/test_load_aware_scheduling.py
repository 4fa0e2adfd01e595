"""What LoadAwareScheduling says of nodes; Koordinator's vectors say which it takes."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from koord_scheduler.arguments.problems import SchedulerConfigError
from koord_scheduler.config.scheduler_config import read_scheduler_config
from koord_scheduler.framework.class_scores import ClassScores
from koord_scheduler.framework.diagnosis import diagnose
from koord_scheduler.framework.profile import EnabledPlugin
from koord_scheduler.framework.scheduler import Scheduler
from koord_scheduler.objects.node import read_node
from koord_scheduler.objects.pod import read_pod
from koord_scheduler.plugins.load_aware.args import LoadAwareSchedulingArgs
from koord_scheduler.plugins.load_aware.columns import NodeLoads
from koord_scheduler.plugins.load_aware.estimates import LoadEstimator
from koord_scheduler.plugins.load_aware.load_node import load_node
from koord_scheduler.plugins.load_aware.node_metric import NodeReport, read_node_metric
from koord_scheduler.plugins.load_aware.plugin import LoadAwareScheduling
from koord_scheduler.plugins.load_aware.row_load import RowLoad, UsageBasis, row_load
from koord_scheduler.state.cluster_state import ClusterState
from koord_scheduler.state.placed_pods import PlacedPods
from koord_scheduler.state.pod_class import PodClass, pod_class

from tests.support.prepared import prepared

CONFIG = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
  - schedulerName: koord-scheduler
    plugins:
      filter: {enabled: [{name: LoadAwareScheduling}]}
      score: {enabled: [{name: LoadAwareScheduling, weight: 2}]}
      reserve: {enabled: [{name: LoadAwareScheduling}]}
    pluginConfig:
      - name: LoadAwareScheduling
        args:
          apiVersion: kubescheduler.config.k8s.io/v1
          kind: LoadAwareSchedulingArgs
"""
"""As Koordinator's own configuration enables it: without preFilter."""
PLUGIN = LoadAwareScheduling(LoadAwareSchedulingArgs().settings())


def waiting(cpu: str, owner: str = "") -> PodClass:
    resources = {"requests": {"cpu": cpu}}
    owners = [{"apiVersion": "apps/v1", "kind": owner, "name": "o", "uid": "1"}] if owner else []
    metadata = {"name": "p", "ownerReferences": owners}
    document = {"metadata": metadata, "spec": {"containers": [{"resources": resources}]}}
    return pod_class(read_pod(msgspec.json.encode(document)), prepared([PLUGIN]).features.values())


@pytest.fixture
def columns() -> ClusterState:
    found = ClusterState()
    PLUGIN.prepare(found)
    for name, used in {"n1": 5400, "n2": 6500, "n3": 9000}.items():
        document: Any = {"metadata": {"name": name}, "status": {"allocatable": {"cpu": "10"}}}
        found.set(read_node(msgspec.json.encode(document)))
        found.use(NodeLoads).set_report(name, NodeReport(updated=100.0, usage={"cpu": used}))
    return found


def test_why_nodes_are_rejected(columns: ClusterState) -> None:
    found = diagnose(ClassScores(waiting("2"), columns, [EnabledPlugin(PLUGIN)]))
    assert found.reasons == {"node(s) cpu usage exceed threshold": 3}
    notes = {one.node: one.notes for one in found.nearest}
    assert list(notes) == ["n1", "n2", "n3"]
    assert notes["n1"] == ("cpu usage 71 % > threshold 65 %",)


def test_pods_of_daemon_sets_run_everywhere(columns: ClusterState) -> None:
    scores = ClassScores(waiting("2", "DaemonSet"), columns, [EnabledPlugin(PLUGIN)])
    assert len(scores.feasible()) == 3
    assert diagnose(scores).reasons == {}


def test_victims_would_not_help(columns: ClusterState) -> None:
    scores = ClassScores(waiting("2"), columns, [EnabledPlugin(PLUGIN)])
    rows = columns.is_node.nonzero()[0]
    limits = scores.limits(rows)
    assert (limits.are_all, limits.limits) == (True, [])
    assert limits.is_fixed.all()


def test_what_it_shows_of_a_node(columns: ClusterState) -> None:
    placed = PlacedPods(columns)
    assert not placed.by_key
    [(path, service)] = PLUGIN.services(columns).items()
    assert path == "/node/:node"
    found = service({"node": "n1"})
    assert found["used"]["filter"] == {"cpu": "5400m", "memory": "0"}
    assert found["thresholds"]["perCent"] == {"cpu": 65, "memory": 95}
    assert (found["updateTime"], found["isExpired"]) == ("1970-01-01T00:01:40Z", False)
    with pytest.raises(LookupError):
        service({"node": "n9"})


def test_a_profile_enables_it_as_with_koordinator() -> None:
    [profile] = read_scheduler_config(CONFIG).profiles
    [one] = [one for one in profile.profile.plugins if one.plugin.name == PLUGIN.name]
    assert (one.filters, one.weight, profile.not_built) == (True, 2, frozenset())
    assert Scheduler([profile.profile]).nodes.find(NodeLoads) is not None


def test_it_is_off_by_default() -> None:
    [profile] = read_scheduler_config(CONFIG.partition("profiles")[0]).profiles
    assert Scheduler([profile.profile]).nodes.find(NodeLoads) is None


@pytest.mark.parametrize(
    ("args", "path"),
    [
        ("{usageThresholds: {cpu: 120}}", "usageThresholds.cpu"),
        ("{dominantResourceWeight: much}", "dominantResourceWeight"),
        ("{usageThresholds: {cpu: much}}", "usageThresholds"),
        ("{resourceWeights: {gpu: 1}}", "estimatedScalingFactors.gpu"),
        ("{aggregated: {usageAggregatedDuration: long}}", "aggregated.usageAggregatedDuration"),
        ("{usageTresholds: {cpu: 1}}", "usageTresholds"),
    ],
)
def test_arguments_that_are_wrong_are_named(args: str, path: str) -> None:
    text = CONFIG.partition("    pluginConfig")[0]
    with pytest.raises(SchedulerConfigError) as error:
        read_scheduler_config(
            f"{text}    pluginConfig: [{{name: LoadAwareScheduling, args: {args}}}]\n"
        )
    [line] = str(error.value).splitlines()
    assert line.startswith(f"profiles[0].pluginConfig[0].args.{path} is ")


HAS, WHOLE = {"cpu": "10", "memory": "10Gi"}, {"cpu": "4", "memory": "8Gi"}


def load_of(metric: Any, **more: str) -> RowLoad:
    """The load of a node that has a NodeMetric of 1970-01-01T00:10:00Z, 200 s after it."""
    node = {"metadata": {"name": "n"}, "status": {"allocatable": {**HAS, **more}}}
    status = {"updateTime": "1970-01-01T00:10:00Z", "nodeMetric": metric.pop("nodeMetric", {})}
    report = read_node_metric(msgspec.json.encode({"spec": metric, "status": status}))
    settings = LoadAwareSchedulingArgs().settings()
    found, _ = load_node(read_node(msgspec.json.encode(node)))
    return row_load(LoadEstimator(settings), found, report, (), 800.0)


@pytest.mark.parametrize("usage", [None, {}, {"resources": None}, {"resources": {}}])
def test_a_node_without_usage_does_not_seem_idle(usage: Any) -> None:
    metric = {"metricCollectPolicy": {"reportIntervalSeconds": 300}}
    found = load_of({**metric, "nodeMetric": {"nodeUsage": usage}})
    assert not found.is_scored
    assert found.bases[0] is UsageBasis.ESTIMATES
    whole = load_of({**metric, "nodeMetric": {"nodeUsage": {"resources": WHOLE}}})
    assert whole.is_scored


def test_thresholds_of_what_was_measured_hold() -> None:
    found = load_of({"nodeMetric": {"nodeUsage": {"resources": {"cpu": "9"}}}})
    assert (found.is_scored, found.bases[0]) == (False, UsageBasis.NODE)
    assert found.sums[:2] == [9000.0, 0.0]


@pytest.mark.parametrize(
    ("interval", "expires"), [(60, 780.0), (179, 780.0), (180, 960.0), (300, 1200.0)]
)
def test_a_report_counts_until_two_have_failed_to_come(interval: int, expires: float) -> None:
    policy = {"metricCollectPolicy": {"reportIntervalSeconds": interval}}
    assert load_of({**policy, "nodeMetric": {}}).expires == expires


@pytest.mark.parametrize(("pages", "used"), [("0", 8), ("5Gi", 3), ("9Gi", 0)])
def test_idle_huge_pages_are_not_used(pages: str, used: int) -> None:
    metric = {"nodeMetric": {"nodeUsage": {"resources": WHOLE}}}
    found = load_of(metric, **{"hugepages-2Mi": pages, "hugepages-1Gi": "0"})
    assert found.sums[:2] == [4000.0, float(used << 30)]
