"""Named pools of CPUs: sizes, CPUs, and what others see of them."""

import json
from collections.abc import Mapping
from dataclasses import replace
from itertools import pairwise
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from koord_hooks.builtin import cpusetallocator
from koord_model import cpuset
from koord_model.node import NodeView, SharedPool, Topology
from koord_model.pod import Container
from koord_model.qos import QoSClass
from koordlet.qos_manager.core.strategy import Plan, PodView, StrategyView
from koordlet.qos_manager.strategies.cpu_pools.pool_sizes import (
    PoolSize,
    in_proportion,
    need_of,
    resize,
)
from koordlet.qos_manager.strategies.cpu_pools.strategy import Settings, plan
from koordlet.qos_manager.suppression.be_cpus import pools
from koordlet.states_informer.kubelet_cpus import KubeletCPUs
from koordlet.states_informer.state import share_pools
from koordlet.states_informer.state.share_pools import ReservedCPUs

from tests.support.views import FakeHistory, FakeLatest, cpu_info, pod_view, stats, view


def of(name: str, pool: str, cores: float = 1.0, **others: Any) -> PodView:
    words = {"katalyst.kubewharf.io/cpu_enhancement": json.dumps({"cpuset_pool": pool})}
    requests = {"cpu": int(cores * 1000)}
    return pod_view(name, qos=QoSClass.LS, annotations=words, requests=requests, **others)


def node(
    *pods: PodView,
    use: Mapping[str, float] | None = None,
    wait: Mapping[str, float] | None = None,
    claims: Mapping[str, frozenset[int]] | None = None,
) -> StrategyView:
    history = FakeHistory(
        {
            **{("pod_cpu_usage", uid): stats(cores) for uid, cores in (use or {}).items()},
            **{("pod_cpu_sched_wait", uid): stats(ms) for uid, ms in (wait or {}).items()},
        }
    )
    return view(
        pods=pods,
        latest=FakeLatest({}, cpu_info(16, 2)),
        history=history,
        topology=Topology((SharedPool(0, "0-15"),)),
        set_aside=ReservedCPUs(claims=claims or {}),
    )


def sizes(found: Plan) -> dict[str, int]:
    return {pool.name: len(cpuset.parse(pool.cpuset)) for pool in found.pools}


def test_a_pool_has_cpus_for_what_its_pods_use_and_wait_for() -> None:
    pods = (of("a", "spark"), of("b", "spark"), of("c", "flink", 2.0), pod_view("rest"))
    # 1.25 × 2 and 1 × (1 + 1.5), together 5; nothing is known of c: its request.
    found = plan(node(*pods, use={"a": 2.0, "b": 1.0}, wait={"b": 1500.0}), Settings(), None)
    assert sizes(found) == {"spark": 5, "flink": 2}
    assert need_of(2.0, 3000.0, 1.0, limit=2.0) == 2.5  # its own limit makes it wait


def test_best_effort_pods_and_pods_of_other_pools_keep_off() -> None:
    pods = (of("a", "spark", 3.0), of("b", "flink", 2.0), pod_view("job", qos=QoSClass.BE))
    found = plan(node(*pods), Settings(), None)
    claimed = ReservedCPUs(claims={"cpu_pools": found.set_aside}, named=found.pools)
    assert not pools(replace(node(*pods), set_aside=claimed)).allowed & found.set_aside
    assert claimed.idle == frozenset()  # they are not kept back for the system

    numa = {0: frozenset(range(16))}
    topology = share_pools.topology(numa, [pod.record.pod for pod in pods], KubeletCPUs(), claimed)
    seen = NodeView(topology=topology)

    def cpus(pod: PodView) -> frozenset[int]:
        patch = cpusetallocator.pre_create_container(Container(pod.record.pod, "main"), seen)
        assert patch is not None
        return cpuset.parse(patch.resources.cpuset_cpus or "")

    spark, flink = cpus(pods[0]), cpus(pods[1])
    web = cpus(pod_view("web", qos=QoSClass.LS))
    assert (len(spark), len(flink), len(web)) == (3, 2, 11)
    assert spark | flink | web == frozenset(range(16))


def test_cpus_of_others_are_given_up_and_no_more_than_these() -> None:
    first = plan(node(of("a", "spark", 4.0)), Settings(), None)
    one, two = sorted(first.set_aside)[:2]
    taken = pod_view("db", qos=QoSClass.LSR, cpuset=str(one))
    claims = {"cpu_pools": first.set_aside, "irq_affinity": frozenset({two})}
    found = plan(node(of("a", "spark", 4.0), taken, claims=claims), Settings(), first.memory)
    assert len(found.set_aside) == 4
    assert found.set_aside & first.set_aside == first.set_aside - {one, two}


def test_nobody_loses_anything_while_owners_are_not_known() -> None:
    first = plan(node(of("a", "spark")), Settings(), None)
    unknown = replace(node(of("a", "spark")), pods_known=False)
    found = plan(unknown, Settings(), first.memory)
    assert (found.pools, found.set_aside) == (first.pools, first.set_aside)
    assert plan(unknown, Settings(), None).set_aside == frozenset()


def test_a_name_that_cannot_be_used_costs_only_itself() -> None:
    found = plan(node(of("a", "no spaces"), of("b", "spark"), of("c", "share")), Settings(), None)
    assert sizes(found) == {"spark": 1}
    note = found.decisions[-1]
    assert (note.pod, note.outcome.split(";")[0]) == ("ns/a", 'cpuset_pool is "no spaces"')


def test_four_cpus_stay_outside_and_pools_have_their_shares() -> None:
    pods = (of("a", "spark", 20.0), of("b", "flink", 10.0), pod_view("c", requests={"cpu": 6000}))
    found = plan(node(*pods), Settings(), None)
    assert sizes(found) == {"spark": 7, "flink": 3}  # and 2 of 12 are the others'


@given(
    asked=st.dictionaries(st.sampled_from("abcdef"), st.integers(1, 500), min_size=1),
    available=st.integers(-4, 300),
)
def test_shares_are_within_what_is_available(asked: dict[str, int], available: int) -> None:
    found = in_proportion(asked, available)
    assert sum(found.values()) <= max(available, 0)
    if available >= len(asked):
        assert found.keys() == asked.keys()
        assert all(1 <= found[name] <= asked[name] for name in asked)


@given(
    level=st.floats(0, 100),
    noise=st.lists(st.floats(-0.12, 0.12), min_size=50, max_size=50),
    start=st.integers(0, 128),
)
def test_a_load_that_only_trembles_comes_to_rest(
    level: float, noise: list[float], start: int
) -> None:
    size, history = PoolSize(start), []
    for at, tremble in enumerate(noise):
        size = resize(size, max(level + tremble, 0.0), 5.0 * at, 60.0)
        assert size.cpus >= max(level + tremble - 1e-6, 1)
        history.append(size.cpus)
    changes = [now - before for before, now in pairwise(history)]
    assert sum(change < 0 for change in changes) <= 1
    assert sum(change > 0 for change in changes) <= 2
