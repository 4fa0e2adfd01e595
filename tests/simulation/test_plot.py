from __future__ import annotations

from pathlib import Path

import pytest
from koord_simulation.files import ScenarioError
from koord_simulation.plot import plot
from koord_simulation.run.record import EvictionLine
from koord_simulation.run.simulation import simulate

from tests.simulation.stories import job, story, web


def test_a_picture_is_drawn(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    run = simulate(story(web(), job(leak=9 << 30)))
    assert run.kills
    run.evictions.append(EvictionLine(5, "default/job", "one", "rule", "why"))
    plot(run, tmp_path / "a.png")
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")
    with pytest.raises(ScenarioError, match=r"nowhere/a.png: No such file"):
        plot(simulate(story()), tmp_path / "nowhere" / "a.png")
