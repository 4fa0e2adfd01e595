"""Tests that send Ctrl-C do not depend on how pytest was started."""

import subprocess
import sys

import pytest

SHOW = "import signal; print(signal.getsignal(signal.SIGINT) is signal.default_int_handler)"
BEGIN = f"""
import signal, subprocess, sys
signal.signal(signal.SIGINT, signal.{{start}})
from tests.support.processes import let_programs_hear_interrupts
let_programs_hear_interrupts()
signal.raise_signal(signal.SIGINT)
sys.exit(subprocess.run([sys.executable, "-c", {SHOW!r}]).returncode)
"""


def test_programs_hear_what_a_background_job_ignores() -> None:
    done = subprocess.run(
        [sys.executable, "-c", BEGIN.format(start="SIG_IGN")], capture_output=True, text=True
    )
    assert (done.returncode, done.stdout) == (0, "True\n"), done.stderr


@pytest.mark.parametrize("start", ["default_int_handler", "SIG_DFL"])
def test_a_job_in_the_foreground_can_be_interrupted(start: str) -> None:
    begin = [sys.executable, "-c", BEGIN.format(start=start)]
    assert subprocess.run(begin, capture_output=True).returncode != 0
