"""Registration files on a real file system, as they come, change and go."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import shutil
from collections.abc import Callable, Collection
from pathlib import Path

import pytest
from koord_proxy import hook_directory
from koord_proxy.hook_directory import HookDirectory
from koord_proxy.rules.registration import HookServerRegistration
from koord_proxy.store import RecordStore

from tests.support.waiting import until

NEWS = "a.json: /run/x.sock is asked about PreCreateContainer"


def text(**more: object) -> str:
    hooks = ["PreCreateContainer"]
    return json.dumps({"remote-endpoint": "/run/x.sock", "runtime-hooks": hooks, **more})


class Seen:
    """A directory of registrations, and what it has reported."""

    def __init__(self, path: Path, store: RecordStore) -> None:
        self.path = path
        self.used: list[list[str]] = []
        self.touched: list[set[str]] = []
        self.store = store
        self.directory = HookDirectory(str(path), self._use, self._touched, store)

    def _use(self, servers: list[HookServerRegistration]) -> None:
        self.used.append([server.name for server in servers])

    def _touched(self, names: Collection[str]) -> None:
        self.touched.append(set(names))

    def write(self, name: str, content: str | None = None) -> Path:
        self.path.mkdir(parents=True, exist_ok=True)
        file = self.path / name
        file.write_text(text() if content is None else content)
        return file

    def read(self) -> list[str]:
        """Read the directory; the servers in use."""
        self.directory.read()
        return self.used[-1]

    def look(self) -> list[str]:
        """Read it if something changed; the servers in use."""
        self.directory.look()
        return self.used[-1]


@pytest.fixture
def seen(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> Seen:
    caplog.set_level(logging.DEBUG, "pykoord")
    return Seen(tmp_path / "etc" / "hookserver.d", RecordStore(""))


@pytest.fixture
def lines(caplog: pytest.LogCaptureFixture) -> Callable[[], list[str]]:
    """What was logged since the last time, except for what only developers see."""

    def said() -> list[str]:
        found = [r.getMessage() for r in caplog.records if r.levelno > logging.DEBUG]
        caplog.clear()
        return found

    return said


@pytest.fixture
def registered(seen: Seen, lines: Callable[[], list[str]]) -> Seen:
    """With ``a`` in use."""
    seen.directory.read()
    seen.write("a.json")
    seen.directory.look()
    seen.touched.clear()
    lines()
    return seen


class TestRead:
    def test_the_directory_is_made(self, seen, lines):
        assert seen.read() == []
        assert seen.path.is_dir()
        assert lines() == []

    def test_only_what_ends_in_json_and_is_a_file(self, seen, lines):
        for name in ("a.json", ".hidden.json", "b.json.swp", "c.yaml", "json"):
            seen.write(name)
        (seen.path / "d.json").mkdir()
        (seen.path / "e.json").symlink_to("nowhere")
        (seen.path / "f.json").symlink_to("f.json")
        (seen.path / "link.json").symlink_to("c.yaml")
        # What would be read for ever is left alone.
        os.mkfifo(seen.path / "fifo.json")
        (seen.path / "zero.json").symlink_to("/dev/zero")
        assert seen.read() == ["a", "link"]
        assert lines()[-2:] == [NEWS, NEWS.replace("a.json", "link.json")]

    def test_a_name_that_is_no_text_can_be_shown(self, seen):
        seen.write(os.fsdecode(b"\xff.json"))
        assert seen.read() == ["\ufffd"]

    def test_a_huge_file_is_read_in_part(self, seen, lines):
        os.truncate(seen.write("a.json"), 1 << 40)
        assert seen.read() == []
        assert "is not valid" in lines()[0]

    def test_it_is_reported_only_when_something_changed(self, seen, lines):
        assert seen.read() == []
        file = seen.write("a.json")
        for _ in range(3):
            seen.read()
        assert lines() == [NEWS]
        file.write_text("{")
        seen.read()
        assert len(lines()) == 1
        file.unlink()
        seen.read()
        assert seen.used == [[], ["a"]]
        (seen.path / "a.removed").touch()
        seen.read()
        assert seen.used == [[], ["a"], []]

    @pytest.mark.parametrize("error", [PermissionError(13, "no"), FileNotFoundError(2, "no")])
    def test_one_that_cannot_be_read_is_expected(self, registered, lines, monkeypatch, error):
        def refuse(*_: object) -> object:
            raise error

        monkeypatch.setattr(hook_directory, "open", refuse, raising=False)
        assert registered.read() == ["a"]
        assert registered.directory.errors.keys() == {"a"}
        [line] = lines()
        assert line.endswith("(its last good version stays in use)") or error.errno == 2

    def test_nothing_is_concluded_from_a_directory_that_cannot_be_read(self, registered, caplog):
        seen = registered
        shutil.rmtree(seen.path)
        seen.path.touch()
        for _ in range(3):
            assert seen.read() == ["a"]
        [event] = caplog.records
        assert event.getMessage() == "cannot read the directory"
        assert event.fields == {"path": seen.path, "error": "File exists"}
        # It is there again, and empty: nobody said that the server is not expected.
        seen.path.unlink()
        assert seen.read() == ["a"]
        assert seen.directory.errors.keys() == {"a"}

    def test_a_file_that_everybody_may_write_is_not_used(self, registered, caplog):
        evil = registered.write("b.json")
        evil.chmod(0o666)
        assert registered.look() == ["a"]
        warnings = [one for one in caplog.records if one.levelno == logging.WARNING]
        assert str(evil) in [one.fields.get("path") for one in warnings]
        evil.chmod(0o644)
        assert registered.look() == ["a", "b"]

    def test_in_a_directory_that_everybody_may_write_nothing_changes(self, registered, lines):
        seen = registered
        seen.path.chmod(0o1777)
        (seen.path / "a.json").unlink()
        seen.write("b.json")
        for _ in range(2):
            assert seen.look() == ["a"]
        assert lines() == ["cannot read the directory"]
        seen.path.chmod(0o755)
        assert seen.look() == ["a", "b"], "one that is gone is expected all the same"


class TestWatch:
    @pytest.fixture(autouse=True)
    def often(self, monkeypatch):
        monkeypatch.setattr(hook_directory, "LOOK_SECONDS", 0.01)

    async def test_changes_are_noticed_as_they_come(self, seen):
        seen.directory.read()
        watching = asyncio.get_running_loop().create_task(seen.directory.watch())
        file = seen.write("a.json")
        await until(lambda: seen.used[-1] == ["a"])
        # In place, half at a time.
        with file.open("w") as writing:
            writing.write('{"remote-')
            writing.flush()
            await asyncio.sleep(0.05)
            assert seen.used[-1] == ["a"]
            writing.write('endpoint": "/run/y.sock"}')
        await until(lambda: len(seen.used) == 3)
        # Whole, under another name first.
        seen.write("b.part", text(priority=-1)).rename(seen.path / "b.json")
        await until(lambda: seen.used[-1] == ["b", "a"])
        # The same size, in place.
        (seen.path / "b.json").write_text(text(priority=+1) + " ")
        await until(lambda: seen.used[-1] == ["a", "b"])
        file.rename(file.with_name("a.removed"))
        await until(lambda: seen.used[-1] == ["b"])
        watching.cancel()

    async def test_the_directory_is_removed_and_made_again(self, registered):
        seen = registered
        watching = asyncio.get_running_loop().create_task(seen.directory.watch())
        shutil.rmtree(seen.path)
        await until(lambda: seen.directory.errors)
        await until(seen.path.is_dir)
        seen.write("b.json")
        await until(lambda: seen.used[-1] == ["a", "b"])
        # Another one is put in its place.
        other = seen.path.with_name("other")
        other.mkdir()
        (other / "c.json").write_text(text())
        seen.path.rename(seen.path.with_name("old"))
        shutil.rmtree(seen.path, ignore_errors=True)
        other.rename(seen.path)
        await until(lambda: seen.used[-1] == ["a", "b", "c"])
        watching.cancel()

    async def test_it_goes_on_though_it_cannot_be_read(self, seen):
        seen.path.parent.mkdir()
        seen.path.touch()
        watching = asyncio.get_running_loop().create_task(seen.directory.watch())
        await asyncio.sleep(0.05)
        assert not watching.done()
        seen.path.unlink()
        await until(seen.path.is_dir)
        seen.write("a.json")
        await until(lambda: seen.used[-1] == ["a"])
        watching.cancel()

    def test_it_is_read_only_when_something_changed(self, seen, monkeypatch):
        reads: list[int] = []
        read = seen.directory.read
        monkeypatch.setattr(seen.directory, "read", lambda: (reads.append(1), read()))
        seen.path.mkdir(parents=True)
        file = seen.path / "a.json"
        for number, change in enumerate((lambda: None, file.touch, lambda: os.utime(file))):
            change()
            for _ in range(5):
                seen.directory.look()
            assert len(reads) == number + 1


class TestRemoved:
    """A server is asked no more when somebody says so, and not before."""

    def test_a_file_that_is_gone_is_named_once(self, registered, lines):
        seen = registered
        (seen.path / "a.json").unlink()
        for _ in range(3):
            assert seen.read() == ["a"]
        [line] = lines()
        assert line == f"a.json: {seen.directory.errors['a']}"
        assert "koordctl hooks remove a" in line
        seen.write("a.json")
        seen.read()
        assert seen.directory.errors == {}
        assert lines() == [NEWS]

    @pytest.mark.parametrize("there", [True, False], ids=["there", "gone already"])
    def test_a_mark_removes_it(self, registered, there):
        seen = registered
        file, mark = seen.path / "a.json", seen.path / "a.removed"
        if there:
            file.rename(mark)
        else:
            file.unlink()
            seen.look()
            mark.touch()
        assert seen.look() == []
        assert seen.directory.errors == seen.store.registrations == {}
        assert not mark.exists()
        # It may come back.
        seen.write("a.json")
        assert seen.look() == ["a"]

    def test_a_file_counts_more_than_a_mark(self, registered):
        """It has registered again since."""
        mark = registered.path / "a.removed"
        mark.touch()
        assert registered.look() == ["a"]
        assert not mark.exists()

    def test_a_mark_stays_until_that_is_kept(self, registered, tmp_path):
        registered.store._path = str(tmp_path)
        mark = (registered.path / "a.json").rename(registered.path / "a.removed")
        assert registered.look() == []
        assert mark.exists()

    def test_last_good_versions_outlive_the_proxy(self, seen, tmp_path, lines):
        store = RecordStore(str(tmp_path / "state.db"))
        for name in "ab":
            seen.write(f"{name}.json")
        Seen(seen.path, store).read()
        store.close()
        (seen.path / "a.json").unlink()
        seen.write("b.json", "{")
        lines()
        again = Seen(seen.path, RecordStore(str(tmp_path / "state.db")))
        assert again.read() == ["a", "b"]
        again.store.close()
        assert again.directory.errors.keys() == {"a", "b"}
        assert len(lines()) == 2


def renamed(seen: Seen) -> None:
    seen.write(".a.json.part").rename(seen.path / "a.json")


def in_place(seen: Seen) -> None:
    before = (seen.path / "a.json").stat().st_mtime_ns
    os.utime(seen.write("a.json"), ns=(before, before + 1))


def same_time(seen: Seen) -> None:
    before = (seen.path / "a.json").stat().st_mtime_ns
    new = seen.write("a.part")
    os.utime(new, ns=(before, before))
    new.rename(seen.path / "a.json")


def removed_and_put_back(seen: Seen) -> None:
    (seen.path / "a.json").unlink()
    seen.look()
    assert seen.touched == []
    seen.write("a.json")


class TestTouched:
    """A server writes its file when it starts, often with what is in it already."""

    @pytest.fixture
    def seen(self, registered):
        registered.write("b.json")
        registered.look()
        assert registered.touched == [{"b"}]
        registered.touched.clear()
        return registered

    @pytest.mark.parametrize(
        "write",
        [
            renamed,
            in_place,
            same_time,
            removed_and_put_back,
            lambda seen: seen.write("a.json", "{"),
        ],
    )
    def test_the_one_that_was_written(self, seen, write):
        write(seen)
        for _ in range(3):
            seen.look()
        assert seen.touched == [{"a"}]

    def test_it_is_reported_once_it_is_in_use(self, seen):
        order: list[object] = []
        seen.directory._use = lambda servers: order.append([one.name for one in servers])
        seen.directory._touched = order.append
        seen.write("c.json")
        seen.directory.look()
        assert order == [["a", "b", "c"], {"c"}]

    def test_other_files_do_not_count(self, seen):
        for name in ("a", ".a.json", "a.json.swp", "a.part"):
            seen.write(name)
        (seen.path / "b.json").unlink()
        seen.look()
        assert seen.touched == []

    def test_a_link_to_nothing_hides_no_other(self, seen):
        (seen.path / "c.json").symlink_to("nowhere")
        seen.look()
        seen.touched.clear()
        renamed(seen)
        seen.look()
        assert seen.touched == [{"a"}]

    def test_all_that_were_away_with_their_directory(self, seen):
        away = seen.path.rename(seen.path.with_name("away"))
        seen.path.touch()
        seen.look()
        assert seen.touched == []
        seen.path.unlink()
        away.rename(seen.path)
        seen.look()
        assert seen.touched == [{"a", "b"}]
