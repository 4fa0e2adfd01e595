"""`make demo` as a newcomer runs it, with proxy and koordlet as real processes."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.support.containerd import requires_containerd
from tests.support.processes import PATIENCE

pytest.importorskip("koord_proxy.main")


def demo(runtime: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "koord_demo", "--runtime", runtime],
        check=False,
        capture_output=True,
        text=True,
        timeout=4 * PATIENCE,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def check(reported: str) -> None:
    rows = {line.split("  ")[0]: line.split() for line in reported.splitlines()}
    assert rows["cpu.shares"][1:3] == ["2", "512"]
    assert rows["cpu quota"][2:5] == ["no", "limit", "50000"]
    assert rows["memory limit"][2:5] == ["no", "limit", str(128 << 20)]
    assert "batch-cpu request 500 → cpu.shares 512" in reported
    assert "µs" in reported
    [seen] = [line for line in reported.splitlines() if line.startswith("CPU ")]
    assert "cores, requested" in seen


def test_embedded():
    check(demo("embedded"))


@requires_containerd
def test_containerd():
    check(demo("containerd"))
