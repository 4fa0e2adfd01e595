"""Records survive a kill, and trouble with the database stops nothing."""

from __future__ import annotations

import logging
import os
import shutil
import sqlite3
import stat
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from koord_proto import hook_pb2 as pb
from koord_proxy import store as store_module
from koord_proxy.rules.records import Kind, Missed, Record, identity
from koord_proxy.store import Store

MISSED = Missed("PreCreateContainer", "koordlet", "no answer within 2 s", 1700000000.5)


def pod(uid: str = "u", **more: Any) -> Record:
    facts = pb.PodSandboxHookRequest(
        pod_meta={"name": "job", "namespace": "batch", "uid": uid},
        labels={"app": "job"},
        cgroup_parent="/p",
    )
    return Record(Kind.POD, "", facts, **more)


def container(name: str = "main", sandbox: str = "s", **more: Any) -> Record:
    facts = pb.ContainerResourceHookRequest(
        pod_meta={"name": "job", "namespace": "batch", "uid": "u"},
        container_meta={"name": name},
        container_envs={"PASSWORD": "hunter2", "ODD": "ä\n\x00"},
        container_resources={"cpu_shares": 7, "cpuset_cpus": "0-3"},
        pod_cgroup_parent="/p",
    )
    return Record(Kind.CONTAINER, "", facts, sandbox, **more)


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "state" / "state.db")


@pytest.fixture
def opened() -> Iterator[Callable[[str], Store]]:
    """Opens stores, and closes them in the end."""
    stores: list[Store] = []

    def open_store(path: str) -> Store:
        stores.append(Store(path))
        return stores[-1]

    yield open_store
    for store in stores:
        store.close()


@pytest.fixture
def store(path: str, opened: Callable[[str], Store]) -> Store:
    return opened(path)


@pytest.fixture
def killed(path: str, tmp_path: Path, opened: Callable[[str], Store]) -> Callable[[], Store]:
    """Opens what a kill -9 at this moment would leave."""
    copies = iter(range(100))

    def reopen() -> Store:
        to = tmp_path / f"copy{next(copies)}"
        to.mkdir()
        for file in Path(path).parent.glob("state.db*"):
            # Shared memory is made anew from the log.
            if not file.name.endswith("-shm"):
                shutil.copy(file, to)
        return opened(str(to / "state.db"))

    return reopen


def everything(store: Store) -> dict[str, dict[str, Record]]:
    return {kind: {one.id: one for one in store.records(kind)} for kind in Kind}


class TestRecords:
    def test_nothing_is_known_at_first(self, store):
        assert store.trouble == ""
        assert everything(store) == {"pod": {}, "container": {}}
        assert store.get(Kind.POD, "s") is None

    def test_what_was_made_is_there_after_a_kill(self, store, killed):
        one = pod(missed=[MISSED])
        store.expect(one)
        store.made(one, "s")
        other = container()
        store.expect(other)
        store.made(other, "c")
        assert other.facts.container_meta.id == "c"
        assert store.get(Kind.CONTAINER, "c") is other
        again = killed()
        assert everything(again) == everything(store)
        assert again.get(Kind.POD, "s").missed == [MISSED]
        assert again.get(Kind.CONTAINER, "c").sandbox == "s"
        assert not again.left_over

    def test_what_was_changed_is_there_after_a_kill(self, store, killed):
        store.made(container(), "c")
        record = store.get(Kind.CONTAINER, "c")
        record.facts = pb.ContainerResourceHookRequest(container_envs={"A": "2"})
        record.missed = [MISSED, MISSED]
        store.put(record)
        assert everything(killed()) == everything(store)

    def test_what_is_gone_stays_gone(self, store, killed):
        for name in "ab":
            store.made(pod(name), name)
            store.made(container(sandbox=name), f"c{name}")
        store.drop(Kind.CONTAINER, "ca")
        store.drop(Kind.CONTAINER, "unknown")
        # A pod's containers leave with it, and only its own.
        store.drop(Kind.POD, "a")
        assert set(everything(store)["container"]) == {"cb"}
        assert everything(killed()) == everything(store)
        store.made(container("second", "b"), "d")
        store.drop(Kind.POD, "b")
        assert everything(store) == everything(killed()) == {"pod": {}, "container": {}}

    def test_containers_leave_with_a_pod_nobody_knows(self, store, killed):
        store.made(container(sandbox="s"), "c")
        store.drop(Kind.POD, "s")
        assert everything(killed()) == {"pod": {}, "container": {}}

    def test_a_close_and_an_open(self, store, path, opened):
        store.made(pod(), "s")
        store.close()
        store.close()
        assert not Path(f"{path}-wal").exists()
        assert everything(opened(path)) == everything(store)

    def test_in_memory_only(self, opened):
        store = opened("")
        assert store.trouble == "no database is configured: records do not survive a crash"
        record = pod()
        store.expect(record)
        store.made(record, "s")
        store.checkpoint()
        assert store.get(Kind.POD, "s") is record
        store.drop(Kind.POD, "s")
        assert store.records(Kind.POD) == []


class TestExpected:
    def test_it_is_no_record_before_it_is_made(self, store, killed):
        store.expect(container())
        assert store.records(Kind.CONTAINER) == []
        again = killed()
        assert again.records(Kind.CONTAINER) == []
        assert again.left_over

    @pytest.mark.parametrize("make", [pod, container])
    def test_it_came_while_we_were_away(self, store, killed, make):
        record = make(missed=[MISSED])
        store.expect(record)
        again = killed()
        key = identity(record.kind, record.facts, record.sandbox)
        assert again.came(key, "x")
        assert not again.came(key, "x")
        assert not again.left_over
        found = again.get(record.kind, "x")
        assert found.missed == [MISSED]
        if make is container:
            assert dict(found.facts.container_envs) == dict(record.facts.container_envs)
            assert found.facts.container_meta.id == "x"
        database = again._database
        assert database.execute("SELECT id, expected FROM records").fetchall() == [("x", 0)]

    def test_what_nobody_expected_did_not_come(self, store):
        assert not store.came("pod/u/0", "x")
        store.expect(pod())
        # One that is being made right now is not left over.
        assert not store.came("pod/u/0", "x")

    def test_the_rest_is_forgotten(self, store, killed):
        store.expect(pod())
        store.expect(container())
        again = killed()
        again.forget_left_over()
        assert not again.left_over
        assert again._database.execute("SELECT count(*) FROM records").fetchone() == (0,)

    def test_it_is_left_over_through_several_kills(self, path, store, killed, opened):
        store.expect(pod())
        once = killed()
        once.made(container(), "c")
        twice = opened(once._path)
        assert twice.left_over
        assert set(everything(twice)["container"]) == {"c"}

    def test_it_was_not_made(self, store, killed):
        record = container()
        store.expect(record)
        store.not_made(record)
        store.not_made(record)
        assert not killed().left_over

    def test_made_by_a_repeated_call_after_a_kill(self, store, killed):
        store.expect(container())
        again = killed()
        repeated = container()
        again.expect(repeated)
        again.made(repeated, "c")
        assert not again.left_over
        assert set(everything(again)["container"]) == {"c"}

    def test_one_left_over_stays_so_when_a_repeated_call_fails(self, store, killed, opened):
        store.expect(container(missed=[MISSED]))
        again = killed()
        repeated = container()
        again.expect(repeated)
        again.not_made(repeated)
        assert again.left_over
        last = opened(again._path)
        assert last.came("container/s/main/0", "c")
        assert last.get(Kind.CONTAINER, "c").missed == [MISSED]

    def test_the_same_name_in_two_pods(self, store, killed):
        for sandbox in "ab":
            store.expect(container(sandbox=sandbox))
        again = killed()
        assert again.came("container/a/main/0", "ca")
        assert again.left_over
        assert again.get(Kind.CONTAINER, "ca").sandbox == "a"


class TestFiles:
    def test_they_are_the_owners_only(self, path, opened):
        before = os.umask(0)
        try:
            opened(path).made(container(), "c")
        finally:
            os.umask(before)
        there = Path(path).parent.iterdir()
        modes = {file.name: stat.S_IMODE(file.stat().st_mode) for file in there}
        assert set(modes.values()) == {0o600}
        assert {"state.db", "state.db-wal"} <= set(modes)
        assert stat.S_IMODE(Path(path).parent.stat().st_mode) == 0o700

    def test_one_that_others_may_read_is_closed_to_them(self, path, opened):
        Path(path).parent.mkdir()
        sqlite3.connect(path).close()
        Path(path).touch()
        Path(path).chmod(0o644)
        opened(path)
        assert stat.S_IMODE(Path(path).stat().st_mode) == 0o600

    def test_the_log_is_written_back_in_a_thread(self, store, path):
        for number in range(50):
            store.made(container(), f"c{number}")
        empty = Path(path).stat().st_size
        thread = threading.Thread(target=store.checkpoint)
        thread.start()
        thread.join()
        assert Path(path).stat().st_size > empty
        # It is still written to, and the log does not grow for ever.
        size = Path(f"{path}-wal").stat().st_size
        for number in range(50):
            store.drop(Kind.CONTAINER, f"c{number}")
        assert Path(f"{path}-wal").stat().st_size <= 2 * size
        assert store.trouble == ""

    def test_a_checkpoint_that_fails_is_no_trouble(self, store, path):
        shutil.rmtree(Path(path).parent)
        store.checkpoint()
        assert store.trouble == ""


CORRUPTIONS: dict[str, Callable[[Path], object]] = {
    "no database": lambda path: path.write_bytes(b"hello" * 1000),
    "a page is broken": lambda path: _overwrite(path, 4096 + 2, b"\xff" * 3000),
    "the schema is broken": lambda path: _overwrite(path, 100, b"\xff" * 500),
    "facts are no message": lambda path: _execute(path, "UPDATE records SET facts = x'ffffff'"),
    "missed is no JSON": lambda path: _execute(path, "UPDATE records SET missed = '{'"),
    "missed is something else": lambda path: _execute(path, "UPDATE records SET missed = '[[1]]'"),
    "a kind nobody knows": lambda path: _execute(path, "UPDATE records SET kind = 'node'"),
}


def _overwrite(path: Path, at: int, data: bytes) -> None:
    with path.open("r+b") as file:
        file.seek(at)
        file.write(data)


def _execute(path: Path, statement: str) -> None:
    database = sqlite3.connect(path)
    with database:
        database.execute(statement)
    database.close()


class TestCorrupt:
    @pytest.mark.parametrize("what", CORRUPTIONS)
    def test_it_is_set_aside_and_a_new_one_begun(self, path, opened, what, caplog):
        first = opened(path)
        for number in range(30):
            first.made(container(), f"c{number}")
        first.expect(pod())
        first.close()
        CORRUPTIONS[what](Path(path))
        broken = Path(path).read_bytes()
        second = opened(path)
        assert everything(second) == {"pod": {}, "container": {}}
        assert not second.left_over
        [aside] = Path(path).parent.glob("state.db.corrupt-*")
        assert aside.read_bytes() == broken
        assert stat.S_IMODE(aside.stat().st_mode) == 0o600
        assert second.trouble.startswith(f"{path} was corrupt (")
        assert second.trouble.endswith(f") and is now {aside}; began a new one")
        [event] = caplog.records
        assert event.getMessage() == "state database was corrupt, began a new one"
        assert "hunter2" not in str(event.__dict__) + second.trouble
        second.made(container(), "new")
        second.close()
        third = opened(path)
        assert third.trouble == ""
        assert set(everything(third)["container"]) == {"new"}


def fail_writes(store: Store) -> None:
    """Let the database be as large as it is now, and no larger."""
    pages = store._database.execute("PRAGMA page_count").fetchone()[0]
    store._database.execute(f"PRAGMA max_page_count={pages}")


def _away(_: str) -> sqlite3.Connection:
    raise sqlite3.OperationalError("disk I/O error")


class TestTrouble:
    @pytest.fixture(autouse=True)
    def soon(self, monkeypatch):
        self.clock = 1000.0
        monkeypatch.setattr(store_module.time, "monotonic", lambda: self.clock)

    def test_a_path_that_cannot_be(self, tmp_path, opened, caplog):
        (tmp_path / "file").touch()
        store = opened(str(tmp_path / "file" / "state.db"))
        assert store.trouble.startswith(f"{tmp_path}/file/state.db: ")
        assert store.trouble.endswith("; records are kept in memory only")
        store.made(pod(), "s")
        assert store.get(Kind.POD, "s")
        for _ in range(3):
            self.clock += store_module.RETRY_SECONDS
            store.made(pod("v"), "t")
        # Said once, not with every write.
        assert [record.levelno for record in caplog.records] == [logging.ERROR]
        (tmp_path / "file").unlink()
        self.clock += store_module.RETRY_SECONDS
        store.made(pod("w"), "u")
        assert store.trouble == ""

    def test_a_directory_in_its_place(self, tmp_path, opened):
        store = opened(str(tmp_path))
        assert "Is a directory" in store.trouble
        assert tmp_path.is_dir()

    def test_a_full_disk_and_then_room_again(self, store, killed, caplog):
        caplog.set_level(logging.INFO, "pykoord")
        store.made(pod("kept"), "kept")
        store.made(pod("gone"), "gone")
        fail_writes(store)
        large = container()
        large.facts.container_envs["LARGE"] = "hunter2" * 10_000
        store.expect(large)
        assert store.trouble.endswith("database or disk is full; records are kept in memory only")
        store.made(large, "c")
        store.drop(Kind.POD, "gone")
        expected = container("later")
        store.expect(expected)
        assert set(everything(killed())["pod"]) == {"kept", "gone"}
        # Left alone for a while, then everything is written anew.
        self.clock += store_module.RETRY_SECONDS - 1
        store.made(pod("a"), "a")
        assert store.trouble != ""
        self.clock += 1
        store.made(pod("b"), "b")
        assert store.trouble == ""
        again = killed()
        assert everything(again) == everything(store)
        assert set(everything(again)["pod"]) == {"kept", "a", "b"}
        assert again.came("container/s/later/0", "d")
        assert [record.getMessage() for record in caplog.records] == [
            "state database cannot be used",
            "state database can be used again",
        ]
        assert "hunter2" not in str([record.__dict__ for record in caplog.records])

    def test_a_full_disk_that_stays_full(self, store):
        fail_writes(store)
        large = container()
        large.facts.container_envs["LARGE"] = "x" * 100_000
        store.made(large, "c")
        first = store.trouble
        assert first
        for _ in range(3):
            store.put(large)
        assert store.trouble == first
        assert store._database is None

    def test_what_is_on_the_disk_stays_there_while_it_is_full(self, store, killed, monkeypatch):
        store.made(pod(), "s")
        connect = store_module._connect

        def small(path: str) -> sqlite3.Connection:
            database = connect(path)
            database.execute("PRAGMA max_page_count=8")
            return database

        monkeypatch.setattr(store_module, "_connect", small)
        fail_writes(store)
        large = container()
        large.facts.container_envs["LARGE"] = "x" * 100_000
        store.made(large, "c")
        self.clock += store_module.RETRY_SECONDS
        store.put(large)
        assert "full" in store.trouble
        monkeypatch.undo()
        assert set(everything(killed())["pod"]) == {"s"}

    def test_a_row_that_makes_no_sense_when_it_is_read_late(self, path, opened, monkeypatch):
        opened(path).close()
        _execute(Path(path), "INSERT INTO records VALUES ('node', 'x', 0, '', x'', '')")
        with monkeypatch.context() as patched:
            patched.setattr(store_module, "_connect", _away)
            store = opened(path)
        self.clock += store_module.RETRY_SECONDS
        store.made(pod(), "s")
        assert "node" in store.trouble

    def test_a_write_that_fails_leaves_nothing_half_done(self, store, killed):
        store.made(pod(), "s")
        fail_writes(store)
        large = container()
        large.facts.container_envs["LARGE"] = "x" * 100_000
        store.made(large, "c")
        assert everything(killed())["container"] == {}
        assert set(everything(killed())["pod"]) == {"s"}

    def test_one_that_somebody_else_holds(self, path, opened, monkeypatch):
        first = opened(path)
        first.made(pod("first"), "first")
        connect = sqlite3.connect
        monkeypatch.setattr(
            store_module.sqlite3,
            "connect",
            lambda path, **more: connect(path, **{**more, "timeout": 0.01}),
        )
        first._database.execute("PRAGMA locking_mode=EXCLUSIVE")
        first.made(pod("second"), "second")
        second = opened(path)
        assert "database is locked" in second.trouble
        first.close()
        self.clock += store_module.RETRY_SECONDS
        second.made(pod("third"), "third")
        assert second.trouble == ""
        assert set(everything(second)["pod"]) == {"first", "second", "third"}

    def test_left_over_is_written_anew_too(self, store, killed):
        store.expect(pod())
        again = killed()
        fail_writes(again)
        large = container()
        large.facts.container_envs["LARGE"] = "x" * 100_000
        again.made(large, "c")
        self.clock += store_module.RETRY_SECONDS
        again.put(large)
        assert again.trouble == ""
        rows = again._database.execute("SELECT id FROM records WHERE expected = 1").fetchall()
        assert rows == [("pod/u/0",)]

    def test_records_not_read_at_the_start_are_not_lost(self, path, opened, monkeypatch):
        first = opened(path)
        first.made(pod("first"), "first")
        first.close()
        with monkeypatch.context() as patched:
            patched.setattr(store_module, "_connect", _away)
            second = opened(path)
        assert "disk I/O error" in second.trouble
        self.clock += store_module.RETRY_SECONDS
        second.made(pod("second"), "second")
        assert second.trouble == ""
        assert set(everything(second)["pod"]) == {"first", "second"}
