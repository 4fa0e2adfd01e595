from pathlib import Path

import pytest
from koordlet.states_informer.rdma_devices import verbs


@pytest.fixture
def devices(tmp_path: Path) -> Path:
    made = tmp_path / "class/infiniband_verbs"
    made.mkdir(parents=True)
    return made


def add(devices: Path, name: str, address: str) -> None:
    """A device as sysfs shows it: a link to its PCI device."""
    pci = devices.parents[1] / "devices" / address
    pci.mkdir(parents=True)
    (devices / name).mkdir()
    (devices / name / "device").symlink_to(pci)


def test_devices_by_pci_address(devices: Path, tmp_path: Path) -> None:
    add(devices, "uverbs0", "0000:3b:00.2")
    add(devices, "uverbs1", "0000:3b:00.3")
    (devices / "abi_version").write_text("6\n")
    assert verbs(str(tmp_path)) == {"0000:3b:00.2": "uverbs0", "0000:3b:00.3": "uverbs1"}


def test_a_device_that_is_going_is_left_out(devices: Path, tmp_path: Path) -> None:
    (devices / "uverbs0").mkdir()
    add(devices, "uverbs1", "0000:3b:00.3")
    assert verbs(str(tmp_path)) == {"0000:3b:00.3": "uverbs1"}


def test_a_node_without_any(tmp_path: Path) -> None:
    assert verbs(str(tmp_path)) == {}
