"""State outlives kill -9 and a failed database; a failed database stops nothing."""

from __future__ import annotations

import logging
import shutil
import sqlite3
import stat
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import ClassVar

import pytest
from koord_service import sqlite_state
from koord_service.logs import get_log
from koord_service.sqlite_state import Change, SqliteState, run_transaction

LARGE = "hunter2" * 10_000


class Numbers:
    """An owner: whole numbers by name."""

    schema: ClassVar[str] = (
        "CREATE TABLE IF NOT EXISTS numbers (name TEXT NOT NULL PRIMARY KEY, number BLOB NOT NULL)"
        " WITHOUT ROWID, STRICT"
    )
    corrupt: ClassVar[tuple[type[Exception], ...]] = (ValueError,)

    def __init__(self, path: str) -> None:
        self.known: dict[str, int] = {}
        self.state = SqliteState(path, self, get_log("tests.numbers"))
        self.state.open()

    def load(self, database: sqlite3.Connection) -> None:
        for name, number in database.execute("SELECT name, number FROM numbers"):
            self.known.setdefault(name, int(number))

    def reset(self) -> None:
        self.known.clear()

    def everything(self) -> Iterator[Change]:
        yield "DELETE FROM numbers", [()]
        yield _PUT, [(name, b"%d" % number) for name, number in self.known.items()]

    def put(self, name: str, number: int = 1, comment: str = "") -> None:
        self.known[name] = number
        self.state.apply((_PUT, [(name, b"%d" % number + b" " * len(comment))]))

    @property
    def database(self) -> sqlite3.Connection:
        found = self.state._database
        assert found is not None
        return found


_PUT = "INSERT OR REPLACE INTO numbers (name, number) VALUES (?, ?)"
Open = Callable[[str], Numbers]


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "state" / "state.db")


@pytest.fixture
def opened() -> Iterator[Open]:
    owners: list[Numbers] = []

    def open_numbers(path: str) -> Numbers:
        owners.append(Numbers(path))
        return owners[-1]

    yield open_numbers
    for owner in owners:
        owner.state.close()


@pytest.fixture
def numbers(path: str, opened: Open) -> Numbers:
    return opened(path)


@pytest.fixture
def killed(path: str, tmp_path: Path, opened: Open) -> Callable[[], Numbers]:
    """Opens what a kill -9 at this moment would leave."""
    copies = iter(range(100))

    def reopen() -> Numbers:
        to = tmp_path / f"copy{next(copies)}"
        to.mkdir()
        for file in Path(path).parent.glob("state.db*"):
            # Shared memory is made anew from the log.
            if not file.name.endswith("-shm"):
                shutil.copy(file, to)
        return opened(str(to / "state.db"))

    return reopen


class Clock:
    """``time.monotonic`` of the module under test."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 1000.0
        monkeypatch.setattr(sqlite_state.time, "monotonic", lambda: self.now)

    def retry(self) -> None:
        self.now += sqlite_state.RETRY_SECONDS


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


def fill(numbers: Numbers) -> None:
    """Let the database be as large as it is now, and no larger."""
    pages = numbers.database.execute("PRAGMA page_count").fetchone()[0]
    numbers.database.execute(f"PRAGMA max_page_count={pages}")


def unreachable(_: str) -> sqlite3.Connection:
    raise sqlite3.OperationalError("disk I/O error")


def test_changes_survive_a_kill(numbers: Numbers, killed: Callable[[], Numbers]) -> None:
    numbers.put("a", 1)
    numbers.put("a", 2)
    assert (numbers.state.problem, numbers.state.durable) == ("", True)
    assert killed().known == {"a": 2}


def test_without_a_path_there_is_no_database(opened: Open) -> None:
    numbers = opened("")
    numbers.put("a")
    numbers.state.checkpoint()
    numbers.state.close()
    assert (numbers.state.problem, numbers.state.durable) == ("", False)


def test_a_transaction_that_fails_is_undone(numbers: Numbers) -> None:
    with pytest.raises(sqlite3.OperationalError):
        run_transaction(numbers.database, [(_PUT, [("a", b"1")]), ("INSERT INTO none", [()])])
    numbers.put("b")
    assert numbers.database.execute("SELECT name FROM numbers").fetchall() == [("b",)]


def test_closed_twice_and_opened_again(path: str, opened: Open) -> None:
    Path(path).parent.mkdir()
    Path(path).touch(0o644)
    numbers = opened(path)
    numbers.put("a")
    # Nobody else may read it.
    modes = {stat.S_IMODE(file.stat().st_mode) for file in Path(path).parent.iterdir()}
    assert modes == {0o600}
    numbers.state.close()
    numbers.state.close()
    assert not Path(f"{path}-wal").exists()
    assert opened(path).known == {"a": 1}


def test_a_checkpoint_in_a_thread_shrinks_the_log(path: str, numbers: Numbers) -> None:
    for number in range(500):
        numbers.put(f"number {number}")
    empty = Path(path).stat().st_size
    thread = threading.Thread(target=numbers.state.checkpoint)
    thread.start()
    thread.join()
    assert Path(path).stat().st_size > empty
    size = Path(f"{path}-wal").stat().st_size
    for number in range(500):
        numbers.put(f"number {number}", 2)
    assert Path(f"{path}-wal").stat().st_size <= 2 * size
    assert numbers.state.problem == ""


def test_a_checkpoint_that_fails_is_no_problem(path: str, numbers: Numbers) -> None:
    shutil.rmtree(Path(path).parent)
    numbers.state.checkpoint()
    assert numbers.state.problem == ""


def _overwrite(path: Path, at: int, data: bytes) -> None:
    with path.open("r+b") as file:
        file.seek(at)
        file.write(data)


def _spoil_a_row(path: Path) -> None:
    database = sqlite3.connect(path)
    with database:
        # The last one: those before it are read first.
        last = "(SELECT max(name) FROM numbers)"
        database.execute(f"UPDATE numbers SET number = x'ff' WHERE name = {last}")
    database.close()


CORRUPTIONS: dict[str, Callable[[Path], object]] = {
    "not a database": lambda path: path.write_bytes(b"hello" * 1000),
    "a broken page": lambda path: _overwrite(path, 4096 + 2, b"\xff" * 3000),
    "a broken schema": lambda path: _overwrite(path, 100, b"\xff" * 500),
    "a row of somebody else": _spoil_a_row,
}


@pytest.mark.parametrize("what", CORRUPTIONS)
def test_a_corrupt_database_is_set_aside(
    path: str, opened: Open, what: str, caplog: pytest.LogCaptureFixture
) -> None:
    first = opened(path)
    for number in range(300):
        first.put(f"number {number}", number)
    first.state.close()
    CORRUPTIONS[what](Path(path))
    broken = Path(path).read_bytes()
    second = opened(path)
    [aside] = Path(path).parent.glob("state.db.corrupt-*")
    assert aside.read_bytes() == broken
    assert stat.S_IMODE(aside.stat().st_mode) == 0o600
    [event] = caplog.records
    assert (event.levelno, str(aside) in str(event.__dict__)) == (logging.ERROR, True)
    # The new database is as durable as the old one was.
    assert (second.known, second.state.problem) == ({}, "")
    second.put("new")
    second.state.close()
    assert opened(path).known == {"new": 1}


class TestProblem:
    def test_a_path_that_cannot_be(
        self, tmp_path: Path, opened: Open, clock: Clock, caplog: pytest.LogCaptureFixture
    ) -> None:
        (tmp_path / "file").touch()
        numbers = opened(f"{tmp_path}/file/state.db")
        assert numbers.state.problem.startswith(f"{tmp_path}/file/state.db: ")
        for number in range(3):
            clock.retry()
            numbers.put("a", number)
        # Logged once, not with every write.
        assert [record.levelno for record in caplog.records] == [logging.ERROR]
        (tmp_path / "file").unlink()
        clock.retry()
        numbers.put("b")
        assert (numbers.state.problem, numbers.state.durable) == ("", True)

    def test_a_directory_in_its_place(self, tmp_path: Path, opened: Open) -> None:
        assert "Is a directory" in opened(str(tmp_path)).state.problem
        assert list(tmp_path.iterdir()) == []

    def test_a_full_disk_and_then_room_again(
        self,
        numbers: Numbers,
        killed: Callable[[], Numbers],
        clock: Clock,
        caplog: pytest.LogCaptureFixture,
    ) -> None:
        caplog.set_level(logging.INFO, "pykoord")
        numbers.put("kept")
        fill(numbers)
        numbers.put("large", comment=LARGE)
        assert "full" in numbers.state.problem
        assert not numbers.state.durable
        # Nothing is half done, and what was written stays.
        assert killed().known == {"kept": 1}
        clock.now += sqlite_state.RETRY_SECONDS - 1
        numbers.put("a")
        assert killed().known == {"kept": 1}
        clock.now += 1
        numbers.put("b")
        assert numbers.state.problem == ""
        assert killed().known == {"kept": 1, "large": 1, "a": 1, "b": 1}
        assert [record.levelno for record in caplog.records] == [logging.ERROR, logging.INFO]
        assert "hunter2" not in str([record.__dict__ for record in caplog.records])

    def test_a_rewrite_that_fails_loses_nothing_on_the_disk(
        self,
        numbers: Numbers,
        killed: Callable[[], Numbers],
        clock: Clock,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        numbers.put("kept")
        connect = sqlite_state.connect

        def small(path: str) -> sqlite3.Connection:
            database = connect(path)
            database.execute("PRAGMA max_page_count=4")
            return database

        monkeypatch.setattr(sqlite_state, "connect", small)
        fill(numbers)
        numbers.put("large", comment=LARGE)
        numbers.known |= {f"{LARGE[:500]} {number}": number for number in range(100)}
        clock.retry()
        numbers.put("a")
        assert "full" in numbers.state.problem
        monkeypatch.undo()
        assert killed().known == {"kept": 1}

    @pytest.mark.parametrize("spoilt", [False, True])
    def test_what_could_not_be_read_at_the_start_is_not_lost(
        self, path: str, opened: Open, clock: Clock, monkeypatch: pytest.MonkeyPatch, spoilt: bool
    ) -> None:
        first = opened(path)
        first.put("a", 1)
        first.put("b", 1)
        first.state.close()
        if spoilt:
            _spoil_a_row(Path(path))
        with monkeypatch.context() as patched:
            patched.setattr(sqlite_state, "connect", unreachable)
            second = opened(path)
        assert "disk I/O error" in second.state.problem
        clock.retry()
        second.put("b", 2)
        if spoilt:
            assert "invalid literal" in second.state.problem
        else:  # what memory holds stands
            assert (second.state.problem, second.known) == ("", {"a": 1, "b": 2})

    def test_one_that_another_process_holds(
        self, path: str, opened: Open, clock: Clock, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        connect = sqlite3.connect
        monkeypatch.setattr(
            sqlite_state.sqlite3,
            "connect",
            lambda path, **more: connect(path, **{**more, "timeout": 0.01}),
        )
        first = opened(path)
        first.database.execute("PRAGMA locking_mode=EXCLUSIVE")
        first.put("a")
        second = opened(path)
        assert "database is locked" in second.state.problem
        first.state.close()
        clock.retry()
        second.put("b")
        assert (second.known, second.state.problem) == ({"a": 1, "b": 1}, "")
