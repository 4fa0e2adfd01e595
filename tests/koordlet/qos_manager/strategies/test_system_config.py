from dataclasses import fields
from typing import Any

import pytest
from koord_host.knobs.forms import Value
from koord_host.knobs.table import KNOBS
from koord_model.node_slo import NodeSLO
from koord_model.node_slo_document import parse
from koord_model.system_strategy import SystemStrategy
from koordlet.qos_manager.core.strategy import Plan, StrategyView
from koordlet.qos_manager.strategies import system_config
from koordlet.qos_manager.strategies.system_config import Settings, plan

from tests.support.views import GIB, FakeCgroups, FakeLatest, memory_info, view

IDENTITY = "kernel.sched_group_identity_enabled"
SAVER = "kernel.sched_idle_saver_wmark"
REAPER = "/sys/kernel/mm/memcg_reaper/reap_background"
CACHE = "/sys/kernel/mm/pagecache_limit/enabled"
ANOLIS = FakeCgroups(
    {(IDENTITY, "sysctl"): "1", (SAVER, "sysctl"): "0", (REAPER, "file"): "0", (CACHE, "file"): "0"}
)


def node(memory: int | None = 64 * GIB, cgroups: FakeCgroups | None = None) -> StrategyView:
    facts = () if memory is None else (memory_info(memory),)
    return view(latest=FakeLatest({}, *facts), cgroups=cgroups or FakeCgroups())


def values(made: Plan) -> dict[str, Value]:
    for one in made.desired:
        KNOBS[one.target.knob].check(one.value)
    return {one.target.place: one.value for one in made.desired}


def outcomes(made: Plan) -> list[str]:
    return [one.outcome for one in made.decisions]


def test_the_strategy_is_koordinators() -> None:
    assert (system_config.GATE, system_config.INTERVAL) == (
        "SystemConfig",
        "reconcile_interval_seconds",
    )


def test_its_settings_are_those_of_the_node_slo() -> None:
    asked = SystemStrategy(100, 150, 1, 0, 7, 1, {"NEXT_BUDDY": True})
    assert {one.name for one in fields(Settings)} == {one.name for one in fields(SystemStrategy)}
    assert system_config.settings(NodeSLO(system=asked)) == Settings(
        100, 150, 1, 0, 7, 1, {"NEXT_BUDDY": True}
    )
    assert system_config.settings(NodeSLO()) == Settings()


def test_without_anything_asked_nothing_is_done() -> None:
    assert plan(node(), Settings(), None) == Plan()
    before = plan(node(), Settings(watermark_scale_factor=150), None)
    assert plan(node(), Settings(), before.memory) == Plan()


def test_all_of_it_where_the_kernel_has_it() -> None:
    made = plan(node(cgroups=ANOLIS), Settings(100, 150, 1, 0, 500_000, 1), None)
    assert values(made) == {
        "vm.min_free_kbytes": str(64 * 1024**2 // 100),
        "vm.watermark_scale_factor": "150",
        REAPER: "1",
        IDENTITY: "0",
        SAVER: "500000",
        CACHE: "1",
    }
    assert {one.target.knob for one in made.desired if one.target.place in (REAPER, CACHE)} == {
        "file"
    }
    assert len(made.decisions) == len({one.aspect for one in made.decisions}) == 6
    assert all(one.why for one in made.desired)


def test_vendors_settings_are_left_alone_where_the_kernel_has_none() -> None:
    made = plan(node(), Settings(None, None, 1, 1, 1, 1), None)
    assert values(made) == {}
    assert sorted(outcomes(made)) == [
        f"{place} left alone: this kernel has none"
        for place in sorted((REAPER, IDENTITY, SAVER, CACHE))
    ]


@pytest.mark.parametrize(
    ("memory", "factor", "expected"),
    [
        (64 * GIB, 100, 671_088),
        (64 * GIB, 1, None),  # 6710: fewer than 10 MiB
        (GIB, 98, 10_276),
        (GIB, 97, None),
        (100 * 1024**2 * 1024, 1000, 10_485_760),
        (101 * GIB, 1000, None),  # more than 10 GiB
        (8 * GIB, 1001, None),
    ],
)
def test_free_memory_within_koordinators_range(
    memory: int, factor: int, expected: int | None
) -> None:
    made = plan(node(memory), Settings(factor), None)
    assert values(made) == ({} if expected is None else {"vm.min_free_kbytes": str(expected)})
    [decision] = made.decisions
    if expected is None:
        assert decision.outcome.startswith("vm.min_free_kbytes left alone: ")
        assert "expected " in decision.outcome
    assert str(decision).endswith(f"minFreeKbytesFactor {factor})")


@pytest.mark.parametrize(
    ("name", "value", "place", "expected"),
    [
        ("watermark_scale_factor", 9, "vm.watermark_scale_factor", "10 to 400"),
        ("watermark_scale_factor", 401, "vm.watermark_scale_factor", "10 to 400"),
        ("memcg_reap_background", 2, REAPER, "0 to 1"),
        ("sched_group_identity_enabled", -1, IDENTITY, "0 to 1"),
        ("sched_idle_saver_wmark", -1, SAVER, "0 to 2147483647"),
        ("sched_idle_saver_wmark", 1 << 31, SAVER, "0 to 2147483647"),
        ("page_cache_limit_enabled", 7, CACHE, "0 to 1"),
    ],
)
def test_what_is_out_of_range_is_left_alone(
    name: str, value: int, place: str, expected: str
) -> None:
    good: dict[str, Any] = {"min_free_kbytes_factor": 100}
    made = plan(node(cgroups=ANOLIS), Settings(**good, **{name: value}), None)
    assert list(values(made)) == ["vm.min_free_kbytes"]
    assert f"{place} left alone: {value} is out of range; expected {expected}" in outcomes(made)


@pytest.mark.parametrize("value", [10, 400])
def test_the_ends_of_a_range_are_in_it(value: int) -> None:
    made = plan(node(), Settings(watermark_scale_factor=value), None)
    assert values(made) == {"vm.watermark_scale_factor": str(value)}


class TestWhatIsNotKnown:
    def test_without_the_nodes_memory_nothing_is_changed(self) -> None:
        made = plan(node(None), Settings(100), None)
        assert values(made) == {}
        assert outcomes(made) == [
            "vm.min_free_kbytes is left alone: the node's memory is not known yet"
        ]

    def test_what_was_asked_for_stays(self) -> None:
        before = plan(node(), Settings(100), None)
        during = plan(node(None), Settings(100), before.memory)
        assert during.desired == before.desired
        assert outcomes(during) == [
            "vm.min_free_kbytes stays as it was asked for: the node's memory is not known yet"
        ]
        after = plan(node(), Settings(100), during.memory)
        assert (after.desired, after.decisions) == (before.desired, before.decisions)


def test_switches_of_the_scheduler_are_said_not_to_be_done() -> None:
    slo, ignored = parse({"systemStrategy": {"schedFeatures": {"B": True, "A": False}}})
    made = plan(node(), system_config.settings(slo), None)
    assert (ignored, made.desired) == ((), ())
    assert outcomes(made) == ["schedFeatures (A, B) left alone: pykoord does not set them"]


def test_the_same_again_is_the_same_objects() -> None:
    asked = Settings(100, 150)
    first = plan(node(), asked, None)
    second = plan(node(), asked, first.memory)
    assert second == first
    assert [id(one) for one in second.desired] == [id(one) for one in first.desired]
    assert plan(node(), asked, "another strategy's") == first
    changed = plan(node(), Settings(100, 160), first.memory)
    assert changed.desired[0] is first.desired[0]
    assert values(changed)["vm.watermark_scale_factor"] == "160"
