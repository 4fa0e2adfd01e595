"""The test double of cgroupfs against this machine's kernel: same writes, same answers."""

from __future__ import annotations

import os
from itertools import count
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support import kernel_rules, kernel_writes
from tests.support.kernel_rules import Bench, PlainFiles
from tests.support.kernel_rules_table import Case, Step

ROOT = "/sys/fs/cgroup"
_numbers = count()


def _version() -> int:
    """Which version has the controllers here, or 0."""
    if os.geteuid() != 0 or not os.access(ROOT, os.W_OK):
        return 0
    if all(Path(ROOT, one, "tasks").exists() for one in kernel_rules.V1_SUBSYSTEMS):
        return 1
    controllers = Path(ROOT, "cgroup.controllers")
    wanted = set(kernel_rules.V2_CONTROLLERS.replace("+", "").split())
    return 2 if controllers.exists() and wanted <= set(controllers.read_text().split()) else 0


VERSION = _version()
pytestmark = [
    pytest.mark.skipif(not VERSION, reason="needs root and cgroupfs with its controllers"),
    pytest.mark.skipif((os.cpu_count() or 1) < 2, reason="needs two CPUs"),
]


def _base() -> str:
    return f"pykoord-test-{os.getpid()}-{next(_numbers)}"


@pytest.mark.parametrize("case", kernel_rules.cases(VERSION), ids=lambda case: case.name)
def test_kernel_answers_as_the_table_says(case: Case) -> None:
    bench = Bench(PlainFiles(), VERSION, ROOT, _base())
    try:
        with kernel_rules.sleeper() as pid:
            bench.make(case.groups)
            assert kernel_rules.differences(bench, case, pid) == []
    finally:
        bench.remove()


@st.composite
def _steps(draw: st.DrawFn) -> Step:
    file = draw(st.sampled_from(sorted(kernel_writes.WRITES[VERSION])))
    text = draw(st.sampled_from(kernel_writes.WRITES[VERSION][file]))
    return kernel_writes.step(draw(st.sampled_from(kernel_writes.GROUPS)), file, text)


@settings(max_examples=60)
@given(steps=st.lists(_steps(), min_size=5, max_size=40))
def test_double_does_what_the_kernel_does_in_any_order(steps: list[Step]) -> None:
    assert kernel_writes.compare(VERSION, ROOT, _base(), steps) == []
