"""NVML's answers and refusals as readings; the thread that waits for error events."""

from __future__ import annotations

import importlib.util
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from koord_host.devices.gpu import (
    DriverUnavailableError,
    GPUDetails,
    GPUInstance,
    GPUProcess,
    GPUReading,
)
from koord_host.nvml import NVML

from tests.support.fake_nvml import (
    DRIVER_NOT_LOADED,
    LIBRARY_NOT_FOUND,
    UNINITIALIZED,
    FakeGPU,
    FakeNVML,
)

AT = 1_700_000_000.0
NOW = int(AT * 1_000_000)

Opened = Callable[[FakeNVML], NVML]


@pytest.fixture
def opened() -> Iterator[Opened]:
    """Readers of a library that are closed afterwards, with their threads."""
    made: list[NVML] = []
    libraries: list[FakeNVML] = []

    def make(library: FakeNVML) -> NVML:
        libraries.append(library)
        made.append(NVML(library))
        return made[-1]

    yield make
    for one in made:
        one.close()
    assert not [one for one in threading.enumerate() if one.name == "nvml events"]
    assert not any(library.event_sets for library in libraries)


def soon(nvml: NVML, wanted: Callable[[list[GPUReading]], bool]) -> list[GPUReading]:
    """Readings until one is as wanted; the last one, where none ever is."""
    pause = threading.Event()
    for _ in range(3000):
        readings = nvml.read(AT)
        if wanted(readings):
            break
        pause.wait(0.01)
    return readings


def test_a_gpu_without_memory_of_its_own_has_the_systems() -> None:
    unified = {"nvmlDeviceGetMemoryInfo", "nvmlDeviceGetMemoryInfo_v2"}
    gpus = [FakeGPU("GPU-gb10", name="NVIDIA GB10", unsupported=unified), FakeGPU("GPU-b", 1)]
    nvml = NVML(FakeNVML(gpus), system_memory=lambda: 128 << 30)
    first, second = nvml.read(AT)
    nvml.close()
    assert (first.memory, first.memory_used, second.memory) == (128 << 30, None, 80 << 30)


def test_a_gpu_that_reports_everything(opened: Opened) -> None:
    gpu = FakeGPU(
        "GPU-a",
        minor=3,
        used=5 << 30,
        busy=70,
        processes=[(11, 1 << 30), (12, None), (11, 1 << 20)],
        samples=[(11, NOW - 900_000, 10), (11, NOW - 100_000, 40), (13, NOW, 20), (11, NOW, 180)],
        recovery=0,
    )
    nvml = opened(FakeNVML([gpu]))
    assert nvml.read(AT) == [
        GPUReading(
            minor=3,
            uuid="GPU-a",
            bus="00000000:3B:00.0",
            model="NVIDIA A100-SXM4-80GB",
            memory=80 << 30,
            memory_used=5 << 30,
            core=70.0,
            processes=(
                GPUProcess(11, (1 << 30) + (1 << 20), 40.0),
                GPUProcess(12, 0, 0.0),
                GPUProcess(13, 0, 20.0),
            ),
            reset_needed=False,
        )
    ]
    assert nvml.driver == "570.86.15"


def test_an_older_library_and_a_process_that_used_nothing_lately(opened: Opened) -> None:
    gpu = FakeGPU(
        "GPU-a",
        processes=[(11, 5)],
        samples=[(11, NOW - 9_000_000, 90)],
        unsupported={"nvmlDeviceGetMemoryInfo_v2"},
    )
    (reading,) = opened(FakeNVML([gpu])).read(AT)
    assert reading.processes == (GPUProcess(11, 5, 0.0),)
    assert (reading.memory_used, reading.missing) == (1 << 30, ())


UNSUPPORTED = {
    "nvmlDeviceGetUtilizationRates": "no utilisation: Not Supported",
    "nvmlDeviceGetMemoryInfo": "no memory in use: Not Supported",
    "nvmlDeviceGetComputeRunningProcesses": "no processes: Not Supported",
    "nvmlDeviceGetProcessUtilization": "no use by process: Not Supported",
    "nvmlDeviceGetPciInfo": "no PCI address: Not Supported",
    "nvmlDeviceGetMinorNumber": "no minor: Not Supported",
    "nvmlDeviceGetName": "no model: Not Supported",
    "nvmlDeviceRegisterEvents": "its error events are not reported",
}


@pytest.mark.parametrize("question", UNSUPPORTED)
def test_one_question_refused_costs_its_answer(opened: Opened, question: str) -> None:
    refused = {question, f"{question}_v2"}
    gpus = [FakeGPU("GPU-a", unsupported=refused), FakeGPU("GPU-b", 1, busy=7)]
    first, second = opened(FakeNVML(gpus)).read(AT)
    assert UNSUPPORTED[question] in first.missing
    assert (first.uuid, first.minor, first.error) == ("GPU-a", 0, "")
    assert (second.core, second.missing) == (7.0, ())


@pytest.mark.parametrize(
    ("recovery", "needed"),
    [(None, None), (0, False), (1, True), (2, True), (3, False), (4, True), (5, False), (7, True)],
)
def test_whether_the_driver_asks_for_a_reset(
    opened: Opened, recovery: int | None, needed: bool | None
) -> None:
    (reading,) = opened(FakeNVML([FakeGPU("GPU-a", recovery=recovery)])).read(AT)
    assert reading.reset_needed is needed


@pytest.mark.parametrize(
    ("whose", "xids"), [(1, [(), (79,)]), (None, [(79,), (79,)])], ids=["its GPU's", "nobody's"]
)
def test_errors_are_reported_once_and_of_their_gpu(
    opened: Opened, whose: int | None, xids: list[tuple[int, ...]]
) -> None:
    gpus = [FakeGPU("GPU-a"), FakeGPU("GPU-b", 1)]
    library = FakeNVML(gpus)
    nvml = opened(library)
    assert [one.xids for one in nvml.read(AT)] == [(), ()]
    library.events.put((None if whose is None else gpus[whose], 79))
    readings = soon(nvml, lambda found: any(one.xids for one in found))
    assert [one.xids for one in readings] == xids
    assert [one.xids for one in nvml.read(AT)] == [(), ()]


def test_a_gpu_that_is_lost_costs_itself_and_is_asked_anew_after_a_minute(opened: Opened) -> None:
    gpus = [FakeGPU("GPU-a"), FakeGPU("GPU-b", 1)]
    library = FakeNVML(gpus)
    nvml = opened(library)
    nvml.read(AT)
    gpus[0].lost = True
    for later in (1.0, 30.0, 59.0):
        first, second = nvml.read(AT + later)
        assert (first.uuid, first.error, first.core) == ("GPU-a", "GPU is lost", None)
        assert (second.error, second.memory_used) == ("", 1 << 30)
    assert library.begun == 1
    nvml.read(AT + 60)
    assert library.sessions == 0
    first, _ = nvml.read(AT + 61)
    assert (first.minor, first.uuid, first.error) == (-1, "", "number 0: GPU is lost")
    assert (library.begun, library.sessions) == (2, 1)
    gpus[0].lost = False
    nvml.read(AT + 121)
    assert [one.error for one in nvml.read(AT + 122)] == ["", ""]
    assert (library.begun, library.sessions) == (3, 1)


def test_a_driver_that_is_gone_ends_the_session_and_is_found_again(opened: Opened) -> None:
    library = FakeNVML([FakeGPU("GPU-a")])
    nvml = opened(library)
    nvml.read(AT)
    library.gone = DRIVER_NOT_LOADED
    with pytest.raises(DriverUnavailableError, match="driver is gone: Driver Not Loaded"):
        nvml.read(AT + 1)
    library.gone, library.sessions, library.broken = 0, 0, DRIVER_NOT_LOADED
    for later in (2, 3, 9):
        with pytest.raises(DriverUnavailableError, match="load the kernel module nvidia"):
            nvml.read(AT + later)
    library.broken = 0
    with pytest.raises(DriverUnavailableError, match="load the kernel module"):
        nvml.read(AT + 11)
    (reading,) = nvml.read(AT + 12)
    assert reading.uuid == "GPU-a"


@pytest.mark.parametrize(
    ("broken", "gone", "said"),
    [
        (LIBRARY_NOT_FOUND, 0, "NVML Shared Library Not Found: install NVIDIA's driver"),
        (DRIVER_NOT_LOADED, 0, "Driver Not Loaded: load the kernel module nvidia"),
        (18, 0, "not of the driver's version"),
        (999, 0, "NVML Error with code 999: see nvidia-smi"),
        (0, 999, "does not list its GPUs"),
    ],
)
def test_why_the_library_cannot_be_used(opened: Opened, broken: int, gone: int, said: str) -> None:
    library = FakeNVML([])
    assert opened(library).read(AT) == []
    library.broken, library.gone = broken, gone
    with pytest.raises(DriverUnavailableError, match=said):
        opened(library).read(AT)


def test_without_the_package_the_way_out_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    def nowhere(name: str) -> Any:
        raise ImportError(name)

    monkeypatch.setattr("koord_host.nvml.importlib.import_module", nowhere)
    with pytest.raises(DriverUnavailableError, match=r"-m pip install 'nvidia-ml-py>="):
        NVML().read(AT)


def test_who_asked_hears_of_errors_at_once() -> None:
    library, heard, event = FakeNVML([FakeGPU("GPU-a")]), list[int](), threading.Event()

    def on_xid(xid: int) -> None:
        heard.append(xid)
        event.set()

    nvml = NVML(library, on_xid)
    nvml.read(AT)
    library.events.put((library.gpus[0], 79))
    assert event.wait(10)
    assert nvml.read(AT)[0].xids == (79,)
    nvml.close()
    assert heard == [79]


def test_details_for_an_inventory(opened: Opened) -> None:
    """Links are between those that answer; what is not supported is empty."""
    parts = {0: ("MIG-1", "NVIDIA A100 MIG 1g.10gb", 10 << 30), 5: ("MIG-2", "x MIG 2g.20gb", 1)}
    first = FakeGPU("GPU-a", linked={"GPU-b"}, ecc=2, rows=(0, 1, 0, 1), instances=parts)
    second = FakeGPU("GPU-b", linked={"GPU-a"}, unsupported={"nvmlDeviceGetMigMode"})
    nvml = opened(FakeNVML([first, second, FakeGPU("GPU-c", lost=True)]))
    assert nvml.details() == {}
    nvml.read(AT)
    found = nvml.details()
    instances = (GPUInstance("MIG-1", "1g.10gb", 10 << 30), GPUInstance("MIG-2", "2g.20gb", 1))
    assert found == {
        "GPU-a": GPUDetails("GPU-a", ("GPU-b",), instances, 2, True),
        "GPU-b": GPUDetails("GPU-b", ("GPU-a",)),
    }


real = pytest.mark.skipif(
    importlib.util.find_spec("pynvml") is None, reason="nvidia-ml-py is not installed"
)


@real
def test_the_double_has_the_names_and_numbers_of_the_real_module() -> None:
    library = importlib.import_module("pynvml")
    for name in vars(FakeNVML):
        if name.lower().startswith("nvml"):
            assert hasattr(library, name), name
    for name, number in vars(FakeNVML).items():
        if isinstance(number, int):
            assert getattr(library, name) == number, name
    for number, text in {UNINITIALIZED: "Uninitialized", 9: "Driver Not Loaded"}.items():
        error = library.NVMLError(number)
        assert (error.value, str(error)) == (number, text)


@real
def test_the_real_library_says_what_is_missing_or_reads() -> None:
    nvml = NVML()
    readings, refused = [], ""
    try:
        readings = nvml.read(AT)
    except DriverUnavailableError as error:
        refused = str(error)
    finally:
        nvml.close()
    assert all(one.uuid or one.error for one in readings)
    assert not refused or "NVML cannot be started" in refused


def test_gpus_are_read_where_nobody_can_wait_for_their_errors(
    opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    def none_left(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", none_left)
    library = FakeNVML([FakeGPU("GPU-0")])
    [reading] = opened(library).read(AT)
    assert (reading.uuid, library.event_sets) == ("GPU-0", 0)
    assert "its error events are not reported" in reading.missing
