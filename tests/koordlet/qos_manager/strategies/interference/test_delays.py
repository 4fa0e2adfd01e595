"""Waits for CPUs, memory, disks and the network: who suffers, who is named, how often it errs."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import ModuleType

import pytest
from koord_model.qos import QoSClass
from koordlet.agent.config import KoordletSettings
from koordlet.metrics_advisor.collectors import taskdelay, tcp
from koordlet.qos_manager.core.strategy import Plan, WindowStats
from koordlet.qos_manager.strategies.interference import strategy
from koordlet.qos_manager.strategies.interference.container_health import HealthMetric
from koordlet.qos_manager.strategies.interference.detection import SeriesWatch
from koordlet.qos_manager.strategies.interference.strategy import Settings, _metrics, plan

from tests.support.formulas import wrong
from tests.support.views import AT, STEADY, FakeHistory, pod_view, stats, view

WEB = pod_view("web", qos=QoSClass.LS)
JOB = pod_view("job", qos=QoSClass.BE)
OTHER = pod_view("other", qos=QoSClass.BE)
QUICK = Settings(delay_warm_up_points=10)
USUAL = {
    "container_cpu_sched_wait": 40.0,
    "container_memory_delay": 1.0,
    "container_disk_wait": 0.8,
    "container_tcp_rtt": 0.5,
    "container_tcp_retransmits": 0.0005,
}
"""Measurements of the web server of a quiet node, in the kinds' units."""
USE = {
    "pod_cpu_usage": 1.0,
    "pod_memory_usage": 4e9,
    "pod_disk_usage": 2e5,
    "pod_network_usage": 3e4,
}


@dataclass
class Node:
    """Delays of the web server, and the use of all pods by kind."""

    delays: dict[str, float] = field(default_factory=USUAL.copy)
    use: dict[str, dict[str, float]] = field(
        default_factory=lambda: {
            kind: dict.fromkeys(("web", "job", "other"), value) for kind, value in USE.items()
        }
    )
    own: dict[str, float] = field(default_factory=dict)
    steady: float = STEADY
    memory: object = None

    def round(self) -> Plan:
        """Five seconds later."""
        self.steady += 5.0
        at = AT + self.steady - STEADY
        series: dict[tuple[str, ...], WindowStats] = {}
        for kind, value in {**self.delays, **self.own}.items():
            series[kind, "web", "web-main"] = stats(value, until=at)
        for kind, pods in self.use.items():
            series |= {(kind, uid): stats(value, until=at) for uid, value in pods.items()}
        seen = view(pods=(WEB, JOB, OTHER), steady=self.steady, history=FakeHistory(series))
        found = plan(seen, QUICK, self.memory)
        assert not [line for one in found.decisions for line in wrong(one)]
        self.memory = found.memory
        return found


def disturbed(kind: str, value: float, use: Mapping[str, float], **own: float) -> list[Plan]:
    """Half a minute of a disturbance, in which the job uses so much of each resource."""
    node = Node()
    assert not any(node.round().decisions for _ in range(20))
    node.delays[kind], node.own = value, own
    for resource, amount in use.items():
        node.use[resource]["job"] = amount
    return [node.round() for _ in range(6)]


@pytest.mark.parametrize(
    ("kind", "value", "use", "reason", "outcome", "last"),
    [
        (
            "container_cpu_sched_wait",
            900.0,
            {"pod_cpu_usage": 12.0},
            "CPUInterference",
            "waits longer for CPU than usual: the CPU use of ns/job fits",
            ("antagonist", 12.0, "cores"),
        ),
        (
            "container_memory_delay",
            200.0,
            {"pod_memory_usage": 5e9},
            "MemoryInterference",
            "waits longer for memory than usual: the memory growth of ns/job fits",
            ("antagonist", 1e9 / (1 << 20), "MiB"),
        ),
        (  # Its reads drive other pods' pages out.
            "container_memory_delay",
            200.0,
            {"pod_disk_usage": 8e8},
            "MemoryInterference",
            "waits longer for memory than usual: the disk use of ns/job fits",
            ("antagonist", 800.0, "MB/s"),
        ),
        (
            "container_disk_wait",
            30.0,
            {"pod_disk_usage": 3e8},
            "DiskInterference",
            "waits longer for its disk than usual: the disk use of ns/job fits",
            ("antagonist", 300.0, "MB/s"),
        ),
        (
            "container_tcp_rtt",
            40.0,
            {"pod_network_usage": 1e8},
            "NetworkInterference",
            "has slower connections than usual: the network use of ns/job fits",
            ("antagonist", 100.0, "MB/s"),
        ),
        (  # What another resource is used for is no cause.
            "container_tcp_retransmits",
            0.1,
            {"pod_cpu_usage": 12.0},
            "NetworkInterference",
            "sends more again on its connections than usual: no pod's network use stands out",
            ("spread", 0.25, ""),
        ),
    ],
)
def test_a_disturbance_is_found_at_the_third_point_and_the_antagonist_by_its_resource(
    kind: str,
    value: float,
    use: Mapping[str, float],
    reason: str,
    outcome: str,
    last: tuple[str, float, str],
) -> None:
    found = disturbed(kind, value, use)
    assert [len(each.decisions) for each in found] == [0, 0, 1, 1, 1, 1]
    [decision], [notice] = found[2].decisions, found[2].notices
    assert decision.outcome == f'container "main" {outcome}'
    term = decision.given[-1]
    assert (term.name, term.unit) == (last[0], last[2])
    assert term.value == pytest.approx(last[1])
    assert (notice.pod, notice.reason) == (WEB, reason)
    assert not any(each.notices for each in found[3:])


@pytest.mark.parametrize("collector", [taskdelay, tcp])
def test_an_episode_begins_within_half_a_minute_of_a_disturbance(collector: ModuleType) -> None:
    """Though it begins right after a round, and each sample comes right after the strategy ran."""
    interval = getattr(KoordletSettings(), collector.INTERVAL)
    assert (Settings().points + 1) * interval + strategy.INTERVAL <= 30


def test_a_memory_limit_of_its_own_is_the_cause_whatever_others_do() -> None:
    use = {"pod_memory_usage": 9e9}
    found = disturbed("container_memory_delay", 200.0, use, container_memory_limited=3.0)
    [decision] = found[2].decisions
    assert decision.outcome.endswith("its own memory limit makes it reclaim memory")
    assert decision.given[-1].value == 3.0
    [decision] = disturbed("container_disk_wait", 90.0, {}, container_memory_limited=3.0)[
        2
    ].decisions
    assert decision.outcome.endswith("no pod's disk use stands out")


def test_each_resource_of_which_it_is_a_victim_has_its_event() -> None:
    node = Node()
    for _ in range(20):
        node.round()
    node.delays |= {"container_disk_wait": 90.0, "container_cpu_sched_wait": 900.0}
    reasons = [notice.reason for _ in range(6) for notice in node.round().notices]
    assert sorted(reasons) == ["CPUInterference", "DiskInterference"]


# ---- how often it errs


def _quiet_day(metric: HealthMetric, usual: float, source: random.Random) -> int:
    """The episodes of a day of one container that nobody disturbs.

    What it sees follows its load, which has a day and, autoregressively, its minutes, is
    distributed log-normally, as latencies are, and in one round of fifty six times as long: it
    compacts its heap, a backup reads, a peer is slow.
    """
    watch, begun, phase, slow = SeriesWatch(), 0, source.random() * math.tau, 0.0
    every = 6 if metric.name.startswith("tcp") else 5
    kept = 0.8 ** (every / 5)
    for second in range(0, 86400, every):
        load = 1 + 0.6 * math.sin(phase + second / 86400 * math.tau)
        slow = kept * slow + (1 - kept * kept) ** 0.5 * source.gauss(0, 0.5)
        value = usual * load * math.exp(slow) * (6 if source.random() < 0.02 else 1)
        before = watch.episode
        watch = watch.after(value, second + 1, second, {}, metric.manner, metric.limits)
        begun += before is None and watch.episode is not None
    return begun


def test_a_quiet_day_near_the_floors_begins_at_most_one_episode() -> None:
    usual = (200.0, 5.0, 4.0, 2.5, 0.25)
    begun = {
        metric.name: _quiet_day(metric, value, random.Random(f"{metric.name} 1"))
        for metric, value in zip(_metrics(Settings())[2:], usual, strict=True)
    }
    assert sum(begun.values()) <= 1, begun
