from typing import Any

import pytest
from koord_host.knobs.forms import Value
from koord_host.knobs.table import KNOBS
from koordlet.qos_manager.core.strategy import Plan, StrategyView
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
    infos = () if memory is None else (memory_info(memory),)
    return view(latest=FakeLatest({}, *infos), cgroups=cgroups or FakeCgroups())


def values(made: Plan) -> dict[str, Value]:
    for one in made.desired:
        KNOBS[one.target.knob].check(one.value)
    return {one.target.place: one.value for one in made.desired}


def outcomes(made: Plan) -> list[str]:
    return [one.outcome for one in made.decisions]


def planned(seen: StrategyView | None = None, memory: object = None, **settings: Any) -> Plan:
    return plan(seen or node(), Settings(**settings), memory)


VENDORS = {
    "memcg_reap_background": REAPER,
    "sched_group_identity_enabled": IDENTITY,
    "sched_idle_saver_wmark": SAVER,
    "page_cache_limit_enabled": CACHE,
}


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
    assert {one.target.place for one in made.desired if one.target.knob == "file"} == {
        REAPER,
        CACHE,
    }
    assert len(made.decisions) == len({one.aspect for one in made.decisions}) == 6
    assert all(one.why for one in made.desired)


def test_vendors_settings_are_left_alone_where_the_kernel_has_none() -> None:
    made = planned(**dict.fromkeys(VENDORS, 1))
    assert values(made) == {}
    expected = {f"{place} left alone: this kernel has none" for place in VENDORS.values()}
    assert set(outcomes(made)) == expected


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
    made = planned(node(memory), min_free_kbytes_factor=factor)
    assert values(made) == ({} if expected is None else {"vm.min_free_kbytes": str(expected)})
    [decision] = made.decisions
    left_alone = decision.outcome.startswith("vm.min_free_kbytes left alone: ")
    assert left_alone == ("expected " in decision.outcome) == (expected is None)
    assert f"minFreeKbytesFactor {factor}, min_free_kbytes " in str(decision)


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("watermark_scale_factor", 9, "10 to 400"),
        ("watermark_scale_factor", 10, ""),
        ("watermark_scale_factor", 400, ""),
        ("watermark_scale_factor", 401, "10 to 400"),
        ("memcg_reap_background", 2, "0 to 1"),
        ("sched_group_identity_enabled", -1, "0 to 1"),
        ("sched_idle_saver_wmark", -1, "0 to 2147483647"),
        ("sched_idle_saver_wmark", 1 << 31, "0 to 2147483647"),
        ("page_cache_limit_enabled", 7, "0 to 1"),
    ],
)
def test_what_is_out_of_range_is_left_alone(name: str, value: int, expected: str) -> None:
    made = planned(node(cgroups=ANOLIS), min_free_kbytes_factor=100, **{name: value})
    place = VENDORS.get(name, "vm.watermark_scale_factor")
    inside = {} if expected else {place: str(value)}
    assert values(made) == {"vm.min_free_kbytes": str(64 * 1024**2 // 100), **inside}
    line = f"{place} left alone: {value} is out of range; expected {expected}"
    assert (line in outcomes(made)) == bool(expected)


def test_while_the_memory_is_not_known_what_is_desired_stays() -> None:
    unknown = "the node's memory is not known yet"
    made = planned(node(None), min_free_kbytes_factor=100)
    assert values(made) == {}
    assert outcomes(made) == [f"vm.min_free_kbytes is left alone: {unknown}"]
    before = planned(min_free_kbytes_factor=100)
    during = planned(node(None), before.memory, min_free_kbytes_factor=100)
    assert during.desired == before.desired
    assert outcomes(during) == [f"vm.min_free_kbytes stays as it was asked for: {unknown}"]
    after = planned(memory=during.memory, min_free_kbytes_factor=100)
    assert (after.desired, after.decisions) == (before.desired, before.decisions)
    assert planned(memory=before.memory) == Plan()


def test_switches_of_the_scheduler_are_not_set() -> None:
    made = planned(sched_features={"B": True, "A": False})
    assert made.desired == ()
    assert outcomes(made) == ["schedFeatures (A, B) left alone: pykoord does not set them"]


def test_the_same_again_is_the_same_objects() -> None:
    asked = {"min_free_kbytes_factor": 100, "watermark_scale_factor": 150}
    first = planned(**asked)
    second = planned(memory=first.memory, **asked)
    assert second == first
    assert [id(one) for one in second.desired] == [id(one) for one in first.desired]
    assert planned(memory="another strategy's", **asked) == first
    changed = planned(memory=first.memory, **{**asked, "watermark_scale_factor": 160})
    assert changed.desired[0] is first.desired[0]
    assert values(changed)["vm.watermark_scale_factor"] == "160"
