"""A whole real cluster of one node, briefly; for longer by hand: ``make chaos-whole MINUTES=…``."""

from __future__ import annotations

import os
import random

import pytest

from tests.chaos_whole.kubernetes import why_not
from tests.chaos_whole.run import run

_WHY_NOT = why_not()
PODS = 10
OUTAGE_SECONDS = 5.0


@pytest.mark.containerd
@pytest.mark.skipif(_WHY_NOT is not None, reason=_WHY_NOT or "-")
def test_a_whole_cluster_is_right_and_right_again(capsys):
    seed = int(os.environ.get("CHAOS_SEED") or random.randrange(1 << 32))
    report = run(0.0, seed, pods=PODS, outage=OUTAGE_SECONDS)
    with capsys.disabled():
        print(f"\nSEED={seed}", *report.lines(), sep="\n")
    assert report.wrong == []
