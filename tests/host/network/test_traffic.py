from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from koord_host.network.traffic import (
    OURS,
    HTBClass,
    InterfaceShaping,
    Qdisc,
    TrafficChange,
    TrafficObject,
    TrafficVerb,
    changes,
    is_ours,
    refusal,
    undoing,
)
from koord_model.traffic import Traffic, TrafficClass

M = 1_000_000
ADD = TrafficVerb.ADD
DEFAULT = InterfaceShaping(Qdisc("fq_codel", 0))


def traffic(*more: TrafficClass, ls: int = 40 * M) -> Traffic:
    return Traffic(
        80 * M,
        (
            TrafficClass("system", 2, 1, 16 * M, 80 * M, default=True),
            TrafficClass("ls", 3, 2, ls, 64 * M),
            *more,
        ),
    )


ROOT_CLASS = HTBClass(0, 0, 10 * M, 10 * M)
SYSTEM, LS = HTBClass(1, 1, 2 * M, 10 * M), HTBClass(1, 2, 5 * M, 8 * M)
DONE = InterfaceShaping(OURS, {1: ROOT_CLASS, 2: SYSTEM, 3: LS})


ADD_QDISC = TrafficChange(ADD, TrafficObject.QDISC, wanted=OURS, found=Qdisc("fq_codel", 0))
ADD_SYSTEM = TrafficChange(ADD, TrafficObject.CLASS, 2, SYSTEM)
ADD_FILTER = TrafficChange(ADD, TrafficObject.FILTER)


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (  # parents first
            DEFAULT,
            [
                ADD_QDISC,
                TrafficChange(ADD, TrafficObject.CLASS, 1, ROOT_CLASS),
                ADD_SYSTEM,
                TrafficChange(ADD, TrafficObject.CLASS, 3, LS),
                ADD_FILTER,
            ],
        ),
        (InterfaceShaping(OURS, {1: ROOT_CLASS, 3: LS}), [ADD_SYSTEM, ADD_FILTER]),
        (InterfaceShaping(OURS, DONE.classes, cgroup_filter=True), []),
        (DONE, [ADD_FILTER]),
    ],
)
def test_what_is_missing_is_made(found: InterfaceShaping, expected: list[TrafficChange]) -> None:
    assert changes(traffic(), found, by_cgroup=True) == (*expected,)
    without = tuple(one for one in expected if one is not ADD_FILTER)
    assert changes(traffic(), found, by_cgroup=False) == without


def test_other_rates_are_a_change_and_what_is_not_wanted_goes_first() -> None:
    own = HTBClass(1, 2, 1000, 125_000)
    found = InterfaceShaping(OURS, {**DONE.classes, 0xBEEF: own})
    assert changes(traffic(ls=32 * M), found, by_cgroup=False) == (
        TrafficChange(TrafficVerb.DELETE, TrafficObject.CLASS, 0xBEEF, found=own),
        TrafficChange(TrafficVerb.CHANGE, TrafficObject.CLASS, 3, HTBClass(1, 2, 4 * M, 8 * M), LS),
    )


def test_a_class_of_another_parent_is_made_anew_with_all_below_it() -> None:
    inner, leaf = HTBClass(1, 2, M, M), HTBClass(0x20, 2, M, M)
    found = InterfaceShaping(OURS, {**DONE.classes, 0x20: HTBClass(3, 2, M, M), 0x21: leaf})
    wanted = traffic(
        TrafficClass("leaf", 0x21, 2, 8 * M, 8 * M, parent=0x20),
        TrafficClass("inner", 0x20, 2, 8 * M, 8 * M),
    )
    assert changes(wanted, found, by_cgroup=False) == (
        TrafficChange(TrafficVerb.DELETE, TrafficObject.CLASS, 0x21, found=leaf),
        TrafficChange(TrafficVerb.DELETE, TrafficObject.CLASS, 0x20, found=HTBClass(3, 2, M, M)),
        TrafficChange(TrafficVerb.ADD, TrafficObject.CLASS, 0x20, inner),
        TrafficChange(TrafficVerb.ADD, TrafficObject.CLASS, 0x21, leaf),
    )


@pytest.mark.parametrize("kind", ["mq", "fq_codel", "pfifo_fast", "noqueue", "fq", "none"])
def test_the_kernels_own_root_is_replaced(kind: str) -> None:
    assert refusal(Qdisc(kind, 0), "eth0") == ""
    assert undoing(InterfaceShaping(Qdisc(kind, 0))) == ()


CHOSEN = (("fq", 0x8001_0000), ("mq", 0x1_0000), ("htb", 0x2_0000, 2), ("htb", 0x1_0000, 0x30))


@pytest.mark.parametrize("root", [Qdisc(*one) for one in CHOSEN])
def test_what_somebody_chose_is_refused_and_not_undone(root: Qdisc) -> None:
    line = refusal(root, "eth0")
    assert line.startswith(f"interface eth0: its root qdisc is {root.kind} {root.handle >> 16:x}:,")
    assert "tc qdisc del dev eth0 root" in line
    assert not is_ours(root)
    assert undoing(InterfaceShaping(root)) == ()


def test_changes_are_shown_as_tc_shows_them_and_undoing_is_one() -> None:
    assert refusal(OURS, "eth0") == ""
    assert undoing(DONE) == (TrafficChange(TrafficVerb.DELETE, TrafficObject.QDISC, found=OURS),)
    assert TrafficChange(ADD, TrafficObject.CLASS, 0x1F).subject == "class 1:1f"
    assert TrafficChange(ADD, TrafficObject.FILTER).subject == "filter"
    assert str(LS) == "parent 1:1 prio 2 rate 40000000bit ceil 64000000bit"
    assert str(ROOT_CLASS).startswith("parent 1:0 ")
    assert str(OURS) == "htb 1: default 2"


_SHAPES = st.builds(
    HTBClass,
    parent=st.sampled_from([1, 0x10]),
    priority=st.integers(0, 3),
    rate=st.integers(1000, 5000),
    ceil=st.integers(5000, 9000),
)


@given(
    st.dictionaries(st.integers(0x11, 0x18), _SHAPES, max_size=6),
    st.dictionaries(st.integers(0x11, 0x18), _SHAPES, max_size=6),
)
def test_the_changes_lead_to_what_is_wanted_and_never_to_an_orphan(
    wanted: dict[int, HTBClass], found: dict[int, HTBClass]
) -> None:
    inner = TrafficClass("inner", 0x10, 1, 8 * M, 8 * M)
    classes = [
        TrafficClass(f"c{minor}", minor, one.priority, one.rate * 8, one.ceil * 8, one.parent)
        for minor, one in wanted.items()
    ]
    asked = Traffic(80 * M, (*classes, inner))
    has_inner = any(one.parent == 0x10 for one in found.values())
    state = {1: ROOT_CLASS, **({0x10: HTBClass(1, 2, 9, 9)} if has_inner else {}), **found}
    for change in changes(asked, InterfaceShaping(OURS, dict(state)), by_cgroup=False):
        if change.verb is TrafficVerb.DELETE:
            assert not [minor for minor, one in state.items() if one.parent == change.minor]
            del state[change.minor]
        else:
            assert isinstance(change.wanted, HTBClass)
            assert (change.minor in state) == (change.verb is TrafficVerb.CHANGE)
            assert change.minor == 1 or change.wanted.parent in state
            state[change.minor] = change.wanted
    assert state == {1: ROOT_CLASS, 0x10: HTBClass(1, 1, M, M), **wanted}
    assert changes(asked, InterfaceShaping(OURS, state), by_cgroup=False) == ()
