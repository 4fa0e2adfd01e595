"""Nodes of both runtimes for reconciliation, and hook servers."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from koord_proxy import reconciler

from tests.support.hook_server import HookServer
from tests.support.processes import PATIENCE
from tests.support.runtime_nodes import RuntimeNode


@pytest.fixture
def new_node(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> Iterator[Callable[[type[RuntimeNode]], RuntimeNode]]:
    """Makes a node on which the reconciler never waits long."""
    caplog.set_level(logging.INFO, "pykoord")
    monkeypatch.setattr(reconciler, "RETRY_SECONDS", 0.02)
    monkeypatch.setattr(reconciler, "LOOK_SECONDS", 0.02)
    monkeypatch.setattr(reconciler, "ADOPT_SECONDS", PATIENCE)
    nodes: list[RuntimeNode] = []

    def make(kind: type[RuntimeNode]) -> RuntimeNode:
        nodes.append(kind(tmp_path))  # type: ignore[call-arg, arg-type]
        return nodes[-1]

    yield make
    for node in nodes:
        node.store.close()


@pytest.fixture
def served(tmp_path: Path) -> Iterator[HookServer]:
    with HookServer(tmp_path, "a") as server:
        yield server


@pytest.fixture
def other(tmp_path: Path) -> Iterator[HookServer]:
    with HookServer(tmp_path, "b") as server:
        yield server
