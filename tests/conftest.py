"""What every test may ask for, and which of them are of the whole."""

from pathlib import Path

import pytest
from hypothesis import HealthCheck
from hypothesis import settings as hypothesis_settings

from tests.support.containerd import containerd
from tests.support.dockerd import dockerd

__all__ = ["containerd", "dockerd"]

# Nothing is judged by how long it takes: what else the machine does is nobody's to say.
hypothesis_settings.register_profile(
    "searching", deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
# The same examples each time: a change is not judged by luck. Fresh ones are for ``make fuzz``.
hypothesis_settings.register_profile(
    "repeating", hypothesis_settings.get_profile("searching"), derandomize=True
)
hypothesis_settings.load_profile("searching")

_WHOLE = Path(__file__).parent / "integration"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.is_relative_to(_WHOLE):
            item.add_marker("integration")
        elif item.get_closest_marker("quiet"):
            raise pytest.UsageError(f"{item.nodeid}: what measures the machine is in {_WHOLE}")
