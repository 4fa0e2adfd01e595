"""The loop, with vendors that hang, fail and recover; its files, and what wakes it."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from koord_devices.config import DeviceDaemonSettings
from koord_devices.contract import NodeAccess, ToolError
from koord_devices.core.accelerator import Accelerator
from koord_devices.core.inventory import VendorState, answered
from koord_devices.daemon import Daemon
from koord_devices.pages import healthz, metrics, readyz, status
from koord_devices.prober import Stop, Wake
from koord_devices.publisher import Publisher
from koord_devices.report import Report
from koord_host.devices.pci import PCIFunction

from tests.devices.core.test_inventory import accelerator
from tests.support.recorded_tools import RecordedNode, pci_tree

TREE = pci_tree(("0000:41:00.0", "19e5", "d802", "120000"))


class ScriptedVendor:
    """A vendor with an answer for each probe; the last holds from then on."""

    def __init__(self, *steps: Callable[[], list[Accelerator]]) -> None:
        self.steps = list(steps)
        self.probes = 0

    def owns(self, function: PCIFunction) -> bool:
        return True

    def probe(self, node: NodeAccess, functions: Sequence[PCIFunction]) -> list[Accelerator]:
        self.probes += 1
        step = self.steps.pop(0) if len(self.steps) > 1 else self.steps[0]
        return step()


def fine() -> list[Accelerator]:
    return [accelerator("a")]


def broken() -> list[Accelerator]:
    raise ToolError("ToolFailed", "npu-smi ended with 1")


def wild() -> list[Accelerator]:
    raise KeyError("a line\nand another")


class HangingVendor:
    """Hangs until it is let go."""

    def __init__(self) -> None:
        self.gate = threading.Event()

    def __call__(self) -> list[Accelerator]:
        self.gate.wait(30)
        return fine()


@pytest.fixture
def hanging() -> Iterator[HangingVendor]:
    made = HangingVendor()
    yield made
    made.gate.set()


def daemon(
    tmp_path: Path, vendors: dict[str, ScriptedVendor], tree: Any = TREE, **given: Any
) -> Daemon:
    fields = {
        "oneshot": True,
        "prints_output_file": str(tmp_path / "infos/ic-device"),
        "probe_timeout": 0.3,
    }
    settings = DeviceDaemonSettings(**fields | given)
    return Daemon(settings, tree, vendors, lambda: RecordedNode({}, tree))


def written(tmp_path: Path) -> dict[str, str]:
    """Why each device of the file is not healthy."""
    devices = json.loads((tmp_path / "infos/ic-device").read_text())
    return {one["uuid"]: one["status"].get("errCode", "") for one in devices}


def test_once(tmp_path: Path) -> None:
    one = daemon(tmp_path, {"x": ScriptedVendor(fine)})
    assert one.run() == 0
    assert written(tmp_path) == {"a": ""}
    assert (tmp_path / "infos/ic-device").stat().st_mode & 0o777 == 0o644
    files = [path.name for path in (tmp_path / "infos").iterdir() if path.is_file()]
    assert files == ["ic-device"]  # Koordinator's koordlet reads all files there
    (device,) = json.loads((tmp_path / "infos/ic-device").read_text())
    assert device["minor"] == "0"
    assert device["timestamp"] < device["expiryTime"]


def test_without_devices_nothing_is_written(tmp_path: Path) -> None:
    assert daemon(tmp_path, {"x": ScriptedVendor(fine)}, pci_tree()).run() == 0
    assert daemon(tmp_path, {"x": ScriptedVendor(broken)}).run() == 1
    assert not (tmp_path / "infos").exists()


@pytest.mark.parametrize(
    ("step", "reason"), [(broken, "ToolFailed"), (wild, "OutputNotUnderstood"), (None, "Timeout")]
)
def test_one_vendor_never_hides_another(
    tmp_path: Path, hanging: HangingVendor, step: Any, reason: str
) -> None:
    vendors = {"x": ScriptedVendor(step or hanging), "y": ScriptedVendor(fine)}
    one = daemon(tmp_path, vendors)
    assert one.run() == 1
    assert written(tmp_path) == {"a": ""}
    assert one.report.states["x"].reason == reason
    assert "\n" not in one.report.states["x"].error


def test_a_vendor_of_somebody_else_cannot_stop_it(tmp_path: Path) -> None:
    """Whatever it raises, and whatever it answers."""

    class Raising(ScriptedVendor):
        def owns(self, function: PCIFunction) -> bool:
            raise RuntimeError("no")

    def nonsense() -> list[Accelerator]:
        return [replace(accelerator("b"), links=7)]  # type: ignore[arg-type]

    vendors = {"x": Raising(fine), "y": ScriptedVendor(nonsense), "z": ScriptedVendor(fine)}
    one = daemon(tmp_path, vendors)
    assert one.run() == 1
    assert written(tmp_path) == {"a": ""}
    assert one.report.states["x"].reason == "VendorFailed"
    assert one.report.states["y"].reason == "OutputNotUnderstood"


def test_a_restart_knows_what_was_and_a_failure_marks_it(tmp_path: Path) -> None:
    daemon(tmp_path, {"v": ScriptedVendor(fine)}).run()
    assert daemon(tmp_path, {"v": ScriptedVendor(broken)}).run() == 1
    assert written(tmp_path) == {"a": "ToolFailed"}
    daemon(tmp_path, {"v": ScriptedVendor(fine)}).run()
    assert written(tmp_path) == {"a": ""}


def test_a_card_that_leaves_the_bus_stays_in_the_file(tmp_path: Path) -> None:
    daemon(tmp_path, {"v": ScriptedVendor(fine)}).run()
    daemon(tmp_path, {"v": ScriptedVendor(fine)}, pci_tree()).run()
    assert written(tmp_path) == {"a": "NotFound"}


def test_a_file_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "infos").write_text("")
    one = daemon(tmp_path, {"x": ScriptedVendor(fine)})
    assert one.run() == 1
    assert healthz(one.report, 0.0).status == 503


def running(one: Daemon) -> tuple[threading.Thread, list[int]]:
    statuses: list[int] = []
    thread = threading.Thread(target=lambda: statuses.append(one.run()))
    thread.start()
    return thread, statuses


def soon(what: Callable[[], bool]) -> bool:
    pause = threading.Event()
    return any(what() or pause.wait(0.01) for _ in range(1000))


def test_an_event_wakes_it_and_stop_leaves_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("koord_devices.daemon.SETTLE_SECONDS", 0.01)
    vendor = ScriptedVendor(fine, lambda: [accelerator("a"), accelerator("b", 1)])
    one = daemon(tmp_path, {"x": vendor}, oneshot=False)
    thread, statuses = running(one)
    assert soon(lambda: vendor.probes == 1 and bool(one.report.written_at))
    one.events.put(Wake("pci 0000:42:00.0 add"))
    assert soon(lambda: len(one.report.accelerators) == 2)
    one.events.put(Stop())
    thread.join(10)
    assert statuses == [0]
    assert written(tmp_path) == {"a": "", "b": ""}


def test_a_vendor_that_hung_is_heard_when_it_answers_at_last(
    tmp_path: Path, hanging: HangingVendor
) -> None:
    vendor = ScriptedVendor(hanging)
    one = daemon(tmp_path, {"x": vendor}, oneshot=False)
    thread, _ = running(one)
    assert soon(lambda: "x" in one.report.states)
    assert one.report.states["x"].reason == "Timeout"
    hanging.gate.set()
    assert soon(lambda: bool(one.report.accelerators))
    one.events.put(Stop())
    thread.join(10)
    assert vendor.probes == 1
    assert written(tmp_path) == {"a": ""}


def test_what_others_answer_waits_for_nobody(
    tmp_path: Path, hanging: HangingVendor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the file said of the one that is still asked stays as it was."""
    daemon(tmp_path, {"v": ScriptedVendor(fine)}).run()
    monkeypatch.setattr("koord_devices.daemon.PATIENCE_SECONDS", 0.05)
    vendors = {"v": ScriptedVendor(hanging), "y": ScriptedVendor(lambda: [accelerator("b", 1)])}
    one = daemon(tmp_path, vendors, oneshot=False, probe_timeout=30.0)
    thread, _ = running(one)
    assert soon(lambda: written(tmp_path) == {"a": "", "b": ""})
    one.events.put(Stop())
    thread.join(10)


def test_once_waits_longer_than_an_interval(tmp_path: Path) -> None:
    gate = threading.Event()

    def slow() -> list[Accelerator]:
        gate.wait(0.5)
        return fine()

    vendor, quick = ScriptedVendor(slow), ScriptedVendor(fine)
    vendors = {"x": vendor, "y": quick}
    assert daemon(tmp_path, vendors, sleep_interval=0.01, probe_timeout=30.0).run() == 0
    assert (vendor.probes, quick.probes) == (1, 1)


def test_labels_are_tried_again_until_they_are_written(tmp_path: Path) -> None:
    tried: list[dict[str, str]] = []

    def on_labels(found: Any) -> bool:
        tried.append(dict(found))
        return len(tried) > 1

    settings = DeviceDaemonSettings(prints_output_file=str(tmp_path / "x"), oneshot=True)
    publisher = Publisher(settings, on_labels)
    for _ in range(3):
        publisher.publish(Report({"v": answered(VendorState(), fine(), 0.0)}))
    assert len(tried) == 2


def test_a_vendor_that_still_hangs_is_not_probed_again(
    tmp_path: Path, hanging: HangingVendor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("koord_devices.daemon.SETTLE_SECONDS", 0.01)
    vendor = ScriptedVendor(hanging)
    one = daemon(tmp_path, {"x": vendor, "y": ScriptedVendor(fine)}, oneshot=False)
    thread, _ = running(one)
    assert soon(lambda: "x" in one.report.states)
    one.events.put(Wake("pci 0000:42:00.0 add"))
    assert soon(lambda: "still hangs" in one.report.states["x"].error)
    one.events.put(Stop())
    thread.join(10)
    assert vendor.probes == 1


def test_rdma_cards_are_shown_beside(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With the switch that they are behind; the file is of accelerators alone."""
    tree = pci_tree()
    where = "/sys/devices/pci0000:3a/0000:3a:00.0/0000:3b:00.0/0000:3c:01.0/0000:3d:00.0"
    tree.texts |= {f"{where}/class": "0x020700\n", f"{where}/numa_node": "0\n"}
    tree.links["/sys/bus/pci/devices/0000:3d:00.0"] = where
    tree.links["/sys/class/infiniband/mlx5_0/device"] = where
    tree.texts["/sys/class/infiniband/mlx5_0/ports/1/state"] = "4: ACTIVE\n"
    one = daemon(tmp_path, {}, tree, format="table")
    assert one.run() == 0
    (_, line) = capsys.readouterr().out.splitlines()
    assert line.split()[:2] == ["rdma", "0"]
    assert "0000:3b:00.0" in line
    assert status(one.report)["rdma"][0]["pcieSwitch"] == "0000:3b:00.0"
    assert not (tmp_path / "infos").exists()


def test_it_prints_what_changed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    daemon(tmp_path, {"x": ScriptedVendor(fine)}, prints_output_file="").run()
    (device,) = json.loads(capsys.readouterr().out)
    assert device["uuid"] == "a"
    assert "timestamp" not in device
    daemon(tmp_path, {"x": ScriptedVendor(fine)}, format="table").run()
    assert capsys.readouterr().out.startswith("VENDOR")
    daemon(tmp_path, {"x": ScriptedVendor(fine)}).run()
    assert capsys.readouterr().out == ""


def test_labels_for_node_feature_discovery(tmp_path: Path) -> None:
    features = tmp_path / "koord-devices"
    daemon(
        tmp_path, {"x": ScriptedVendor(fine)}, features_file=str(features), no_timestamp=True
    ).run()
    assert "devices.koordinator.sh/v.count=1" in features.read_text().splitlines()
    (device,) = json.loads((tmp_path / "infos/ic-device").read_text())
    assert "expiryTime" not in device


def test_pages(tmp_path: Path) -> None:
    one = daemon(tmp_path, {"x": ScriptedVendor(fine), "y": ScriptedVendor(broken)})
    assert readyz(one.report).status == 503
    one.run()
    assert readyz(one.report).status == 200
    page = healthz(one.report, 0.0)
    assert (page.status, page.body) == (200, b"ok\ny: npu-smi ended with 1\n")
    assert healthz(one.report, one.report.written_at + 1).status == 503
    assert status(one.report)["vendors"]["y"]["reason"] == "ToolFailed"
    lines = "".join(metrics(one.report)).splitlines()
    assert 'koord_device_daemon_devices{vendor="x",healthy="true"} 1' in lines
    assert 'koord_device_daemon_vendor_up{vendor="y"} 0' in lines
    assert 'koord_device_daemon_probe_failures_total{vendor="y"} 1' in lines
