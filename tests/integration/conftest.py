"""A node to test on: runtime, hook server, koordlet, proxy, each in its own process or thread."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.containerd import Containerd
from tests.support.cri import Cri
from tests.support.embedded import EmbeddedRuntime
from tests.support.hook_server import HookServer
from tests.support.proxy import Koordlet, Proxy


@pytest.fixture
def directory() -> Iterator[Path]:
    """A short path: it holds sockets."""
    with tempfile.TemporaryDirectory(prefix="pykoord-it-") as name:
        yield Path(name)


@pytest.fixture
def runtime(directory: Path) -> Iterator[EmbeddedRuntime]:
    with EmbeddedRuntime(directory) as instance:
        yield instance


@pytest.fixture
def hooks(directory: Path) -> Iterator[HookServer]:
    """A hook server that is not registered yet."""
    with HookServer(directory) as server:
        yield server


@pytest.fixture
def proxy(directory: Path, runtime: EmbeddedRuntime) -> Iterator[Proxy]:
    """A proxy in front of the embedded runtime."""
    with Proxy(directory, runtime.address, "--log-level=debug") as instance:
        yield instance
        assert_sound(instance)


@pytest.fixture
def cri(proxy: Proxy) -> Iterator[Cri]:
    """A kubelet at the proxy in front of the embedded runtime."""
    with proxy.cri() as client:
        yield client


@pytest.fixture
def koordlet(directory: Path) -> Iterator[Koordlet]:
    with Koordlet(directory, directory / "hookserver.d") as instance:
        yield instance


@pytest.fixture
def real_proxy(containerd: Containerd, directory: Path) -> Iterator[Proxy]:
    """A proxy in front of the real containerd; register hook servers before asking for it."""
    with Proxy(directory, containerd.address, "--log-level=debug") as instance:
        yield instance
        assert_sound(instance)
    containerd.remove_all_pods()


def assert_sound(proxy: Proxy) -> None:
    """No defect showed in the proxy's log."""
    # Shown by pytest if anything fails.
    print(proxy.said)
    assert "Traceback" not in proxy.said
    assert not [event for event in proxy.events() if "defect" in event["message"]]
