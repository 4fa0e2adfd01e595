"""Examples of the scheduler's pages are what koordctl prints."""

from __future__ import annotations

import datetime
import json

import msgspec
from koord_scheduler.config.scheduler_config import default_scheduler_config, read_scheduler_config
from koord_scheduler.framework.cluster_kinds import cluster_kinds, pod_kind
from koord_scheduler.framework.recording import (
    EndInput,
    RecordedInput,
    RecordingHeader,
    recorded_kind,
    recording_line,
)
from koord_scheduler.objects.metadata import AnnotatedMeta
from koord_scheduler.objects.node import Node, NodeSpec, NodeStatus, Taint
from koord_scheduler.program.explanation import Document
from koord_scheduler.program.make_scheduler import make_scheduler
from koord_scheduler.program.replay import replay
from koordctl.output.tables import plain
from koordctl.placement_text import scheduled_lines, waiting_lines
from koordctl.replay import lines as replay_lines
from koordctl.scheduler_documents import PlacementDocument, ReplayDocument

from tests.docs.words import block, pages
from tests.scheduler.program.test_explanation import NOW, Shop

PAGE = pages("scheduler")


def shop() -> Shop:
    """Some nodes of 4 cores that are not equally full, and some of 64 that have a taint."""
    made = Shop(**{f"node-{number}": "4" for number in range(1, 6)})
    for number in range(1, 4):
        amounts = {"cpu": "64", "memory": "256Gi", "pods": "110"}
        taints = [Taint("nvidia.com/gpu", "", "NoSchedule")]
        gpu = Node(AnnotatedMeta(f"gpu-{number}"), NodeSpec(taints), NodeStatus(amounts))
        made.scheduler.nodes.set(gpu)
        made.pod(f"used-{number}", f"{900 * number}m", nodeName=f"node-{number}")
    made.pod("small", "1", nodeName="node-2")
    made.node("node-6", "16", unschedulable=True)
    return made


def read(found: Document) -> PlacementDocument:
    return msgspec.convert(json.loads(json.dumps(found)), PlacementDocument)


def test_why_a_pod_waits() -> None:
    made = shop()
    pod = made.pod("web-0", "4500m")
    made.scheduler.decide(NOW.monotonic)
    shown = plain(waiting_lines(read(made.why(pod)), datetime.UTC))
    assert block(PAGE, "pending").rstrip("\n").splitlines() == shown


def test_a_profile_that_scores_by_load() -> None:
    [profile] = read_scheduler_config(block(PAGE, "load")).profiles
    assert "LoadAwareScheduling" in [one.plugin.name for one in profile.profile.plugins]
    assert profile.args.load_aware_scheduling.settings().expiration_seconds == 300


def test_a_profile_with_gangs_in_the_network() -> None:
    text = block(PAGE, "network topology")
    [profile] = read_scheduler_config(text).profiles
    assert profile.args.coscheduling.aware_network_topology


def test_a_profile_with_reservations() -> None:
    [profile] = read_scheduler_config(block(PAGE, "reservations")).profiles
    weights = {one.plugin.name: one.weight for one in profile.profile.plugins}
    assert weights["Reservation"] == 5000


def test_a_profile_with_quotas() -> None:
    [profile] = read_scheduler_config(block(PAGE, "quotas")).profiles
    assert [one.name for one in profile.profile.preempting] == ["ElasticQuota"]
    assert [one.name for one in profile.profile.admitting] == ["ElasticQuota"]


def test_a_profile_with_gangs() -> None:
    [profile] = read_scheduler_config(block(PAGE, "gangs")).profiles
    assert profile.profile.gangs is not None
    assert profile.profile.gangs.wait_seconds == 600


def test_why_a_pod_is_where_it_is() -> None:
    shown = plain(scheduled_lines(read(shop().why_placed("used-2", "1800m"))))
    assert block(PAGE, "scheduled").rstrip("\n").splitlines() == shown


MOST_ALLOCATED = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- pluginConfig:
  - name: NodeResourcesFit
    args: {scoringStrategy: {type: MostAllocated}}
  plugins: {score: {disabled: [{name: NodeResourcesBalancedAllocation}]}}
"""


def recording() -> list[bytes]:
    """Two pods on nodes of 4 and of 8 cores, then one that fits nowhere until one is gone."""
    lines = [recording_line(RecordingHeader(1, 1_767_225_600.0, 0.0, version="0.1.0"))]
    now = 0.0

    def record(one: RecordedInput) -> None:
        lines.append(recording_line(one))

    scheduler = make_scheduler(default_scheduler_config(), 0, record)
    kinds = {
        one.resource.kind: recorded_kind(one, record, lambda: now)
        for one in (*cluster_kinds(scheduler), pod_kind(scheduler, lambda: now))
    }

    def put(kind: str, key: str, document: Document) -> None:
        kinds[kind].put(key, kinds[kind].read(json.dumps(document).encode()))

    for name, cpu in (("node-1", "8"), ("node-2", "4")):
        amounts = {"cpu": cpu, "memory": "16Gi", "pods": "110"}
        put("Node", name, {"metadata": {"name": name}, "status": {"allocatable": amounts}})
    for number, cpu in enumerate(("3", "2", "6")):
        container = {"name": "c", "resources": {"requests": {"cpu": cpu}}}
        metadata = {"name": f"web-{number}", "namespace": "shop", "uid": str(number)}
        now += 1
        put(
            "Pod", f"shop/web-{number}", {"metadata": metadata, "spec": {"containers": [container]}}
        )
        scheduler.decide(now)
    now += 60
    kinds["Pod"].remove("shop/web-0")
    scheduler.wake(now)
    scheduler.decide(now)
    record(EndInput(now, "the scheduler stopped"))
    return lines


def test_what_another_profile_would_have_done() -> None:
    found = replay(recording, MOST_ALLOCATED)
    shown = plain(replay_lines(msgspec.convert(found, ReplayDocument), zone=datetime.UTC))
    assert block(PAGE, "replay").rstrip("\n").splitlines() == shown
