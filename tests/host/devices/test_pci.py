"""PCI addresses as drivers and sysfs spell them."""

from __future__ import annotations

import pytest
from koord_host.devices import pci


@pytest.mark.parametrize(
    ("spelled", "address"),
    [
        ("00000000:3B:00.0", "0000:3b:00.0"),
        ("0000:3b:00.0", "0000:3b:00.0"),
        ("00010000:01:00.0", "10000:01:00.0"),
        ("3B:00.0", "0000:3b:00.0"),
        ("garbage", "0000:garbage"),
        ("x:y:z", "0000:y:z"),
    ],
)
def test_addresses_are_spelled_as_sysfs_does(spelled: str, address: str) -> None:
    assert pci.address(spelled) == address


@pytest.mark.parametrize(
    ("name", "whether"),
    [
        ("0000:3b:00.0", True),
        ("10000:01:00.7", True),
        ("0000:3b:00.8", False),
        ("mlx5_core.sf.4", False),
        ("0000:3b:00.0\n", False),
        ("", False),
    ],
)
def test_names_that_are_addresses(name: str, whether: bool) -> None:
    assert pci.is_address(name) is whether
