"""The node's one life, for all tests that look at it."""

from __future__ import annotations

import dataclasses
import os
import platform
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.vm import base, expectations, machine, node_disk, recipe
from tools.release.prefix import PYTHON

Outcome = Callable[[str], Any]

GIVEN_UP = 70
"""The exit status where the node's life did not end: a second one would not either."""

_LIFE = pytest.StashKey[machine.Life]()


def why_not() -> str | None:
    """What keeps a node from being made and booted here; None where nothing does."""
    if os.geteuid() != 0:
        return "making the node's root directory needs root"
    if platform.machine() != "x86_64":
        return f"the node is an x86_64 one, this machine is {platform.machine()}"
    if f"python3.{sys.version_info.minor}" != PYTHON:
        return f"the package is for {PYTHON}, this is {sys.version.split()[0]}"
    missing = base.missing(machine.PROGRAMS)
    if missing:
        return f"not installed: {', '.join(missing)}"
    try:
        base.run("unshare", "--mount", "true")
    except RuntimeError:
        return "this machine's root may not mount"
    return None


@pytest.fixture(scope="session")
def life(request: pytest.FixtureRequest, pytestconfig: pytest.Config) -> machine.Life:
    """Everything the node said, from power on to off; what it wrote is kept until the next one.

    Only those parts of the scenario are played whose tests are to run: after a failure, not all.
    """
    reason = why_not()
    if reason is not None:
        pytest.skip(reason)
    names = {item.path.stem.removeprefix("test_") for item in request.session.items}
    word = f"{recipe.PARTS_WORD}={','.join(part for part in recipe.PARTS if part in names)}"
    lived = _live(word)
    if lived.frozen:
        lived = dataclasses.replace(_live(word), frozen=lived.frozen)
    pytestconfig.stash[_LIFE] = lived
    return lived


def _live(word: str) -> machine.Life:
    with tempfile.TemporaryDirectory(dir=base.cache(), prefix="disk-") as directory:
        disk = node_disk.make(Path(directory))
        return machine.live(disk, base.cache() / "console.log", word)


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Tell tests that failed from a node that had to be switched off."""
    lived = session.config.stash.get(_LIFE, None)
    if lived is not None and not lived.ended:
        session.exitstatus = GIVEN_UP


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    """Say what the node was, and how its steps went: a log of CI is all that stays."""
    lived = config.stash.get(_LIFE, None)
    if lived is None:
        return
    terminalreporter.section("node")
    if lived.frozen:
        terminalreporter.line(f"the emulator froze and was started again ({lived.frozen})")
    versions = lived.outcome("versions", {})
    for name in ("kernel", "systemd", "containerd", "runc", "pykoord"):
        terminalreporter.line(f"{name}: {versions.get(name, 'not known')}")
    docker = lived.outcome("docker_start", {}).get("info", {})
    terminalreporter.line(f"docker: {docker.get('ServerVersion', 'not known')}")
    steps = (f"{name} {line['seconds']} s" for name, line in lived.steps.items())
    terminalreporter.line(f"steps: {', '.join(steps)}")
    retries = lived.outcome("restarts", {}).get("retries", "not known")
    terminalreporter.line(f"calls cut off by restarts of the proxy, and made again: {retries}")
    for line in figures(lived):
        terminalreporter.line(line)
    terminalreporter.line(f"console: {lived.log}")


def figures(lived: machine.Life) -> Iterator[str]:
    """What koordlet measured, and what it cost."""
    use = lived.outcome("use")
    if use is None:
        return
    cost = use["cost"]
    yield (
        f"koordlet: started in {cost['start']:.1f} s, {cost['cores']:.3f} cores, "
        f"{cost['memory'] / (1 << 20):.0f} MiB"
    )
    for who, kind, reported, counted in expectations.figures(use):
        if reported is not None and counted is not None:
            off = reported / counted - 1
            yield f"{who} {kind}: {reported:.6g}, the kernel's {counted:.6g} ({off:+.2%})"


@pytest.fixture(scope="session")
def outcome(life: machine.Life) -> Outcome:
    """What came of a step of the scenario; one that failed fails the test."""

    def of(step: str) -> Any:
        line = life.steps.get(step)
        if line is None:
            pytest.fail(f"no {step} on the node; {life.log} ends:\n{life.console_end()}")
        if "error" in line:
            pytest.fail(f"{step} on the node:\n{line['error']}")
        return line["outcome"]

    return of
