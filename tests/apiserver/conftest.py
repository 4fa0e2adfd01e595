"""One API server for each module of tests, with our definitions and deploy/ in it."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.apiserver.real_cluster import RealCluster
from tests.support.kube_apiserver import KubeApiserver, why_not
from tests.support.network import OwnNetwork

_HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    reason = why_not()
    for item in items:
        if item.path.is_relative_to(_HERE):
            item.add_marker("integration")
            item.add_marker(pytest.mark.skipif(reason is not None, reason=reason or "-"))


@pytest.fixture(scope="module")
def server() -> Iterator[KubeApiserver]:
    """One with nothing of ours."""
    with (
        tempfile.TemporaryDirectory(prefix="pykoord-k8s-") as name,
        OwnNetwork() as own,
        KubeApiserver(Path(name), own) as serving,
    ):
        yield serving


@pytest.fixture(scope="module")
def installed(server: KubeApiserver) -> RealCluster:
    """What deploy/README.md installs."""
    made = RealCluster(server)
    made.install()
    return made


@pytest.fixture
def cluster(installed: RealCluster) -> Iterator[RealCluster]:
    """With managers that end with the test, and that found no defect in themselves."""
    yield installed
    managers, installed.managers = installed.managers, []
    for one in managers:
        one.close()
    installed.forget_managers()
    for one in managers:
        print(f"---- {one.name}\n{one.said[-4000:]}")
    for one in managers:
        assert "Traceback" not in one.said
        assert "forbidden" not in one.said.lower()
