import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from koord_host.originals import InUseError, Original, Originals
from koord_host.wishes import Target

A, B = Target("a", "cpu.shares"), Target("b", "cpu.shares")
FOUND = [Original(A, 1, "1024\n", 5.0), Original(B, 2, None, 6.0, "ours\n")]

Open = Callable[..., Originals]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state" / "originals.db"


@pytest.fixture
def told() -> list[str]:
    return []


@pytest.fixture
def reopen(path: Path, told: list[str]) -> Iterator[Open]:
    """Opens the database; what was open before is closed."""
    opened: list[Originals] = []

    def again(boot: str = "boot") -> Originals:
        for one in opened:
            one.close()
        opened.append(Originals(str(path), told.append, boot=boot))
        return opened[-1]

    yield again
    for one in opened:
        one.close()


def test_remembered_across_a_restart(reopen: Open, path: Path, told: list[str]) -> None:
    reopen().remember_many(FOUND)
    again = reopen()
    assert again.all() == FOUND
    assert len(again) == 2
    assert told == []
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700


def test_what_needs_to_be_remembered(reopen: Open) -> None:
    originals = reopen()
    originals.remember_many(FOUND)
    assert not originals.needs(A, 1)
    assert originals.needs(A, 9)
    assert originals.needs(Target("c", "cpu.shares"), 1)
    originals.remember_many([Original(A, 9, "7\n", 8.0)])
    assert reopen().all()[0].text == "7\n"


def test_what_we_wrote(reopen: Open) -> None:
    originals = reopen()
    originals.remember_many(FOUND)
    originals.wrote_many([(A, "512\n"), (Target("c", "cpu.shares"), "1\n")])
    assert [one.ours for one in reopen().all()] == ["512\n", "ours\n"]


def test_forgotten(reopen: Open) -> None:
    originals = reopen()
    originals.remember_many(FOUND)
    originals.forget_gone(lambda known: known.identity == 2)
    assert reopen().all() == FOUND[1:]
    reopen().forget_many([B, A])
    assert len(reopen()) == 0


def test_after_a_reboot_nothing_is_left(reopen: Open) -> None:
    reopen().remember_many(FOUND)
    assert len(reopen("another boot")) == 0
    assert len(reopen("another boot")) == 0


def test_one_at_a_time(reopen: Open, path: Path) -> None:
    reopen()
    with pytest.raises(InUseError, match="is locked: another process writes to this node"):
        Originals(str(path), print)


def test_a_corrupt_database_is_set_aside(reopen: Open, path: Path, told: list[str]) -> None:
    path.parent.mkdir()
    path.write_bytes(b"this is no database" * 1000)
    originals = reopen()
    assert "was corrupt" in told[0]
    assert originals.trouble == told[0]
    originals.remember_many(FOUND)
    assert reopen().all() == FOUND
    assert len(list(path.parent.glob("*.corrupt-*"))) == 1


def test_where_no_database_can_be(tmp_path: Path, told: list[str]) -> None:
    (tmp_path / "file").write_text("")
    originals = Originals(str(tmp_path / "file" / "originals.db"), told.append)
    originals.remember_many(FOUND)
    originals.wrote_many([(A, "512\n")])
    assert originals.all()[0].ours == "512\n"
    assert "originals are kept in memory only" in told[0]
    originals.close()


def test_a_database_that_breaks_while_open(
    reopen: Open, told: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    originals = reopen()

    class Broken:
        def execute(self, _: str) -> None:
            raise sqlite3.OperationalError("disk I/O error")

        def close(self) -> None:
            raise sqlite3.OperationalError("disk I/O error")

    assert originals._database is not None
    originals._database.close()
    monkeypatch.setattr(originals, "_database", Broken())
    originals.remember_many(FOUND)
    originals.remember_many(FOUND)
    assert len(told) == 1
    assert "disk I/O error" in told[0]
    assert len(originals) == 2


def test_in_memory_only(told: list[str]) -> None:
    originals = Originals("", told.append)
    originals.remember_many(FOUND)
    originals.close()
    assert told == []


def test_shared_cache_groups_are_known_after_a_restart_but_not_after_a_reboot(
    reopen: Open,
) -> None:
    originals = reopen()
    assert originals.cache_groups == frozenset()
    originals.keep_cache_groups({"LS", "BE"})
    originals.keep_cache_groups({"BE"})
    assert reopen().cache_groups == {"BE"}
    assert reopen("another boot").cache_groups == frozenset()


def test_cache_groups_are_written_once_the_database_takes_something_again(reopen: Open) -> None:
    originals = reopen()
    assert originals._database is not None
    originals._database.execute("PRAGMA query_only = ON")
    originals.keep_cache_groups({"BE"})
    originals._database.execute("PRAGMA query_only = OFF")
    originals.remember_many(FOUND)
    assert reopen().cache_groups == {"BE"}
