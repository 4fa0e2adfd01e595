"""What the kubelet's list says of quotas."""

from __future__ import annotations

from dataclasses import replace

import pytest
from koord_host.knobs.layout import Driver, Layout
from koord_model.resources import LinuxResources
from koordlet.runtime_hooks.reconciler.listed_limits import listed_limits
from koordlet.states_informer.state.pod_inventory import PodRecord

from tests.support.views import pod_view

LAYOUT = Layout(2, Driver.CGROUPFS)
BOTH = {"a": ({}, {"cpu": 1000}), "b": ({}, {"cpu": 2})}


def found(record: PodRecord) -> dict[str, int]:
    limits = listed_limits(record, LAYOUT)
    return {target.place.rpartition("/")[2]: limit for target, limit in limits.items()}


def has(record: PodRecord, **resources: int) -> PodRecord:
    """Container a has these limits, whatever it is to have."""
    first = record.containers["web-a"]
    own = replace(first, resources=LinuxResources(**resources))
    return replace(record, containers={**record.containers, "web-a": own})


def test_quotas_of_a_pod_and_its_containers() -> None:
    record = pod_view("web", containers=BOTH, layout=LAYOUT).record
    assert found(record) == {"podweb": 100_200, "web-a": 100_000, "web-b": 1000}
    own = replace(record.pod, resources=LinuxResources(cpu_quota=300_000))
    assert found(replace(record, pod=own))["podweb"] == 300_000


@pytest.mark.parametrize(
    ("resources", "a"),
    [({"cpu_quota": 300_000}, 300_000), ({"cpu_quota": 30_000, "cpu_period": 20_000}, 150_000)],
)
def test_while_it_is_resized_what_a_container_has_counts(resources: dict[str, int], a: int) -> None:
    record = pod_view("web", containers=BOTH, layout=LAYOUT).record
    assert found(has(record, **resources)) == {"web-a": a, "web-b": 1000}


def test_what_is_not_said() -> None:
    unlimited = pod_view("web", containers={**BOTH, "c": ({}, {})}, layout=LAYOUT).record
    assert found(unlimited) == {"web-a": 100_000, "web-b": 1000}
    assert found(pod_view("web", containers=("a",), listed=False).record) == {}
    assert found(pod_view("web", containers=BOTH, runtime_handler="kata-qemu").record) == {}
