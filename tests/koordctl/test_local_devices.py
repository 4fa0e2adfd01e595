"""This node's devices: from files, sysfs and koordlet; with what is wrong."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from koordctl.errors import AskError
from koordctl.koordlet_documents import SeriesDocument, SeriesRow
from koordctl.main import main
from koordctl.output.tables import plain

from koordctl import local_devices
from tests.support.recorded_tools import pci_tree
from tests.support.text_tree import TextTree

EXPIRY = "2026-01-01T00:00:00Z"
BEFORE, AFTER = 1_700_000_000.0, 1_800_000_000.0


def described(uuid: str, **fields: Any) -> dict[str, Any]:
    whole = {
        "vendor": "nvidia",
        "model": "A100",
        "uuid": uuid,
        "minor": "0",
        "resources": {"koordinator.sh/gpu-core": "100"},
        "topology": {
            "nodeID": "1",
            "pcieID": "pci0000:80",
            "busID": "0000:81:00.0",
            "p2pLinks": [{"peerMinor": "1,2", "type": "NVLink"}],
        },
        "status": {"healthy": True},
        "expiryTime": EXPIRY,
    }
    return whole | fields


def rdma_tree() -> TextTree:
    tree = pci_tree(("0000:3b:00.0", "15b3", "1019", "020700"))
    there = tree.links["/sys/bus/pci/devices/0000:3b:00.0"]
    tree.links["/sys/class/infiniband/mlx5_2/device"] = there
    tree.texts["/sys/class/infiniband/mlx5_2/ports/1/state"] = "1: DOWN\n"
    return tree


@pytest.fixture
def users(monkeypatch: pytest.MonkeyPatch) -> None:
    labels = {"gpu_device_uuid": "GPU-a", "pod_uid": "u"}
    answer = SeriesDocument("pod_gpu_memory_usage", 0.0, [SeriesRow(labels, "shop/trainer")])
    monkeypatch.setattr(local_devices, "ask_koordlet", lambda *_: (b"", answer))


@pytest.mark.usefixtures("users")
def test_what_there_is_who_uses_it_and_what_is_wrong(tmp_path: Path) -> None:
    sick = {"healthy": False, "errCode": "Xid79", "errMessage": "gone"}
    files = [described("GPU-a"), described("GPU-b", status=sick)]
    (tmp_path / "ic-device").write_text(json.dumps(files))
    (tmp_path / "ic-device-tmp").mkdir()
    found = local_devices.documents(str(tmp_path), rdma_tree(), "", BEFORE)
    assert [one["pods"] for one in found] == [["shop/trainer"], [], []]
    _, first, second, card = plain(local_devices.lines(found))
    assert first.split() == [
        *("nvidia", "0", "A100", "gpu-core", "100", "yes", "1", "pci0000:80", "0000:81:00.0"),
        *("NVLink:1,2", "shop/trainer"),
    ]
    assert "no (Xid79: gone)" in second
    assert "no (PortNotActive: port 1 of mlx5_2 is 1: DOWN)" in card


def test_what_nobody_confirms_is_stale(tmp_path: Path) -> None:
    (tmp_path / "a").write_text(json.dumps([described("GPU-a"), described("b", expiryTime=5)]))
    found = local_devices.documents(str(tmp_path), TextTree(), "/nowhere", AFTER)
    assert [one["status"].get("errCode") for one in found] == ["Stale", None]


def test_no_device_and_no_file(tmp_path: Path) -> None:
    found = local_devices.documents(str(tmp_path / "x"), TextTree(), "/nowhere", AFTER)
    assert "No device found" in plain(local_devices.lines(found))[0]
    (tmp_path / "a").write_text("{")
    with pytest.raises(AskError, match="cannot be read"):
        local_devices.documents(str(tmp_path), TextTree(), "/nowhere", AFTER)


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a").write_text(json.dumps([described("GPU-a")]))
    main(["devices", "--local", "--json", "--device-files", str(tmp_path)])
    assert json.loads(capsys.readouterr().out)[0]["uuid"] == "GPU-a"
