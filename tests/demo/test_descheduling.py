"""`make demo-descheduler`: nodes cool down, and every pod says why it moved or stays."""

from __future__ import annotations

import re
import subprocess
import sys
from random import Random

from koord_demo.descheduler_cluster import DemoLoad
from koord_demo.descheduling import HIGH, cool_down
from koord_descheduler.program.history import RoundHistory
from rich.console import Console

from tests.support.processes import PATIENCE


def test_as_it_is_started() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "koord_demo.descheduling"],
        check=False,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    assert done.returncode == 0, done.stderr
    assert "PodDisruptionBudget ledger allows no disruption now" in done.stdout
    assert "didn't match Pod's node affinity/selector" in done.stdout
    assert " was moved at " in done.stdout
    assert re.search(r"^  gpu-1 +cpu=26 ", done.stdout, re.M), "a table as koordctl shows it"


def test_no_node_is_hot_in_the_end_and_no_pod_moved_twice() -> None:
    load, history = DemoLoad(12, Random(1)), RoundHistory()
    assert max(load.used().values()) * 100 > HIGH
    _, moved = cool_down(Console(quiet=True), load, history)
    assert max(load.used().values()) * 100 <= HIGH
    assert moved == len(list(history.results()))
