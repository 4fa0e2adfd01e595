import pytest
from koord_host.knobs import KNOBS, Stranger
from koord_host.strangers import Strikes, Verdict, beside_static_kubelet, by_row
from koord_host.wishes import Target


def test_held_and_at_the_third_time_an_alert() -> None:
    strikes = Strikes()
    found = [strikes.judge(Stranger.HOLD, now) for now in (0, 60, 120, 180)]
    assert found == [Verdict.WRITE, Verdict.WRITE, Verdict.WRITE_AND_ALERT, Verdict.WRITE]


def test_a_quiet_while_begins_anew() -> None:
    strikes = Strikes()
    for now in (0, 60, 120):
        strikes.judge(Stranger.HOLD, now)
    found = [strikes.judge(Stranger.HOLD, now) for now in (720, 780, 840)]
    assert found == [Verdict.WRITE, Verdict.WRITE, Verdict.WRITE_AND_ALERT]


def test_now_and_then_is_no_alert() -> None:
    strikes = Strikes()
    assert {strikes.judge(Stranger.HOLD, now) for now in range(0, 6000, 400)} == {Verdict.WRITE}


def test_left() -> None:
    assert Strikes().judge(Stranger.YIELD, 0) is Verdict.LEAVE
    assert Strikes().judge(Stranger.ALERT, 0) is Verdict.LEAVE_AND_ALERT


def test_what_the_rows_say() -> None:
    said = {name: by_row(Target("g", name), knob) for name, knob in KNOBS.items()}
    assert said.pop("sysctl") is Stranger.ALERT
    assert set(said.values()) == {Stranger.HOLD}


@pytest.mark.parametrize(
    ("place", "knob", "policy"),
    [
        ("kubepods/podab-1/c1", "cpuset.cpus", Stranger.YIELD),
        ("kubepods/burstable/pod1/c1", "cpuset.cpus", Stranger.YIELD),
        ("kubepods.slice/kubepods-pod1_2.slice/docker-c.scope", "cpuset.cpus", Stranger.YIELD),
        ("kubepods/burstable/pod1/c1", "cpu.shares", Stranger.HOLD),
        ("kubepods/burstable/pod1", "cpuset.cpus", Stranger.HOLD),
        ("kubepods/pod1", "cpuset.cpus", Stranger.HOLD),
        ("kubepods", "cpuset.cpus", Stranger.HOLD),
        ("kubepods.slice/kubepods-pod1_2.slice", "cpuset.cpus", Stranger.HOLD),
    ],
)
def test_the_static_kubelet_has_its_way_with_containers(
    place: str, knob: str, policy: Stranger
) -> None:
    target = Target(place, knob)
    assert beside_static_kubelet(lambda: True)(target, KNOBS[knob]) is policy
    assert beside_static_kubelet(lambda: False)(target, KNOBS[knob]) is Stranger.HOLD
