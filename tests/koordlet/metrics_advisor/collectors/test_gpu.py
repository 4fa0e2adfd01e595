"""GPUs: whose use is whose, where they are, and when they are healthy again."""

from __future__ import annotations

import errno
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from koord_host.devices.gpu import (
    APPLICATION_XIDS,
    DriverUnavailableError,
    GPUProcess,
    GPUReading,
)
from koord_host.knobs.layout import Driver, Layout
from koord_model.node_info import GPUs, SchedulableDevice
from koord_model.pod import Container, Pod
from koordlet.metrics_advisor.collectors import gpu
from koordlet.metrics_advisor.contract.collector import (
    CollectContext,
    CollectorSources,
    Samples,
    UnavailableError,
)
from koordlet.states_informer.state.pod_inventory import PodRecord

from tests.koordlet.metrics_advisor.collectors.used_node import values
from tests.support.text_tree import TextTree

V2 = Layout(2, Driver.SYSTEMD)
V1 = Layout(1, Driver.CGROUPFS)
POD_A = Pod("a", "n", "ua", cgroup_parent="kubepods-podua.slice")
POD_B = Pod("b", "n", "ub", cgroup_parent="kubepods-besteffort-podub.slice")
RECORDS = (
    PodRecord(POD_A, {"c1": Container(POD_A, "x", "c1"), "c2": Container(POD_A, "y", "c2")}),
    PodRecord(POD_B, {"c3": Container(POD_B, "z", "c3")}),
)
WHOLE = GPUReading(
    0, "GPU-a", "00000000:3B:00.0", "NVIDIA A100", 80 << 30, memory_used=9 << 30, core=60.0
)
PLACED = SchedulableDevice(
    type="gpu",
    id="GPU-a",
    minor=0,
    resources={
        "koordinator.sh/gpu-core": 100,
        "koordinator.sh/gpu-memory": 80 << 30,
        "koordinator.sh/gpu-memory-ratio": 100,
    },
    numa_node=1,
    pcie="pci0000:3a",
    bus="0000:3b:00.0",
)


class Reported:
    """Implements ``GPUCounters``: says what it was given."""

    driver = "570.86.15"

    def __init__(self, *readings: GPUReading) -> None:
        self.readings: list[GPUReading] | DriverUnavailableError = list(readings)

    def read(self, at: float) -> list[GPUReading]:
        if isinstance(self.readings, DriverUnavailableError):
            raise self.readings
        return self.readings


def tree(**processes: str | OSError) -> TextTree:
    """A machine with a GPU at 0000:3b:00.0, and processes by number ("p7") with their cgroups."""
    card = "/sys/devices/pci0000:3a/0000:3a:00.0/0000:3b:00.0"
    texts: dict[str, str | OSError] = {f"{card}/numa_node": "1\n"}
    texts |= {f"/proc/{name[1:]}/cgroup": text for name, text in processes.items()}
    return TextTree(texts, {"/sys/bus/pci/devices/0000:3b:00.0": card})


def collector(
    reported: Reported, files: TextTree | None = None, layout: Layout = V2
) -> gpu.Collector:
    return gpu.Collector(CollectorSources(files or tree(), layout, gpus=reported))


def devices(found: Samples) -> tuple[SchedulableDevice, ...]:
    (info,) = found.infos
    assert type(info) is GPUs
    return info.devices


@pytest.mark.parametrize(
    ("reading", "used", "partial"),
    [
        (WHOLE, {"core": 60.0, "memory": float(9 << 30)}, ()),
        (
            replace(WHOLE, core=None, memory_used=None, missing=("no utilisation: Not Supported",)),
            {},
            ("GPU GPU-a: no utilisation: Not Supported",),
        ),
    ],
    ids=["all", "nothing"],
)
def test_a_gpu_and_what_the_node_uses_of_it(
    reading: GPUReading, used: dict[str, float], partial: tuple[str, ...]
) -> None:
    found = collector(Reported(reading)).collect(CollectContext(0.0, 0.0))
    assert found.infos == (GPUs((PLACED,), "nvidia", "NVIDIA A100", "570.86.15"),)
    assert values(found) == {
        (f"node_gpu_{what}_usage", "0", "GPU-a"): value for what, value in used.items()
    }
    assert found.partial == partial


def test_use_of_processes_is_summed_by_pod_and_container() -> None:
    slices = "kubepods.slice/kubepods-podua.slice"
    lower = "kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-podub.slice"
    files = tree(
        p1=f"12:pids:/\n4:memory:/{slices}/cri-containerd-c1.scope\n1:name=systemd:/x\n",
        p2=f"0::/{slices}/cri-containerd-c1.scope/nested/deep\n",
        p3=f"0::/../../../{slices}/cri-containerd-c2.scope\n",
        p4=f"0::/docker/abc/kubelet/{lower}/cri-containerd-c3.scope\n",
        p5=f"0::/{slices}/cri-containerd-sandbox.scope\n",
        p6="0::/system.slice/persistenced.service\n",
        p7="garbage\n::\n",
        p8=OSError(errno.ESRCH, "No such process"),
    )
    processes = tuple(GPUProcess(pid, 10**pid, float(pid)) for pid in range(1, 10))
    reported = Reported(replace(WHOLE, processes=processes))
    nowhere = PodRecord(Pod("c", "n", "uc"))
    found = values(
        collector(reported, files).collect(CollectContext(0.0, 0.0, (*RECORDS, nowhere)))
    )
    owners = {
        ("pod", "ua"): (11.0, 101110.0),
        ("container", "ua", "c1"): (3.0, 110.0),
        ("container", "ua", "c2"): (3.0, 1000.0),
        ("pod", "ub"): (4.0, 10000.0),
        ("container", "ub", "c3"): (4.0, 10000.0),
    }
    assert {key: value for key, value in found.items() if not key[0].startswith("node")} == {
        (f"{who}_gpu_{what}_usage", *ids, "0", "GPU-a"): value
        for (who, *ids), used in owners.items()
        for what, value in zip(("core", "memory"), used, strict=True)
    }


@pytest.mark.parametrize("text", ["garbage\n", OSError(errno.EIO, "Input/output error"), None])
def test_a_gpu_that_sysfs_does_not_place_is_used_all_the_same(text: str | OSError | None) -> None:
    files = tree()
    path = "/sys/devices/pci0000:3a/0000:3a:00.0/0000:3b:00.0/numa_node"
    files.texts |= {path: text} if text is not None else {}
    files.remove("/sys/bus/pci/devices/0000:3b:00.0") if text is None else None
    one = collector(Reported(WHOLE), files)
    found = one.collect(CollectContext(0.0, 0.0))
    (device,) = devices(found)
    assert (device.healthy, device.numa_node, device.pcie) == (True, -1, "")
    assert found.partial[0].startswith("GPU GPU-a: no place in sysfs: ")
    assert not one.collect(CollectContext(1.0, 1.0)).partial  # said once, looked for once


def test_models_that_differ_are_no_model_and_a_nameless_gpu_is_left_out() -> None:
    other = replace(WHOLE, uuid="GPU-b", minor=1, model="NVIDIA H100")
    nobody = [
        GPUReading(minor, uuid, error="lost") for minor, uuid in ((-1, ""), (2, ""), (-1, "x"))
    ]
    found = collector(Reported(*nobody, WHOLE, other)).collect(CollectContext(0.0, 0.0))
    (info,) = found.infos
    assert isinstance(info, GPUs)
    assert info.model == ""
    assert [device.minor for device in info.devices] == [0, 1]
    assert found.partial == ("a GPU does not say which it is: lost (left out)",)


class History:
    """One GPU through time: says it and asks how it fares."""

    def __init__(self) -> None:
        self.reported = Reported(WHOLE)
        self.collector = collector(self.reported)
        self.at(0.0)

    def at(self, steady: float, reading: GPUReading | None = WHOLE) -> str:
        """Why it is not healthy; "" while it is. ``None``: it is not listed."""
        self.reported.readings = [] if reading is None else [reading]
        (device,) = devices(self.collector.collect(CollectContext(steady, steady)))
        assert device.healthy == (not device.reason)
        assert bool(device.message) == bool(device.reason)
        assert device.resources == PLACED.resources
        return device.reason


def xid(*numbers: int, reset_needed: bool | None = None) -> GPUReading:
    return replace(WHOLE, xids=numbers, reset_needed=reset_needed)


LOST = replace(WHOLE, memory_used=None, core=None, error="GPU is lost")


FINE, ASKS = (replace(WHOLE, reset_needed=needed) for needed in (False, True))
HISTORIES: dict[str, list[tuple[float, GPUReading | None, str]]] = {
    **{f"application {n}": [(1, xid(n), "")] for n in (13, 31, 43, 45, 68, 109)},
    "five quiet minutes": [
        *((1, xid(94), "Xid94"), (2, WHOLE, "Xid94"), (300, WHOLE, "Xid94")),
        *((301, WHOLE, ""), (303, xid(13), "")),
    ],
    "another error begins the quiet anew": [
        *((1, xid(94), "Xid94"), (200, xid(63), "Xid63"), (301, WHOLE, "Xid63")),
        *((499, WHOLE, "Xid63"), (500, WHOLE, "")),
    ],
    **{
        f"{n} until a reset was seen": [
            *((1, xid(n), f"Xid{n}"), (100, xid(94), f"Xid{n}"), (100_000, WHOLE, f"Xid{n}")),
            *((100_001, LOST, f"Xid{n}"), (100_002, WHOLE, "")),
        ]
        for n in (46, 48, 54, 62, 64, 74, 79, 95, 110, 119, 120, 140, 143)
    },
    "the driver needs no reset": [
        *((1, xid(48, reset_needed=False), "Xid48"), (2, FINE, "Xid48"), (300, FINE, "Xid48")),
        (301, FINE, ""),
    ],
    "the driver asks for a reset": [
        *((1, ASKS, "ResetRequired"), (9999, ASKS, "ResetRequired"), (10_000, FINE, "")),
        *((10_001, replace(ASKS, xids=(79,)), "Xid79"), (10_002, FINE, "")),
    ],
    "no answer, and not listed": [
        *((1, LOST, "NotAnswering"), (2, WHOLE, ""), (3, None, "NotFound")),
        *((4, None, "NotFound"), (5, WHOLE, "")),
    ],
    "an error on its return": [
        *((1, LOST, "NotAnswering"), (2, xid(79), "Xid79"), (9999, WHOLE, "Xid79")),
    ],
}


@pytest.mark.parametrize("steps", HISTORIES.values(), ids=HISTORIES)
def test_health_through_time(steps: list[tuple[float, GPUReading | None, str]]) -> None:
    gpu = History()
    assert [gpu.at(at, reading) for at, reading, _ in steps] == [why for *_, why in steps]


def test_a_driver_that_goes_away_takes_its_gpus_with_it() -> None:
    reported = Reported(WHOLE)
    one = collector(reported)
    one.collect(CollectContext(0.0, 0.0))
    reported.readings = DriverUnavailableError("NVIDIA's driver is gone")
    found = one.collect(CollectContext(1.0, 1.0))
    assert [device.reason for device in devices(found)] == ["NotFound"]
    assert found.partial == ("NVIDIA's driver is gone",)
    assert found.samples == []
    assert found.infos == (GPUs(devices(found), "nvidia", "NVIDIA A100", "570.86.15"),)
    reported.readings = [WHOLE]
    assert devices(one.collect(CollectContext(2.0, 2.0))) == (PLACED,)


@pytest.mark.parametrize("reported", [None, DriverUnavailableError("no library")])
def test_without_a_driver_it_is_unavailable(reported: DriverUnavailableError | None) -> None:
    counters = None
    if reported is not None:
        counters = Reported()
        counters.readings = reported
    one = gpu.Collector(CollectorSources(tree(), V2, gpus=counters))
    with pytest.raises(UnavailableError):
        one.collect(CollectContext(0.0, 0.0))


@given(
    st.lists(
        st.tuples(
            st.floats(0, 600),
            st.lists(st.sampled_from([13, 48, 63, 79, 94]), max_size=2),
            st.sampled_from([None, True, False]),
            st.sampled_from(["", "GPU is lost"]),
        ),
        max_size=20,
    )
)
def test_whatever_happened_a_reset_and_five_quiet_minutes_heal(
    events: list[tuple[float, list[int], bool | None, str]],
) -> None:
    history = History()
    now = 0.0
    for wait, numbers, needed, error in events:
        now += wait
        reading = replace(WHOLE, xids=tuple(numbers), reset_needed=needed, error=error)
        reason = history.at(now, reading)
        if error or needed or set(numbers) - APPLICATION_XIDS:
            assert reason
    history.at(now + 1, LOST)
    assert history.at(now + 2) == ""
