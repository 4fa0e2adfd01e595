import pytest
from koord_host.knobs.table import KNOBS, DriftPolicy
from koord_host.planning.desired_values import Target
from koord_host.planning.drift import DriftCounter, DriftResponse, beside_static_kubelet, by_row


def test_held_and_at_the_third_time_an_alert() -> None:
    drift_counter = DriftCounter()
    found = [drift_counter.judge(DriftPolicy.HOLD, now) for now in (0, 60, 120, 180)]
    assert found == [
        DriftResponse.WRITE,
        DriftResponse.WRITE,
        DriftResponse.WRITE_AND_ALERT,
        DriftResponse.WRITE,
    ]


def test_a_quiet_while_begins_anew() -> None:
    drift_counter = DriftCounter()
    for now in (0, 60, 120):
        drift_counter.judge(DriftPolicy.HOLD, now)
    found = [drift_counter.judge(DriftPolicy.HOLD, now) for now in (720, 780, 840)]
    assert found == [DriftResponse.WRITE, DriftResponse.WRITE, DriftResponse.WRITE_AND_ALERT]


def test_now_and_then_is_no_alert() -> None:
    drift_counter = DriftCounter()
    assert {drift_counter.judge(DriftPolicy.HOLD, now) for now in range(0, 6000, 400)} == {
        DriftResponse.WRITE
    }


def test_left() -> None:
    assert DriftCounter().judge(DriftPolicy.YIELD, 0) is DriftResponse.LEAVE
    assert DriftCounter().judge(DriftPolicy.ALERT, 0) is DriftResponse.LEAVE_AND_ALERT


def test_what_the_rows_say() -> None:
    said = {name: by_row(Target("g", name), knob) for name, knob in KNOBS.items()}
    assert said.pop("sysctl") is DriftPolicy.ALERT
    assert set(said.values()) == {DriftPolicy.HOLD}


@pytest.mark.parametrize(
    ("place", "knob", "policy"),
    [
        ("kubepods/podab-1/c1", "cpuset.cpus", DriftPolicy.YIELD),
        ("kubepods/burstable/pod1/c1", "cpuset.cpus", DriftPolicy.YIELD),
        ("kubepods.slice/kubepods-pod1_2.slice/docker-c.scope", "cpuset.cpus", DriftPolicy.YIELD),
        ("kubepods/burstable/pod1/c1", "cpu.shares", DriftPolicy.HOLD),
        ("kubepods/burstable/pod1", "cpuset.cpus", DriftPolicy.HOLD),
        ("kubepods/pod1", "cpuset.cpus", DriftPolicy.HOLD),
        ("kubepods", "cpuset.cpus", DriftPolicy.HOLD),
        ("kubepods.slice/kubepods-pod1_2.slice", "cpuset.cpus", DriftPolicy.HOLD),
    ],
)
def test_the_static_kubelet_has_its_way_with_containers(
    place: str, knob: str, policy: DriftPolicy
) -> None:
    target = Target(place, knob)
    assert beside_static_kubelet(lambda: True)(target, KNOBS[knob]) is policy
    assert beside_static_kubelet(lambda: False)(target, KNOBS[knob]) is DriftPolicy.HOLD
