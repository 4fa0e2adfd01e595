"""/events: the journal of changes, page by page."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from koord_hooks.stages import Stage
from koord_host.resource_executor.journal import (
    ChangeEntry,
    DecisionEntry,
    Event,
    Journal,
)
from koord_service.status import Query, QueryError, StatusPage
from koordctl.status_client import KOORDLET, ask
from koordlet.agent.agent import Agent
from koordlet.http_api import journal as events
from koordlet.http_api.journal import (
    EventPage,
    EventSearch,
    JournalLine,
    JournalPages,
    LinePosition,
    TokenError,
    lines_backwards,
    of_pod,
    page_of,
)
from koordlet.http_api.routes import events_page
from msgspec.structs import asdict

from tests.support.node import NodeFixture
from tests.support.node.pods import JOB
from tests.support.processes import PATIENCE


def change(number: int, pod: str = "shop/web", why: str = "") -> ChangeEntry:
    time = f"2026-01-31T12:00:{number % 60:02}.000Z"
    return ChangeEntry(time, "hooks", "kubepods/podu1", pod, "cpu.shares", number, None, why)


class Book:
    """A journal of small files, and the numbers it should hold."""

    def __init__(self, directory: Path, max_bytes: int = 1000) -> None:
        self.path = str(directory / "j")
        self._journal = Journal(self.path, self._fail, max_bytes=max_bytes)
        self._numbers = count()

    def write(self, how_many: int, pod: str = "shop/web") -> None:
        for _ in range(how_many):
            self._journal.add(change(next(self._numbers), pod))
            self._journal.flush()

    def files(self) -> int:
        return len(list(Path(self.path).parent.iterdir()))

    @staticmethod
    def _fail(problem: str) -> None:
        raise AssertionError(problem)


@pytest.fixture
def book(tmp_path: Path) -> Book:
    return Book(tmp_path)


def numbers(page: EventPage) -> list[Any]:
    return [one.old for one in page.events]


def all_numbers(path: str, size: int, token: str = "", pod: str = "") -> list[Any]:
    """Page after page, until there are no more."""
    found = []
    while True:
        page = JournalPages(path).read(size, token, of_pod(pod) if pod else None)
        assert len(page.events) <= size
        found += numbers(page)
        assert len(found) < 1000, "pages go round in a circle"
        if not page.next_token:
            return found
        token = page.next_token


@pytest.mark.parametrize("size", [1, 2, 7, 2048])
def test_pages_over_rotated_files(book: Book, size: int) -> None:
    book.write(40)
    assert book.files() == 5
    found = all_numbers(book.path, size)
    assert len(found) > 20, "five files of a few lines"
    assert found == [*range(39, -1, -1)][: len(found)]
    assert JournalPages(book.path).read(len(found)).next_token == "", "no more"


def test_a_journal_that_is_empty_or_not_there(tmp_path: Path) -> None:
    (tmp_path / "empty").touch()
    for name in ("none", "empty"):
        assert JournalPages(f"{tmp_path}/{name}").read(5) == EventPage(())


def test_of_one_pod(book: Book) -> None:
    for pod in ("shop/web", "shop/db", "", "shop/web"):
        book.write(1, pod)
    assert all_numbers(book.path, 1, pod="shop/web") == [3, 0]
    assert all_numbers(book.path, 9, pod="shop/we") == []


@pytest.mark.parametrize("written", [0, 1, 5, 9])
def test_pages_go_on_where_they_were_while_the_journal_is_written(book: Book, written: int) -> None:
    """Also where the marked file has another name by now."""
    book.write(11)
    first = JournalPages(book.path).read(4)
    assert numbers(first) == [10, 9, 8, 7]
    book.write(written)
    assert all_numbers(book.path, 2, first.next_token) == [6, 5, 4, 3, 2, 1, 0]


def test_pages_whose_file_is_gone(book: Book) -> None:
    book.write(11)
    token = JournalPages(book.path).read(4).next_token
    book.write(50)
    made_up = [f"{Path(book.path).stat().st_ino:x}-{at}-00000000" for at in ("0", "5", "f" * 15)]
    for gone in (token, *made_up):
        with pytest.raises(TokenError, match="is gone with the oldest changes; begin without it"):
            JournalPages(book.path).read(4, gone)


def test_a_file_that_has_the_number_of_one_gone(book: Book) -> None:
    """File systems give a removed file's inode to the next new one."""
    book.write(5)
    token = JournalPages(book.path).read(2).next_token
    other = "".join(f'{{"time":"{number}"}}\n' for number in range(500))
    Path(book.path).write_text(other)
    with pytest.raises(TokenError, match="is gone"):
        JournalPages(book.path).read(2, token)


def test_rotation_between_opening_two_files(book: Book, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first file is met again under its next name; the one not opened yet is not missed."""
    book.write(11)
    opened = os.open

    def rotated_meanwhile(name: str, flags: int, mode: int = 0) -> int:
        descriptor = opened(name, flags, mode)
        if name == book.path and not flags & os.O_CREAT:
            book.write(6)
        return descriptor

    monkeypatch.setattr(os, "open", rotated_meanwhile)
    files = book.files()
    found = numbers(JournalPages(book.path).read(99))
    assert book.files() > files
    assert 10 <= found[0] < 16, "what came after the rotation is for the next to ask"
    assert found == [*range(found[0], -1, -1)]


def test_a_name_that_is_free_halfway_through_a_rotation(book: Book) -> None:
    book.write(15)
    wanted = all_numbers(book.path, 99)
    assert book.files() == 3
    Path(f"{book.path}.2").rename(f"{book.path}.3")
    assert all_numbers(book.path, 99) == wanted
    Path(f"{book.path}.1").rename(f"{book.path}.2")
    assert all_numbers(book.path, 99) == wanted
    Path(book.path).rename(f"{book.path}.1")
    assert all_numbers(book.path, 99) == wanted


@pytest.mark.parametrize("tail", [b'{"time":"2026', b"\xff", b"{"])
def test_a_torn_last_line(book: Book, tail: bytes) -> None:
    book.write(3)
    with Path(book.path).open("ab") as file:
        file.write(tail)
    assert numbers(JournalPages(book.path).read(1)) == [2]
    # A crash's half line stays in the journal, as a line that is none.
    Book(Path(book.path).parent).write(1)
    assert all_numbers(book.path, 1) == [0, 2, 1, 0]


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"[]",
        b'{"time":1}',
        b"\xff\xfe",
        b"\x00" * 99,
        b'{"x":' + b"[" * 60_000,
        b"[" * 70_000,
        b'"' + b"x" * 3_000_000 + b'"',
        json.dumps({"time": "now", "why": "x" * 70_000}).encode(),
    ],
    ids=lambda line: f"{line[:9]!r} {len(line)}",
)
def test_lines_that_are_none_are_passed_over(tmp_path: Path, line: bytes) -> None:
    book = Book(tmp_path, max_bytes=1 << 30)
    book.write(2)
    with Path(book.path).open("ab") as file:
        file.write(line + b"\n")
    book.write(2)
    assert all_numbers(book.path, 1) == [3, 2, 1, 0]
    assert all_numbers(book.path, 3) == [3, 2, 1, 0]


def test_a_huge_line_is_never_held() -> None:
    most = 0

    def read(offset: int, length: int) -> bytes:
        nonlocal most
        most = max(most, length)
        return text[offset : offset + length]

    text = b"first\n" + b"x" * 1_000_000 + b"\nlast\n"
    found = list(lines_backwards(read, len(text)))
    assert found == [(1_000_007, b"last"), (0, b"first")]
    assert most <= 1 << 16
    assert list(lines_backwards(read, len(text) + 9)) == [], "somebody has cut the file"


def test_a_page_looks_at_so_many_lines_and_no_more() -> None:
    """A pod that nothing was done for costs no walk through the whole journal at once."""
    text = json.dumps({**asdict(change(1)), "pod": "shop/db"}).encode()
    looked = count()
    lines = (JournalLine(7, next(looked), text) for _ in range(100_000))
    page = page_of(lines, 5, of_pod("shop/web"))
    assert page.events == ()
    assert LinePosition.parse(page.next_token).offset == events.MOST_LINES - 1
    assert next(looked) == events.MOST_LINES + 1


def test_a_search_of_a_whole_journal_decodes_what_it_is_for_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = Journal(f"{tmp_path}/j", pytest.fail)
    few = [change(number, "shop/db") for number in range(3)]
    for number in range(5):
        for one in [*few[number : number + 1], *[change(7, why="x" * 100)] * 16_000]:
            kept.add(one)
        kept.flush()
    kept.close()
    size = sum(file.stat().st_size for file in tmp_path.iterdir())
    decoded: list[bytes] = []
    read: list[int] = []
    decode, pread = events.journal.decode, os.pread

    def count_decoded(text: bytes) -> Event | None:
        decoded.append(text)
        return decode(text)

    def count_read(descriptor: int, length: int, offset: int) -> bytes:
        read.append(length)
        return pread(descriptor, length, offset)

    monkeypatch.setattr(events.journal, "decode", count_decoded)
    monkeypatch.setattr(events.os, "pread", count_read)
    pages = JournalPages(f"{tmp_path}/j")
    assert pages.read(20, search=of_pod("shop/nobody")) == EventPage(())
    assert decoded == []
    assert sum(read) <= size
    assert pages.read(20, search=of_pod("shop/db")).events == tuple(reversed(few))
    assert len(decoded) == 3


def test_few_search_at_a_time(book: Book, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events, "WAIT_SECONDS", 0.01)
    pages = JournalPages(book.path)
    refused: list[QueryError] = []

    def wanted(_: Event) -> bool:
        # Inside of one, there is room for a second one, and for no third.
        def nested(_: Event) -> bool:
            with pytest.raises(QueryError, match=r"busy.* ask again") as error:
                events_page(pages)(Query())
            refused.append(error.value)
            return True

        assert len(pages.read(1, search=EventSearch((b"shop",), nested)).events) == 1
        return True

    book.write(2)
    assert len(pages.read(1, search=EventSearch((b"shop",), wanted)).events) == 1
    assert {one.status for one in refused} == {503}
    # Each turn was given back.
    for _ in range(events.AT_ONCE + 1):
        assert pages.read(1).events


LINES = st.binary(max_size=40).map(lambda one: one.replace(b"\n", b""))


@given(
    lines=st.lists(LINES, max_size=30),
    tail=LINES,
    block=st.integers(1, 50),
    longest=st.integers(1, 50),
    texts=st.lists(st.binary(max_size=2).map(lambda one: one.replace(b"\n", b"")), max_size=3),
)
def test_backwards_is_forwards_reversed_and_a_search_finds_the_lines_with_its_texts(
    lines: list[bytes], tail: bytes, block: int, longest: int, texts: list[bytes]
) -> None:
    text = b"".join(line + b"\n" for line in lines) + tail
    read = lambda at, length: text[at : at + length]  # noqa: E731
    search = EventSearch(tuple(texts), lambda _: True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(events, "_BLOCK", block)
        patch.setattr(events, "_LONGEST", longest)
        every = list(lines_backwards(read, len(text)))
        found = list(lines_backwards(read, len(text), search))
    assert [line for _, line in every[::-1]] == [line for line in lines if len(line) <= longest]
    for offset, line in every:
        assert text[offset:].startswith(line + b"\n")
        assert offset == 0 or text[offset - 1 : offset] == b"\n"
    assert found == [one for one in every if any(part in one[1] for part in texts)]


@given(
    steps=st.lists(st.tuples(st.integers(0, 4), st.integers(1, 6)), min_size=1, max_size=12),
    size=st.integers(250, 900),
    garbage=st.sampled_from([b"", b"\n", b"no change\n"]),
)
def test_each_event_once_and_the_newest_first(
    tmp_path_factory: pytest.TempPathFactory,
    steps: list[tuple[int, int]],
    size: int,
    garbage: bytes,
) -> None:
    """Writing and rotating between pages of any size changes nothing of what they give."""
    book = Book(tmp_path_factory.mktemp("journal"), max_bytes=size)
    book.write(8)
    held = all_numbers(book.path, 2048)
    with Path(book.path).open("ab") as file:
        file.write(garbage)
    given, token = [], ""
    for written, wanted in steps:
        try:
            page = JournalPages(book.path).read(wanted, token)
        except TokenError:
            break
        given += numbers(page)
        token = page.next_token
        if not token:
            removed = set(held) - set(all_numbers(book.path, 2048))
            assert set(held) - set(given) <= removed
            break
        book.write(written)
    assert given == held[: len(given)]


@given(st.integers(0, 2**64 - 1), st.integers(0, 2**60 - 1), st.integers(0, 2**32 - 1))
def test_a_mark_is_its_token(inode: int, offset: int, checksum: int) -> None:
    mark = LinePosition(inode, offset, checksum)
    assert LinePosition.parse(str(mark)) == mark


@pytest.mark.parametrize(
    "token",
    [
        *("x", "1-2", "1-2-3", "-1-2-00000003", "1-2-00000003 ", "1-2-00000003\n", "1-2-000000G3"),
        *("1" * 17 + "-2-00000003", "1-" + "f" * 16 + "-00000003", "١-2-00000003", "\udc80"),
    ],
)
def test_what_is_no_token(book: Book, token: str) -> None:
    book.write(1)
    with pytest.raises(TokenError, match='"pageToken" is not one that a page gave'):
        JournalPages(book.path).read(1, token)


def test_changes_and_decisions_on_a_page(tmp_path: Path) -> None:
    journal = Journal(f"{tmp_path}/j", Book._fail)
    decision = DecisionEntry("t", "cpu_suppress", "on", "four CPUs", pod="shop/db")
    for event in (change(1), decision, change(2, "shop/db")):
        journal.add(event)
    journal.close()
    page = events_page(JournalPages(f"{tmp_path}/j"))
    for query, owners in (
        ("", ["hooks", "cpu_suppress", "hooks"]),
        ("pod=shop/db", ["hooks", "cpu_suppress"]),
    ):
        found = json.loads(page(Query.parse(query, "application/json")).body)
        assert [one["owner"] for one in found["Events"]] == owners


def get(book: Book, query: str = "", accept: str = "application/json") -> StatusPage:
    return events_page(JournalPages(book.path))(Query.parse(query, accept))


def test_as_json(tmp_path: Path) -> None:
    book = Book(tmp_path, max_bytes=1 << 20)
    book.write(300)
    assert len(json.loads(get(book).body)["Events"]) == 256
    assert len(json.loads(get(book, "size=2048").body)["Events"]) == 300
    found = json.loads(get(book, "size=2").body)
    assert list(found) == ["NextPageToken", "Events"]
    assert [one["old"] for one in found["Events"]] == [299, 298]
    found = json.loads(get(book, f"size=999&pageToken={found['NextPageToken']}").body)
    assert found["Events"][0]["old"] == 297
    assert found["NextPageToken"] == ""


def test_as_lines_of_text(book: Book) -> None:
    book.write(3)
    page = get(book, "size=2", "text/html, */*")
    assert page.content_type == "text/plain; charset=utf-8"
    assert [json.loads(line)["old"] for line in page.body.splitlines()] == [2, 1]
    page = get(book, f"pageToken={page.headers['Next-Page-Token']}", "")
    assert [json.loads(line)["old"] for line in page.body.splitlines()] == [0]
    assert page.headers == {}


def test_hostile_text(tmp_path: Path) -> None:
    why = 'a\nb\r\x1b[2J\u2028\x85 \x00 "</script> \U0001f600'
    path = tmp_path / "j"
    fields = {**asdict(change(1)), "why": why, "old": 10**30, "pod": "a/b/c\n"}
    path.write_text(json.dumps(fields) + "\n")
    for accept in ("", "application/json"):
        page = events_page(JournalPages(str(path)))(Query.parse("", accept))
        document = json.loads(page.body)
        found = document["Events"][0] if accept else document
        assert (found["why"], found["old"], found["name"]) == (why, 10**30, "c\n")
        assert page.body.count(b"\n") == 1 or accept
        assert not any(byte < 32 and byte != 10 for byte in page.body)


@pytest.mark.parametrize(
    ("query", "status", "words"),
    [
        ("size=0", 400, 'parameter "size" is "0"; expected 1 to 2048'),
        ("size=2049", 400, 'parameter "size" is "2049"'),
        ("size=-1", 400, 'parameter "size" is "-1"'),
        ("size=" + "9" * 5000, 400, 'parameter "size" is "9'),
        ("size=many", 400, 'parameter "size" is "many"'),
        ("pageToken=moon", 409, '"pageToken" is not one that a page gave'),
        ("pageToken=1-2-00000003", 409, "is gone with the oldest"),
    ],
)
def test_what_cannot_be_asked(book: Book, query: str, status: int, words: str) -> None:
    book.write(2)
    with pytest.raises(QueryError, match=words) as refused:
        get(book, query)
    assert refused.value.status == status
    with pytest.raises(QueryError, match="changes nothing on this node and keeps no ") as refused:
        events_page(None)(Query.parse(query))
    assert refused.value.status == 404


async def test_a_koordlet_shows_what_it_did(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It serves the very file that it writes."""
    node = NodeFixture(tmp_path)
    node.start(JOB)
    monkeypatch.setattr("os.geteuid", lambda: 0)
    places = {
        "runtime_hooks_addr": str(tmp_path / "k.sock"),
        "runtime_hooks_config_path": str(tmp_path),
        "runtime_hooks_nri_socket_path": str(tmp_path / "nri.sock"),
        "collect_res_used_interval": 0.0,
    }
    agent = Agent(node.settings(**places), node.files)
    assert agent._node is not None
    reconcile_loop = agent._node.reconcile_loop
    found: dict[str, Any] = {}
    async with asyncio.timeout(PATIENCE), asyncio.TaskGroup() as group:
        serving = group.create_task(agent.serve())
        while not (tmp_path / "koordlet.json").exists():
            await asyncio.sleep(0.01)
        reconcile_loop.saw(Stage.POST_START_CONTAINER, JOB.container(node.layout))
        while not found.get("Events"):
            await asyncio.sleep(0.01)
            body = await asyncio.to_thread(ask, f"{tmp_path}/status.sock", "/events", KOORDLET)
            found = json.loads(body)
        os.kill(os.getpid(), signal.SIGTERM)
        await serving
    assert {(one["namespace"], one["name"]) for one in found["Events"]} == {("shop", "job")}
    assert "cpu.cfs_quota_us" in {one["knob"] for one in found["Events"]}
