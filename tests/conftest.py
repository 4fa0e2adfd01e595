"""What every test may ask for, and which of them are of the whole."""

from pathlib import Path

import pytest

from tests.support.containerd import containerd
from tests.support.dockerd import dockerd

__all__ = ["containerd", "dockerd"]

_WHOLE = Path(__file__).parent / "integration"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.is_relative_to(_WHOLE):
            item.add_marker("integration")
