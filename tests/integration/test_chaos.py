"""A minute in which everything goes wrong; of any length by hand: ``make chaos MINUTES=…``."""

from __future__ import annotations

import os
import random

from tests.chaos.judgement import wrong
from tests.chaos.run import chaos

SECONDS = 60.0


def test_a_minute_of_chaos(capsys):
    # Another one each time; what went wrong is done again by its number.
    seed = int(os.environ.get("CHAOS_SEED") or random.randrange(1 << 32))
    report = chaos(SECONDS, seed)
    said = "\n".join(("", f"CHAOS_SEED={seed}", *report.lines()))
    with capsys.disabled():
        print(said)
    # A worker's print is seen by nobody.
    assert wrong(report) == [], said
