import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st
from koord_host.knobs.table import KNOBS
from koord_host.planning.arbiter import ArbitratedValue, arbitrate
from koord_host.planning.desired_values import DesiredValue, Owner, Priority, Target
from koord_model import cpuset

from tests.host.conftest import HOOKS, OPERATOR, STRATEGY

OTHER = Owner("cpuburst", Priority.STRATEGY)
QUOTA, LIMIT, LOW = "cpu.cfs_quota_us", "memory.limit_in_bytes", "memory.low"
CPUS, READ = "cpuset.cpus", "blkio.throttle.read_bps_device"


def decide(knob: str, *wanted: tuple[Owner, int | str]) -> ArbitratedValue:
    """The decision, the same for every order of the desired values."""
    desired_values = [
        (owner, DesiredValue(Target("g", knob), value, f"{owner.name} says so"))
        for owner, value in wanted
    ]
    [decision, *others] = {
        arbitrate(KNOBS[knob], order) for order in itertools.permutations(desired_values)
    }
    assert not others
    return decision


def test_one_value_stands() -> None:
    desired = DesiredValue(Target("g", QUOTA), 5000, "because", "ns/p")
    assert arbitrate(KNOBS[QUOTA], [(HOOKS, desired)]) == ArbitratedValue(
        5000, (HOOKS,), "because", "ns/p"
    )


def test_the_same_value_of_two_is_both_theirs_and_no_conflict() -> None:
    decision = decide(QUOTA, (HOOKS, 5000), (STRATEGY, 5000), (HOOKS, 5000))
    assert decision.owners == (STRATEGY, HOOKS)
    assert decision.owner == "cpusuppress, hooks"
    assert decision.why == "cpusuppress says so; hooks says so"
    assert decision.conflict is None


@pytest.mark.parametrize(
    ("knob", "values", "stands"),
    [
        (LIMIT, (1 << 30, 1 << 20, -1), 1 << 20),
        (LIMIT, (-1, -1, 1 << 40), 1 << 40),
        (LOW, (0, 5 << 20, 4 << 20), 5 << 20),
        (CPUS, ("0-7", "2-9", "0-3"), "2-3"),
        (CPUS, ("0-7", "0-3", "0-3,9"), "0-3"),
        (READ, ("8:0 100\n8:16 5", "8:0 70", "8:0 0\n8:16 9"), "8:0 70\n8:16 5"),
        (READ, ("8:0 0", "8:0 0", "9:0 0"), "8:0 0\n9:0 0"),
    ],
)
def test_limits_protections_and_cpus_are_merged(
    knob: str, values: tuple[int | str, ...], stands: int | str
) -> None:
    decision = decide(knob, *zip((HOOKS, STRATEGY, OPERATOR), values, strict=True))
    assert decision.value == stands
    assert decision.conflict is not None
    assert decision.conflict.settled


@pytest.mark.parametrize(
    ("knob", "wanted", "value", "owners", "settled"),
    [
        (LIMIT, [(HOOKS, 4096), (STRATEGY, 8192)], 4096, [HOOKS], True),
        (CPUS, [(HOOKS, "0-2"), (STRATEGY, "2-3")], "2", [STRATEGY, HOOKS], True),
        # No CPUs in common.
        (CPUS, [(HOOKS, "0-3"), (STRATEGY, "4-7"), (OTHER, "5")], "5", [OTHER], False),
        (CPUS, [(HOOKS, "0-3"), (STRATEGY, "4"), (OTHER, "5")], "5", [OTHER], False),
        (CPUS, [(HOOKS, "0-3"), (HOOKS, "4-7")], "0-3", [HOOKS], False),
        # The highest priority, and two of one.
        (QUOTA, [(HOOKS, 5000), (STRATEGY, 4000), (OPERATOR, -1)], -1, [OPERATOR], True),
        (QUOTA, [(OTHER, 5000), (STRATEGY, 4000), (HOOKS, 9000)], 5000, [OTHER], False),
        (QUOTA, [(HOOKS, 5000), (HOOKS, 4000)], 4000, [HOOKS], False),
    ],
)
def test_who_gets_its_way(
    knob: str,
    wanted: list[tuple[Owner, int | str]],
    value: int | str,
    owners: list[Owner],
    settled: bool,
) -> None:
    decision = decide(knob, *wanted)
    assert (decision.value, [*decision.owners]) == (value, owners)
    assert decision.why == "; ".join(f"{owner.name} says so" for owner in owners)
    assert decision.conflict is not None
    assert decision.conflict.settled is settled


def test_a_conflict_names_who_wants_what() -> None:
    assert str(decide(CPUS, (HOOKS, "0-3"), (STRATEGY, "4-7"), (OTHER, "5")).conflict) == (
        "g: cpuset.cpus: cpuburst wants 5, cpusuppress wants 4-7, hooks wants 0-3; 5 stands"
    )


_OWNERS = st.builds(Owner, st.sampled_from("abc"), st.sampled_from(list(Priority)))
_VALUES = {
    QUOTA: st.sampled_from([-1, 1000, 2000, 3000]),
    LIMIT: st.sampled_from([-1, 4096, 8192]),
    LOW: st.sampled_from([0, 4096, 8192]),
    CPUS: st.sets(st.integers(0, 4), min_size=1).map(cpuset.render),
    READ: st.dictionaries(st.sampled_from(["8:0", "8:16"]), st.integers(0, 3), min_size=1).map(
        lambda limits: "\n".join(f"{device} {limit}" for device, limit in limits.items())
    ),
}


@given(st.sampled_from(sorted(_VALUES)), st.data())
def test_the_order_of_desired_values_never_decides(knob: str, data: st.DataObject) -> None:
    desired_values = st.lists(
        st.tuples(
            _OWNERS,
            st.builds(
                DesiredValue, st.just(Target("g", knob)), _VALUES[knob], st.sampled_from("xy"),
                st.sampled_from(["", "ns/p", "ns/q"]),
            ),
        ),
        min_size=1,
        max_size=5,
    )  # fmt: skip
    drawn = data.draw(desired_values)
    decision = arbitrate(KNOBS[knob], drawn)
    assert arbitrate(KNOBS[knob], data.draw(st.permutations(drawn))) == decision
    KNOBS[knob].check(decision.value)
    assert decision.owners
    values = {desired.value for _, desired in drawn}
    assert (decision.conflict is None) == (len(values) == 1)
