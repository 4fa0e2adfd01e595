from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from koord_host.planning.desired_values import Target
from koord_host.resource_executor.baselines import BaselineStore, BaselineValue
from koord_service import sqlite_state
from koord_service.sqlite_state import InUseError

A, B, C = (Target(name, "cpu.shares") for name in "abc")
FOUND = [BaselineValue(A, 1, "1024\n", 5.0), BaselineValue(B, 2, None, 6.0, "ours\n")]

Open = Callable[..., BaselineStore]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state" / "originals.db"


@pytest.fixture
def reopen(path: Path) -> Iterator[Open]:
    """Opens the database; what was open before is closed."""
    opened: list[BaselineStore] = []

    def again(boot: str = "boot") -> BaselineStore:
        for one in opened:
            one.close()
        opened.append(BaselineStore(str(path), boot=boot))
        return opened[-1]

    yield again
    for one in opened:
        one.close()


def test_remembered_across_a_restart(reopen: Open, path: Path) -> None:
    reopen().remember(FOUND)
    again = reopen()
    assert again.all() == FOUND
    assert len(again) == 2
    assert again.problem == ""
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700


def test_what_needs_to_be_remembered_and_what_we_wrote(reopen: Open) -> None:
    baselines = reopen()
    baselines.remember(FOUND)
    assert not baselines.needs(A, 1)
    assert baselines.needs(A, 9)
    assert baselines.needs(Target("c", "cpu.shares"), 1)
    baselines.record_writes([(A, "512\n"), (Target("c", "cpu.shares"), "1\n")])
    assert [one.ours for one in reopen().all()] == ["512\n", "ours\n"]
    reopen().remember([BaselineValue(A, 9, "7\n", 8.0)])
    assert reopen().all()[0].text == "7\n"


def test_forgotten(reopen: Open) -> None:
    baselines = reopen()
    baselines.remember(FOUND)
    baselines.forget_gone(lambda known: known.identity == 2)
    assert reopen().all() == FOUND[1:]
    reopen().forget([B, A])
    assert len(reopen()) == 0


def test_after_a_reboot_nothing_is_left(reopen: Open) -> None:
    reopen().remember(FOUND)
    assert len(reopen("another boot")) == 0
    assert len(reopen("another boot")) == 0


def test_what_was_put_back_to_is_known_after_a_restart_but_not_after_a_reboot(reopen: Open) -> None:
    baselines = reopen()
    baselines.remember(FOUND)
    baselines.note_put_back(FOUND)
    baselines.forget([A, B])
    again = reopen()
    assert (again.all(), again.put_back) == ([], {A: FOUND[0], B: FOUND[1]})
    again.forget_put_back([A, C])
    assert reopen().put_back == {B: FOUND[1]}
    assert reopen("another").put_back == {}


def test_one_at_a_time(reopen: Open, path: Path) -> None:
    reopen()
    with pytest.raises(InUseError, match="is locked: another process uses this database"):
        BaselineStore(str(path))


def test_a_corrupt_database_is_set_aside(reopen: Open, path: Path) -> None:
    path.parent.mkdir()
    path.write_bytes(b"this is no database" * 1000)
    baselines = reopen()
    assert "was corrupt" in baselines.problem
    baselines.remember(FOUND)
    assert reopen().all() == FOUND
    assert len(list(path.parent.glob("*.corrupt-*"))) == 1


def test_where_no_database_can_be(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    baselines = BaselineStore(str(tmp_path / "file" / "originals.db"))
    baselines.remember(FOUND)
    baselines.record_writes([(A, "512\n")])
    assert baselines.all()[0].ours == "512\n"
    assert "records are kept in memory only" in baselines.problem
    baselines.close()


def test_shared_cache_groups_are_known_after_a_restart_but_not_after_a_reboot(reopen: Open) -> None:
    baselines = reopen()
    assert baselines.cache_groups == frozenset()
    baselines.keep_cache_groups({"LS", "BE"})
    baselines.keep_cache_groups({"BE"})
    assert reopen().cache_groups == {"BE"}
    assert reopen("another boot").cache_groups == frozenset()


def test_all_is_written_once_the_database_takes_something_again(
    reopen: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    baselines = reopen()
    baselines.remember(FOUND, [(A, "3")])
    baselines = reopen()  # killed before it said what it wrote: A may hold 3 for ever
    monkeypatch.setattr(sqlite_state, "RETRY_SECONDS", 0.0)
    database = baselines._state._database
    assert database is not None
    database.execute("PRAGMA query_only = ON")
    baselines.keep_cache_groups({"BE"})
    assert "readonly" in baselines.problem
    baselines.remember([BaselineValue(C, 7, "1\n", 8.0)], [(C, "2")])
    assert baselines.problem == ""
    again = reopen()
    assert again.cache_groups == {"BE"}
    assert {one.target: one.pending for one in again.all()} == {A: ("3",), B: (), C: ("2",)}
    assert len(reopen("another boot")) == 0


def test_cache_groups_and_originals_are_kept_by_different_threads(reopen: Open) -> None:
    baselines = reopen()

    def keep(number: int) -> None:
        if number % 2:
            baselines.keep_cache_groups({f"g{number}"})
        else:
            target = Target(f"p{number}", "cpu.shares")
            baselines.remember([BaselineValue(target, 1, "1024\n", 5.0)])

    with ThreadPoolExecutor(2) as threads:
        list(threads.map(keep, range(600)))
    assert baselines.problem == ""
    again = reopen()
    assert (len(again.cache_groups), len(again)) == (1, 300)


def test_a_process_keeps_what_was_found_of_its_number_if_it_is_the_one(reopen: Open) -> None:
    baselines = reopen()
    known = [
        BaselineValue(Target(str(pid), "oom_score_adj"), 35, "7\n", 5.0, "9\n") for pid in (1, 2)
    ]
    baselines.remember(known)
    same, other = (
        Target(f"pod/c {pid}@{start}", "oom_score_adj") for pid, start in ((1, 35), (2, 36))
    )
    baselines.remember([BaselineValue(same, 35, "9\n", 6.0), BaselineValue(other, 36, "0\n", 6.0)])
    assert {one.target: one.text for one in reopen().all()} == {
        same: "7\n",
        other: "0\n",
        known[1].target: "7\n",
    }
