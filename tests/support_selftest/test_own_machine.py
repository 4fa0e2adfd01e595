"""A machine within this one: nothing of it is left, and it leaves this one as it is."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.support.own_machine import OwnMachine, why_not

_WHY_NOT = why_not()
pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(_WHY_NOT is not None, reason=_WHY_NOT or "-"),
]
SETTING = Path("/proc/sys/vm/overcommit_ratio")


def test_it_has_its_own_groups_and_leaves_nothing(tmp_path: Path) -> None:
    before = SETTING.read_text()
    with OwnMachine(tmp_path) as machine:
        said = subprocess.check_output(machine.inside(["cat", "/proc/self/cgroup"]), text=True)
        assert {line.rpartition(":")[2] for line in said.splitlines()} == {"/"}
        subprocess.check_call(machine.inside(["mkdir", "/sys/fs/cgroup/cpu/kubepods"]))
        assert (machine.group("cpu") / "kubepods").is_dir()
        change = machine.inside(["sh", "-c", f"echo 2 > {SETTING}"])
        assert subprocess.run(change, check=False, capture_output=True).returncode
        lives_on = subprocess.Popen(machine.inside(["sleep", "1000"]))
    assert lives_on.wait() != 0
    assert machine.leftovers() == []
    assert SETTING.read_text() == before
