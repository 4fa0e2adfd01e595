"""Records survive a kill, and problem with the database stops nothing."""

from __future__ import annotations

import contextlib
import logging
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from koord_proto import hook_pb2 as pb
from koord_proxy.rules.records import MissedHookCall, RecordKind, RuntimeRecord, identity
from koord_proxy.store import RecordStore
from koord_service import sqlite_state

MISSED = MissedHookCall("PreCreateContainer", "koordlet", "no answer within 2 s", 1700000000.5)


def pod(uid: str = "u", **more: Any) -> RuntimeRecord:
    hook_request = pb.PodSandboxHookRequest(
        pod_meta={"name": "job", "namespace": "batch", "uid": uid},
        labels={"app": "job"},
        cgroup_parent="/p",
    )
    return RuntimeRecord(RecordKind.POD, "", hook_request, **more)


def container(name: str = "main", sandbox: str = "s", **more: Any) -> RuntimeRecord:
    hook_request = pb.ContainerResourceHookRequest(
        pod_meta={"name": "job", "namespace": "batch", "uid": "u"},
        container_meta={"name": name},
        container_envs={"PASSWORD": "hunter2", "ODD": "ä\n\x00"},
        container_resources={"cpu_shares": 7, "cpuset_cpus": "0-3"},
        pod_cgroup_parent="/p",
    )
    return RuntimeRecord(RecordKind.CONTAINER, "", hook_request, sandbox, **more)


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "state" / "state.db")


@pytest.fixture
def opened() -> Iterator[Callable[[str], RecordStore]]:
    """Opens stores, and closes them in the end."""
    stores: list[RecordStore] = []

    def open_store(path: str) -> RecordStore:
        stores.append(RecordStore(path))
        return stores[-1]

    yield open_store
    for store in stores:
        store.close()


@pytest.fixture
def store(path: str, opened: Callable[[str], RecordStore]) -> RecordStore:
    return opened(path)


@pytest.fixture
def killed(
    path: str, tmp_path: Path, opened: Callable[[str], RecordStore]
) -> Callable[[], RecordStore]:
    """Opens what a kill -9 at this moment would leave."""
    copies = iter(range(100))

    def reopen() -> RecordStore:
        to = tmp_path / f"copy{next(copies)}"
        to.mkdir()
        for file in Path(path).parent.glob("state.db*"):
            # Shared memory is made anew from the log.
            if not file.name.endswith("-shm"):
                shutil.copy(file, to)
        return opened(str(to / "state.db"))

    return reopen


def everything(store: RecordStore) -> dict[str, dict[str, RuntimeRecord]]:
    return {kind: {one.id: one for one in store.records(kind)} for kind in RecordKind}


class TestRecords:
    def test_nothing_is_known_at_first(self, store):
        assert store.problem == ""
        assert everything(store) == {"pod": {}, "container": {}}
        assert store.get(RecordKind.POD, "s") is None

    def test_what_was_made_is_there_after_a_kill(self, store, killed):
        one = pod(missed=[MISSED])
        store.expect(one)
        store.made(one, "s")
        other = container()
        store.expect(other)
        store.made(other, "c")
        assert other.hook_request.container_meta.id == "c"
        assert store.get(RecordKind.CONTAINER, "c") is other
        again = killed()
        assert everything(again) == everything(store)
        assert again.get(RecordKind.POD, "s").missed == [MISSED]
        assert again.get(RecordKind.CONTAINER, "c").sandbox == "s"
        assert not again.left_over
        # And so is what was changed.
        other.hook_request = pb.ContainerResourceHookRequest(container_envs={"A": "2"})
        other.missed = [MISSED, MISSED]
        store.put(other)
        assert everything(killed()) == everything(store)

    def test_what_is_gone_stays_gone(self, store, killed):
        for name in "ab":
            store.made(pod(name), name)
            store.made(container(sandbox=name), f"c{name}")
        store.drop(RecordKind.CONTAINER, "ca")
        store.drop(RecordKind.CONTAINER, "unknown")
        # A pod's containers leave with it, and only its own.
        store.drop(RecordKind.POD, "a")
        assert set(everything(store)["container"]) == {"cb"}
        assert everything(killed()) == everything(store)
        # Even with one nobody knows.
        store.made(container("second", "c"), "d")
        for name in "bc":
            store.drop(RecordKind.POD, name)
        assert everything(store) == everything(killed()) == {"pod": {}, "container": {}}

    def test_in_memory_only(self, opened):
        store = opened("")
        assert store.problem == "no database is configured: records do not survive a crash"
        record = pod()
        store.expect(record)
        store.made(record, "s")
        store.checkpoint()
        assert store.get(RecordKind.POD, "s") is record
        store.drop(RecordKind.POD, "s")
        assert store.records(RecordKind.POD) == []


class TestExpected:
    @pytest.mark.parametrize("make", [pod, container])
    def test_it_came_while_we_were_away(self, store, killed, make):
        record = make(missed=[MISSED])
        store.expect(record)
        again = killed()
        # It is no record before it is made.
        assert store.records(record.kind) == again.records(record.kind) == []
        assert again.left_over
        key = identity(record.kind, record.hook_request, record.sandbox)
        assert again.came(key, "x")
        assert not again.came(key, "x")
        assert not again.left_over
        found = again.get(record.kind, "x")
        assert found.missed == [MISSED]
        if make is container:
            assert dict(found.hook_request.container_envs) == dict(
                record.hook_request.container_envs
            )
            assert found.hook_request.container_meta.id == "x"
        assert rows(again) == [("x", 0)]

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
        assert rows(again) == []

    def test_it_is_left_over_through_several_kills(self, store, killed, opened):
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

    @pytest.mark.parametrize("made", [True, False])
    def test_a_repeated_call_after_a_kill(self, store, killed, opened, made):
        store.expect(container(missed=[MISSED]))
        again, repeated = killed(), container()
        again.expect(repeated)
        if made:
            again.made(repeated, "c")
            assert not again.left_over
            assert set(everything(again)["container"]) == {"c"}
            return
        again.not_made(repeated)
        assert again.left_over
        last = opened(again._path)
        assert last.came("container/s/main/0", "c")
        assert last.get(RecordKind.CONTAINER, "c").missed == [MISSED]

    def test_the_same_name_in_two_pods(self, store, killed):
        for sandbox in "ab":
            store.expect(container(sandbox=sandbox))
        again = killed()
        assert again.came("container/a/main/0", "ca")
        assert again.left_over
        assert again.get(RecordKind.CONTAINER, "ca").sandbox == "a"


def rows(store: RecordStore) -> list[Any]:
    return store._state._database.execute("SELECT id, expected FROM records").fetchall()


@pytest.mark.parametrize(
    "change", ["facts = x'ffffff'", "missed = '{'", "missed = '[[1]]'", "kind = 'node'"]
)
def test_records_begin_anew_where_they_are_corrupt(path, opened, change, caplog):
    store = opened(path)
    store.register({"a": b"1"})
    for name in "cd":
        store.made(container(name), name)
    store.expect(container("later"))
    store.close()
    with contextlib.closing(sqlite3.connect(path)) as spoilt:
        spoilt.execute(f"UPDATE records SET {change} WHERE id = 'd'")
        spoilt.commit()
    store = opened(path)
    assert everything(store) == {"pod": {}, "container": {}}
    assert (store.left_over, store.problem) == (False, "")
    [event] = caplog.records
    assert "hunter2" not in str(event.__dict__)
    store.made(container(), "new")
    store.close()
    again = opened(path)
    assert set(everything(again)["container"]) == {"new"}
    # Registrations survive.
    assert again.registrations == {"a": b"1"}


def test_a_full_disk_and_then_room_again(store, killed, caplog, monkeypatch):
    clock = 1000.0
    monkeypatch.setattr(sqlite_state.time, "monotonic", lambda: clock)
    caplog.set_level(logging.INFO, "pykoord")
    store.expect(pod("before"))
    store = killed()
    for name in ("kept", "gone"):
        store.made(pod(name), name)
    # Let the database be as large as it is now, and no larger.
    database = store._state._database
    pages = database.execute("PRAGMA page_count").fetchone()[0]
    database.execute(f"PRAGMA max_page_count={pages}")
    large = container()
    large.hook_request.container_envs["LARGE"] = "hunter2" * 10_000
    store.expect(large)
    assert store.problem.endswith("database or disk is full; records are kept in memory only")
    store.made(large, "c")
    store.drop(RecordKind.POD, "gone")
    store.expect(container("later"))
    # Left alone for a while, then everything is written anew.
    clock += sqlite_state.RETRY_SECONDS
    store.made(pod("a"), "a")
    assert store.problem == ""
    assert sorted(rows(store)) == [
        ("a", 0),
        ("c", 0),
        ("container/s/later/0", 1),
        ("kept", 0),
        ("pod/before/0", 1),
    ]
    assert len(caplog.records) == 2
    assert "hunter2" not in str([record.__dict__ for record in caplog.records])


class TestRegistrations:
    def test_they_outlive_a_kill(self, store, killed):
        store.register({"a": b"1", "b": b"2"})
        store.register({"a": b"3"})
        assert killed().registrations == store.registrations == {"a": b"3", "b": b"2"}
        assert store.deregister(["b", "unknown"])
        assert killed().registrations == {"a": b"3"}

    def test_a_database_of_the_release_before_is_taken_over(self, path, opened):
        Path(path).parent.mkdir()
        with contextlib.closing(sqlite3.connect(path)) as before:
            before.execute(
                "CREATE TABLE records (kind TEXT NOT NULL, id TEXT NOT NULL,"
                " expected INTEGER NOT NULL, sandbox TEXT NOT NULL, facts BLOB NOT NULL,"
                " missed TEXT NOT NULL, PRIMARY KEY (kind, id, expected)) WITHOUT ROWID, STRICT"
            )
            hook_request = container().hook_request.SerializeToString()
            before.execute(
                "INSERT INTO records VALUES ('container', 'c', 0, 's', ?, '')", (hook_request,)
            )
            before.commit()
        store = opened(path)
        assert store.problem == ""
        assert store.get(RecordKind.CONTAINER, "c").hook_request == container().hook_request
        assert store.registrations == {}
        store.register({"a": b"1"})
        store.close()
        again = opened(path)
        assert again.registrations == {"a": b"1"}
        assert again.get(RecordKind.CONTAINER, "c") is not None

    def test_what_could_not_be_written_is_written_later(self, path, opened, monkeypatch):
        monkeypatch.setattr(sqlite_state, "RETRY_SECONDS", 0.0)
        store = opened(path)
        store.register({"a": b"1", "b": b"2"})
        store._state._give_up(sqlite3.OperationalError("disk full"))
        assert not store.deregister(["b"]) or store.durable
        store.register({"c": b"3"})
        assert store.durable
        store.close()
        assert opened(path).registrations == {"a": b"1", "c": b"3"}

    def test_whether_a_server_stays_forgotten(self, path, opened):
        assert opened("").deregister(["a"])
        store = opened(path)
        store.register({"a": b"1"})
        store._state._give_up(sqlite3.OperationalError("disk full"))
        assert not store.deregister(["a"])
