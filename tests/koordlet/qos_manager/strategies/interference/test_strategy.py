"""Interference on a simulated node: who suffers, and who is named."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest
from koord_model.qos import KubeQoS, QoSClass
from koordlet.qos_manager.core.strategy import Plan, PodView, StrategyView, WindowStats
from koordlet.qos_manager.strategies.interference import strategy
from koordlet.qos_manager.strategies.interference.container_health import (
    cpu_pressure,
    cycles_per_instruction,
)
from koordlet.qos_manager.strategies.interference.detection import OutlierLimits, SeriesWatch
from koordlet.qos_manager.strategies.interference.strategy import Settings, plan

from tests.support.views import AT, STEADY, FakeHistory, pod_view, stats, view

QUICK = Settings(psi_warm_up_points=10, cpi_warm_up_points=5)
WEB = pod_view("web", qos=QoSClass.LS)
DB = pod_view("db", qos=QoSClass.LSR)
JOB = pod_view("job", qos=QoSClass.BE)
OTHER = pod_view("other", kube=KubeQoS.BEST_EFFORT)


@dataclass
class Node:
    """Pressure and cycles per instruction of pods' only containers; the use of pods, in cores."""

    pods: tuple[PodView, ...] = (WEB, DB, JOB, OTHER)
    psi: dict[str, float] = field(default_factory=lambda: {"web": 2.0, "db": 1.0, "job": 50.0})
    cpi: dict[str, float] = field(default_factory=dict)
    use: dict[str, float] = field(
        default_factory=lambda: {"web": 2.0, "db": 2.0, "job": 1.0, "other": 1.0}
    )
    throttled: dict[str, float] = field(default_factory=dict)
    steady: float = STEADY
    memory: object = None
    known: bool = True
    random: random.Random = field(default_factory=lambda: random.Random(1))

    def view(self) -> StrategyView:
        at = AT + self.steady - STEADY
        series: dict[tuple[str, ...], WindowStats] = {}
        for name, cores in self.use.items():
            series["pod_cpu_usage", name] = stats(cores, until=at)
            series["container_cpu_usage", name, f"{name}-main"] = stats(cores, until=at)
        for name, value in self.psi.items():
            noisy = max(value + self.random.gauss(0, 0.5), 0.0)
            psi = ("container_psi", name, f"{name}-main", "cpu", "avg10", "some")
            series[psi] = stats(noisy, until=at)
        for name, value in self.cpi.items():
            # A minute's point stays the newest for as long.
            minute = at - self.steady % 60
            noisy = value * (1 + random.Random(minute).gauss(0, 0.03))
            for word, count in (("cycle", noisy * 1e9), ("instruction", 1e9)):
                series["container_cpi", name, f"{name}-main", word] = stats(count, until=minute)
        for name, part in self.throttled.items():
            series["container_cpu_throttled", name, f"{name}-main"] = stats(part, until=at)
        history, known = FakeHistory(series), self.known
        return view(pods=self.pods, steady=self.steady, history=history, pods_known=known)

    def round(self, seconds: float = 10.0) -> Plan:
        self.steady += seconds
        seen = self.view()
        found = plan(seen, QUICK, self.memory)
        again = plan(seen, QUICK, found.memory)
        assert again.notices == ()
        assert (again.decisions, again.signals) == (found.decisions, found.signals)
        self.memory = found.memory
        return found

    def rounds(self, count: int) -> list[Plan]:
        return [self.round() for _ in range(count)]


def signals(found: Plan) -> dict[tuple[str, str], float]:
    return {(one.name, one.pod): one.value for one in found.signals}


def warm(psi: dict[str, float] | None = None, **cpi: float) -> Node:
    """A node of which it is known what is usual."""
    node = Node(cpi=cpi) if psi is None else Node(psi=psi, cpi=cpi)
    node.rounds(120 if cpi else 20)
    return node


def watches(node: Node) -> dict[tuple[str, str, str], SeriesWatch]:
    assert isinstance(node.memory, strategy._Memory)
    return dict(node.memory.watches)


def test_a_batch_pod_that_starts_to_compute_is_named() -> None:
    node = Node()
    usual = node.rounds(60)
    assert {(one.decisions, one.notices) for one in usual} == {((), ())}
    assert signals(usual[-1]) == {("victims", ""): 0}
    use, node.use = node.use, {}
    node.rounds(3)  # a time without any use counts for nobody
    node.psi["web"], node.use = 40.0, {**use, "job": 12.0}
    found = node.rounds(5)
    assert [len(one.decisions) for one in found] == [0, 0, 1, 1, 1]
    [decision] = found[2].decisions
    assert decision.outcome == (
        'container "main" waits longer for CPU than usual: the CPU use of ns/job fits'
    )
    about = ("ns/web", WEB.containers[0].group, "psi")
    assert (decision.pod, decision.group, decision.aspect) == about
    terms = ["deviations", "now", "usual", "spread", "correlation", "antagonist"]
    assert [one.name for one in decision.given] == terms
    [notice] = found[2].notices
    assert (notice.pod, notice.reason, notice.warning) == (WEB, "CPUInterference", True)
    assert notice.message.startswith(decision.outcome)
    assert not found[3].notices
    assert signals(found[-1])["psi_outlier", "ns/web"] > 10
    assert signals(found[-1])["victims", ""] == 1
    assert {one.outcome for each in found[2:] for one in each.decisions} == {decision.outcome}
    # It ends, and the next episode is one of its own.
    node.psi["web"], node.use["job"] = 2.0, 1.0
    assert node.rounds(20)[-1].decisions == ()
    node.psi["web"], node.use["job"] = 40.0, 12.0
    assert sum(len(one.notices) for one in node.rounds(6)) == 1


@pytest.mark.parametrize(
    ("use", "throttled", "cause"),
    [
        ({"db": 12.0}, {}, "the CPU use of ns/db fits"),
        ({"job": 12.0}, {"web": 0.4}, "its own CPU limit throttles it"),
        ({"job": 12.0}, {"web": 0.05}, "the CPU use of ns/job fits"),
    ],
)
def test_the_cause(use: dict[str, float], throttled: dict[str, float], cause: str) -> None:
    node = warm()
    node.psi["web"], node.throttled = 40.0, throttled
    node.use |= use
    [decision] = node.rounds(4)[-1].decisions
    assert decision.outcome.endswith(cause)
    assert (decision.given[-1].name == "throttled") == ("throttles" in cause)


def test_without_an_antagonist_one_is_looked_for_until_a_pod_fits() -> None:
    node = warm()
    node.psi["web"] = 40.0
    found = node.rounds(3)[-1]
    assert found.decisions[0].outcome.endswith("no pod's CPU use stands out")
    assert len(found.notices) == 1
    node.use["job"] = 30.0
    later = node.rounds(4)
    assert later[-1].decisions[0].outcome.endswith("the CPU use of ns/job fits")
    assert not any(one.notices for one in later)


def test_cycles_per_instruction_are_watched_by_the_minute() -> None:
    node = warm({}, web=1.0, db=1.0)
    node.cpi["web"], node.use["job"] = 1.6, 12.0
    found = node.rounds(30)
    begun = next(place for place, one in enumerate(found) if one.decisions)
    assert 12 <= begun <= 24
    assert found[begun].decisions[0].outcome == (
        'container "main" needs more cycles per instruction than usual: the CPU use of ns/job fits'
    )
    assert signals(found[-1])["cpi_outlier", "ns/web"] > 3


def test_both_metrics_of_one_pod_are_one_notice_and_one_victim() -> None:
    node = warm(web=1.0)
    node.cpi["web"], node.psi["web"], node.psi["db"], node.use["job"] = 2.0, 40.0, 60.0, 12.0
    found = node.rounds(30)
    assert sum(len(one.notices) for one in found) == 2
    assert {one.pod for one in found[-1].decisions} == {"ns/web", "ns/db"}
    assert all(one.outcome.endswith("ns/job fits") for one in found[-1].decisions)
    assert (len(found[-1].decisions), signals(found[-1])["victims", ""]) == (3, 2)


def test_best_effort_pods_are_no_victims_and_an_idle_container_s_cycles_do_not_count() -> None:
    node = warm()
    node.psi["job"] = 100.0
    assert node.rounds(5)[-1].decisions == ()
    idle = Node(psi={}, cpi={"web": 1.0}, use={"web": 0.2})
    idle.rounds(120)
    assert watches(idle) == {}


@pytest.mark.parametrize("broken", ["cycle", "instruction", "zero", "apart"])
def test_half_a_ratio_is_none(broken: str) -> None:
    at = AT + 60
    instructions = 0.0 if broken == "zero" else 1e9
    series = {
        ("container_cpu_usage", "web", "web-main"): stats(2.0),
        ("container_cpi", "web", "web-main", "cycle"): stats(1e9, until=at),
        ("container_cpi", "web", "web-main", "instruction"): stats(
            instructions, until=at - 60 * (broken == "apart")
        ),
    }
    series.pop(("container_cpi", "web", "web-main", broken), None)
    found = plan(view(pods=(WEB,), history=FakeHistory(series)), QUICK, None)
    assert found.memory.watches == {}


def test_without_points_an_episode_stands_for_a_while() -> None:
    node = warm()
    node.psi["web"] = 40.0
    node.rounds(4)
    node.psi = {}
    found = node.rounds(40)
    assert len(found[0].decisions) == len(found[29].decisions) == 2
    [decision] = found[-1].decisions
    assert "CPICollector, PSICollector, TaskDelayCollector" in decision.outcome
    assert watches(node)["web", "web-main", "psi"].baseline.known


def test_what_is_gone_is_forgotten_once_all_pods_are_known_or_after_an_hour() -> None:
    node = warm()
    node.pods, node.known = (DB, JOB), False
    for _ in range(3):
        node.round(1200.0)
        assert len(watches(node)) == 2
    node.round(1200.0)
    assert set(watches(node)) == {("db", "db-main", "psi")}
    node.pods, node.known = (JOB,), True
    node.round()
    assert watches(node) == {}


# ---- how often it errs

Noise = Callable[[random.Random], float]

PSI_NOISE: dict[str, Noise] = {
    "normal": lambda source: max(source.gauss(12, 3), 0.0),
    "lognormal": lambda source: min(8 * math.exp(source.gauss(0, 0.5)), 100.0),
    "long tail": lambda source: min(source.expovariate(1 / 8), 100.0),
    "rare spikes": lambda source: 60.0 if source.random() < 0.02 else 0.0,
}
CPI_NOISE: dict[str, Noise] = {
    "normal": lambda source: source.gauss(1.2, 0.1),
    "lognormal": lambda source: 1.2 * math.exp(source.gauss(0, 0.2)),
}
METRICS = {
    "psi": (cpu_pressure(30, OutlierLimits(3.0, 3, 10.0)), PSI_NOISE),
    "cpi": (cycles_per_instruction(0.25, 15, OutlierLimits(3.0, 3)), CPI_NOISE),
}


@pytest.mark.parametrize(
    ("metric", "noise"), [(name, one) for name, (_, all_) in METRICS.items() for one in all_]
)
def test_noise_begins_fewer_than_one_episode_in_ten_thousand_points(
    metric: str, noise: str
) -> None:
    kind, noises = METRICS[metric]
    begun = 0
    for seed in range(20):
        source = random.Random(f"{noise} {seed}")
        watch = SeriesWatch()
        for second in range(1, 2001):
            before = watch.episode
            value = noises[noise](source)
            watch = watch.after(value, second, second, {}, kind.manner, kind.limits)
            begun += watch.episode is not None and before is None
    assert begun / (20 * 2000) < 1e-4, begun


@pytest.mark.parametrize("metric", METRICS)
def test_what_rises_far_is_found(metric: str) -> None:
    kind, noises = METRICS[metric]
    found = 0
    for seed in range(200):
        source = random.Random(f"hit {seed}")
        watch = SeriesWatch()
        for second in range(1, 206):
            value = noises["normal"](source)
            if second > 200:
                usual, spread = watch.baseline.mean, watch.baseline.spread(kind.manner)
                value = usual + 6 * spread * (1 + source.gauss(0, 0.1))
            watch = watch.after(value, second, second, {}, kind.manner, kind.limits)
        found += watch.episode is not None
    assert found / 200 >= 0.99


BUSY: dict[str, tuple[Noise, float]] = {
    "moderate": (lambda source: max(source.gauss(1.0, 0.5), 0.0), 0.0),
    "wild": (lambda source: source.expovariate(1.0), 0.1),
}


@pytest.mark.parametrize("noise", BUSY)
def test_of_twenty_pods_whose_use_varies_by_itself_hardly_one_is_blamed(noise: str) -> None:
    draw, most = BUSY[noise]
    blamed = 0
    for seed in range(100):
        names = [f"be{n}" for n in range(20)]
        pods = (WEB, *(pod_view(name, qos=QoSClass.BE) for name in names))
        node = Node(pods, psi={"web": 2.0}, random=random.Random(seed))
        for place in range(24):
            node.use = {name: draw(node.random) for name in names} | {"web": 2.0}
            node.psi["web"] = 40.0 if place >= 20 else 2.0
            found = node.round()
        [decision] = found.decisions
        blamed += "fits" in decision.outcome
    assert blamed / 100 <= most
