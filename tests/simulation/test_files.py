from __future__ import annotations

import gzip
from pathlib import Path

import pytest
from koord_simulation.files import ScenarioError, load, strategies

from tests.simulation.node_model.test_workload import TRACE


def test_a_trace_is_looked_for_beside_its_scenario(tmp_path: Path) -> None:
    (tmp_path / "plain.yaml").write_text("trace: day.csv")
    (tmp_path / "packed.yaml").write_text("trace: day.csv.gz")
    (tmp_path / "day.csv").write_text(TRACE)
    (tmp_path / "day.csv.gz").write_bytes(gzip.compress(TRACE.encode()))
    for name in ("plain", "packed"):
        assert len(load(tmp_path / f"{name}.yaml").scenario.pods) == 2


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("a: [", "while parsing"),
        ("colour: red", "is not a field"),
        ("trace: gone.csv", "gone.csv: No such file"),
        ("trace: bad.csv", "trace bad.csv: line 1"),
        ("trace: bad.gz", "trace bad.gz: Unknown compression"),
    ],
)
def test_what_cannot_be_loaded_is_one_line(text: str, says: str, tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(text)
    (tmp_path / "bad.csv").write_text("nonsense")
    (tmp_path / "bad.gz").write_bytes(b"\x1f\x8bnonsense")
    with pytest.raises(ScenarioError, match=says) as error:
        load(tmp_path / "a.yaml")
    assert "\n" not in str(error.value)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ScenarioError, match="No such file"):
        load(tmp_path / "a.yaml")


def test_strategies_are_found_by_their_names() -> None:
    [found] = strategies(["cpu_suppress"])
    assert (found.name, found.interval) == ("cpu_suppress", 1.0)
    with pytest.raises(ScenarioError, match=r"no strategy magic; there are .*cpu_suppress"):
        strategies(["magic"])
