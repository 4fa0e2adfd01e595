"""``koordctl events``."""

from __future__ import annotations

import datetime
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from koord_host.resource_executor.journal import ChangeEntry, Journal
from koord_service.status import MakePage, StatusPage, StatusServer, json_page
from koordctl.events import event_lines
from koordctl.koordlet_documents import EventRow
from koordctl.output.tables import plain
from koordlet.http_api.journal import JournalPages
from koordlet.http_api.routes import events_page

from tests.koordctl.conftest import Failing, Run

BATCH = "kubepods/besteffort/podb"


def keep(path: Path, *changes: ChangeEntry) -> None:
    journal = Journal(str(path), pytest.fail, max_bytes=100_000)
    for change in changes:
        journal.add(change)
        journal.flush()
    journal.close()


def change(number: int, pod: str = "shop/web", group: str = "kubepods/podw/c0ffee") -> ChangeEntry:
    time = f"2026-01-31T12:{number // 60 % 60:02}:{number % 60:02}.000Z"
    return ChangeEntry(time, "hooks", group, pod, "cpu.shares", None, number, f"why {number}")


@pytest.fixture
def journal(tmp_path: Path) -> Path:
    return tmp_path / "journal.jsonl"


@pytest.fixture
def changing(journal: Path, tmp_path: Path) -> Iterator[str]:
    """The address of one that keeps a journal."""
    server = StatusServer(
        f"unix://{tmp_path}/s", {"/events": events_page(JournalPages(str(journal)))}
    )
    server.start()
    yield server.address
    server.stop()


def reported(run: Run, address: str, *argv: str) -> list[str]:
    return run("events", "--address", address, *argv).splitlines()


def test_the_newest_first(changing: str, journal: Path, run: Run) -> None:
    assert reported(run, changing) == ["No events."]
    keep(journal, *map(change, range(30)))
    lines = reported(run, changing)
    assert lines[0].split() == ["TIME", "OBJECT", "WHAT", "CHANGE", "REASON"]
    assert len(lines) == 21
    assert lines[1].endswith("shop/web c0ffee  cpu.shares  – → 29  why 29")
    assert lines[20].endswith("– → 10  why 10")
    assert len(reported(run, changing, "-n", "3")) == 4
    assert len(reported(run, changing, "-n99")) == 31


def test_more_than_koordlet_gives_at_once(changing: str, journal: Path, run: Run) -> None:
    keep(journal, *map(change, range(2100)))
    lines = reported(run, changing, "-n", "2099")
    assert [line.rsplit(maxsplit=1)[1] for line in lines[1:]] == [
        str(number) for number in range(2099, 0, -1)
    ]
    found = json.loads("\n".join(reported(run, changing, "-n", "2099", "--json")))
    assert len(found["events"]) == 2099
    assert found["nextPageToken"]
    assert (found["events"][0]["reason"], found["events"][0]["why"]) == (
        "UpdateCgroups",
        "why 2099",
    )
    found = json.loads("\n".join(reported(run, changing, "-n", "5000", "--json")))
    assert (len(found["events"]), found["nextPageToken"]) == (2100, "")


def test_of_one_pod(changing: str, journal: Path, run: Run) -> None:
    keep(journal, change(1), change(2, "jobs/batch", BATCH), change(3))
    [_, line] = reported(run, changing, "--pod", "jobs/batch")
    assert line.split()[2] == "jobs/batch"
    assert reported(run, changing, "--pod=shop/cart") == ["No events of shop/cart."]


@pytest.mark.parametrize(
    ("page", "words"),
    [
        (events_page(None), "koordlet says: 404 /events: koordlet changes nothing on this node"),
        (
            lambda _: StatusPage(b"404 no such page", status=404),
            "answers /events?size=20 with 404; is",
        ),
        (
            lambda _: StatusPage(b"409 /events: gone\n", status=409),
            "koordlet says: 409 /events: gone",
        ),
        (lambda _: json_page({"events": []}), "does not answer /events?size=20 as koordlet does"),
    ],
    ids=["no journal", "no page", "gone", "somebody else"],
)
def test_no_events(failing: Failing, page: MakePage, words: str) -> None:
    server = StatusServer("127.0.0.1:0", {"/events": page})
    server.start()
    try:
        code, line = failing("events", "--address", server.address)
    finally:
        server.stop()
    assert code == 1
    assert words in line


def test_lines() -> None:
    events = [
        EventRow(
            created_at="2026-01-31T12:00:01.5Z",
            type="pod",
            namespace="shop",
            name="web",
            container="0123456789abcdef",
            knob="cpuset.cpus",
            old="0-3",
            new="x" * 50,
            why="share\npool\x1b[2J",
        ),
        EventRow(created_at="some day\n", type="group", name=BATCH, knob="cpu.idle", old="", new=1),
        EventRow(created_at="9999-12-31T23:59:59.9-23:00", type="node", knob="sysctl"),
        EventRow(),
        EventRow(
            type="group",
            name=BATCH,
            owner="cpu_suppress",
            aspect="cpuset",
            mode="shadow",
            outcome="four CPUs",
            message="shadow: four\nCPUs (a − b)",
        ),
        EventRow(
            type="pod",
            namespace="shop",
            name="web",
            container="main",
            owner="hooks",
            hook="PreCreateContainer",
            transport="NRI",
            message="cpu_shares 2 → 512 (p)",
        ),
    ]
    header, *rows = (line.split("  ") for line in plain(event_lines(events, zone=datetime.UTC)))
    cells = [[cell.strip() for cell in row if cell.strip()] for row in rows]
    assert header[0] == "TIME"
    assert cells == [
        [
            "2026-01-31 12:00:01",
            "shop/web 0123456789ab",
            "cpuset.cpus",
            f"0-3 → {'x' * 39}…",
            "share pool�[2J",
        ],
        ["some day", BATCH, "cpu.idle", '"" → 1'],
        ["9999-12-31T23:59:59.9-23:00", "node", "sysctl", "– → –"],
        ["–", "–", "– → –"],
        ["–", BATCH, "cpu_suppress (cpuset)", "decided", "shadow: four CPUs (a − b)"],
        ["–", "shop/web main", "PreCreateContainer", "answered (NRI)", "cpu_shares 2 → 512 (p)"],
    ]
