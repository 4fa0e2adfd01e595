"""``koordctl defrag``: a plan for a snapshot."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.descheduler.clusters import node, pod
from tests.koordctl.conftest import Failing, Run


@pytest.fixture
def snapshot(tmp_path: Path) -> str:
    path = tmp_path / "cluster.json"
    items = [node("a"), node("b"), pod("small", "a", cpu="4"), pod("large", "b", cpu="4")]
    items.append(pod("waits", cpu="5", owner=None))
    path.write_text(json.dumps({"kind": "List", "items": items}))
    return str(path)


def test_moves_nodes_before_and_after_and_the_price(run: Run, snapshot: str) -> None:
    lines = run("defrag", "--plan", "--snapshot", snapshot).splitlines()
    assert lines[0] == "default/waits can start: default/waits on a"
    assert lines[3].split()[:3] == ["default/small", "a", "b"]
    free = ["cpu=4", "memory=15Gi", "pods=109"]
    assert lines[6].split() == ["a", *free, "cpu=3", "memory=15Gi", "pods=109"]
    assert lines[7].split() == ["b", *free, "cpu=0", "memory=14Gi", "pods=108"]
    assert lines[-1] == "Price: 1 pod moved, cost 1. Nothing was changed."


def test_nodes_to_be_emptied(run: Run, snapshot: str) -> None:
    text = run("defrag", "--plan", "--empty-nodes", "--snapshot", snapshot, "--json")
    assert json.loads(text)["notes"]["emptied"]["nodes"] == ["a"]


def test_why_no_moves_help(run: Run, snapshot: str, tmp_path: Path) -> None:
    path = tmp_path / "other.json"
    items = json.loads(Path(snapshot).read_text())["items"]
    items[4] = pod("waits", cpu="9", owner=None)
    path.write_text(json.dumps({"kind": "List", "items": items}))
    first = run("defrag", "--plan", "--snapshot", str(path)).splitlines()[0]
    assert first == "default/waits: at most 10 moves make no room for 1 of 1"


def test_a_number_of_moves_that_is_none_is_an_error(failing: Failing, snapshot: str) -> None:
    code, text = failing("defrag", "--plan", "--moves", "0", "--snapshot", snapshot)
    assert code == 1
    assert "maxMoves" in text
