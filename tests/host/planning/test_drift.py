from collections.abc import Iterable

import pytest
from koord_host.knobs.table import KNOBS, DriftPolicy
from koord_host.planning.desired_values import Target
from koord_host.planning.drift import DriftCounter, beside_static_kubelet, by_row


@pytest.mark.parametrize(
    ("policy", "times", "responses"),
    [
        (DriftPolicy.HOLD, (0, 60, 120, 180), "write, write, write and alert, write"),
        # A quiet while begins anew.
        (DriftPolicy.HOLD, (0, 60, 120, 720, 780, 840),
         "write, write, write and alert, write, write, write and alert"),
        (DriftPolicy.HOLD, range(0, 2000, 400), "write, write, write, write, write"),
        (DriftPolicy.YIELD, (0,), "leave"),
        (DriftPolicy.ALERT, (0,), "leave and alert"),
    ],
)  # fmt: skip
def test_responses(policy: DriftPolicy, times: Iterable[int], responses: str) -> None:
    counter = DriftCounter()
    found = [counter.judge(policy, now).name.lower().replace("_", " ") for now in times]
    assert ", ".join(found) == responses


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
