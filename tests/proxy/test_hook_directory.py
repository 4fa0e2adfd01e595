"""Registration files on a real file system, as they come, change and go."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import shutil
import time
from collections.abc import Callable, Collection
from pathlib import Path

import pytest
from koord_proxy import hook_directory
from koord_proxy.hook_directory import HookDirectory
from koord_proxy.rules.registration import HookServerRegistration
from koord_proxy.store import RecordStore

from tests.support.processes import PATIENCE


def text(**more: object) -> str:
    hooks = ["PreCreateContainer"]
    return json.dumps({"remote-endpoint": "/run/x.sock", "runtime-hooks": hooks, **more})


class Seen:
    """What a directory has told."""

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

    def write(self, name: str, content: str) -> Path:
        file = self.path / name
        file.write_text(content)
        return file


@pytest.fixture
def seen(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> Seen:
    caplog.set_level(logging.DEBUG, "pykoord")
    return Seen(tmp_path / "etc" / "hookserver.d", RecordStore(""))


@pytest.fixture
def lines(caplog: pytest.LogCaptureFixture) -> Callable[[], list[str]]:
    """What was said since the last time, except for what only developers see."""

    def said() -> list[str]:
        found = [r.getMessage() for r in caplog.records if r.levelno > logging.DEBUG]
        caplog.clear()
        return found

    return said


NEWS = "a.json: /run/x.sock is asked about PreCreateContainer"


class TestRead:
    def test_the_directory_is_made(self, seen, lines):
        seen.directory.read()
        assert seen.path.is_dir()
        assert seen.used == [[]]
        assert lines() == []

    def test_only_what_ends_in_json_and_is_a_file(self, seen, lines):
        seen.path.mkdir(parents=True)
        for name in ("a.json", ".hidden.json", "b.json.swp", "c.yaml", "json"):
            seen.write(name, text())
        (seen.path / "d.json").mkdir()
        (seen.path / "e.json").symlink_to("nowhere")
        (seen.path / "f.json").symlink_to("f.json")
        (seen.path / "link.json").symlink_to("c.yaml")
        seen.directory.read()
        assert seen.used == [["a", "link"]]
        assert lines()[-2:] == [NEWS, NEWS.replace("a.json", "link.json")]

    def test_what_would_be_read_for_ever_is_left_alone(self, seen):
        seen.path.mkdir(parents=True)
        seen.write("a.json", text())
        os.mkfifo(seen.path / "fifo.json")
        (seen.path / "zero.json").symlink_to("/dev/zero")
        seen.directory.read()
        assert seen.used == [["a"]]

    def test_a_name_that_is_no_text_can_be_shown(self, seen):
        seen.path.mkdir(parents=True)
        name = os.fsdecode(b"\xff.json")
        seen.write(name, text())
        seen.directory.read()
        assert seen.used == [["\ufffd"]]

    def test_a_huge_file_is_read_in_part(self, seen, lines):
        seen.path.mkdir(parents=True)
        with (seen.path / "a.json").open("wb") as file:
            file.truncate(1 << 40)
        seen.directory.read()
        assert seen.used == [[]]
        assert "is not valid" in lines()[0]

    def test_it_is_told_only_when_something_changed(self, seen, lines):
        seen.directory.read()
        file = seen.write("a.json", text())
        for _ in range(3):
            seen.directory.read()
        assert seen.used == [[], ["a"]]
        assert lines() == [NEWS]
        file.write_text("{")
        seen.directory.read()
        assert seen.used == [[], ["a"]]
        assert len(lines()) == 1
        file.unlink()
        seen.directory.read()
        assert seen.used == [[], ["a"]]
        (seen.path / "a.removed").touch()
        seen.directory.read()
        assert seen.used == [[], ["a"], []]

    def test_one_that_cannot_be_read_is_not_gone(self, seen, lines, monkeypatch):
        seen.directory.read()
        seen.write("a.json", text())
        seen.directory.read()
        lines()

        def refuse(path: str, mode: str) -> object:
            raise PermissionError(13, "Permission denied", path)

        monkeypatch.setattr(hook_directory, "open", refuse, raising=False)
        seen.directory.read()
        assert seen.used[-1] == ["a"]
        [line] = lines()
        assert line.endswith("(its last good version stays in use)")

    def test_one_that_vanishes_while_it_is_read_is_expected(self, seen, lines, monkeypatch):
        seen.directory.read()
        seen.write("a.json", text())
        seen.directory.read()

        def vanish(path: str, mode: str) -> object:
            raise FileNotFoundError(2, "No such file or directory", path)

        monkeypatch.setattr(hook_directory, "open", vanish, raising=False)
        seen.directory.read()
        assert seen.used[-1] == ["a"]
        assert seen.directory.errors.keys() == {"a"}

    def test_nothing_is_concluded_from_a_directory_that_cannot_be_read(self, seen, lines, caplog):
        seen.directory.read()
        seen.write("a.json", text())
        seen.directory.read()
        lines()
        shutil.rmtree(seen.path)
        seen.path.touch()
        for _ in range(3):
            seen.directory.read()
        [event] = caplog.records
        assert event.getMessage() == "cannot read the directory"
        assert event.fields["path"] == seen.path
        assert event.fields["error"] == "File exists"
        assert seen.used[-1] == ["a"]
        # It is there again, and empty: nobody said that the server is not expected.
        seen.path.unlink()
        seen.directory.read()
        assert seen.used[-1] == ["a"]
        assert seen.directory.errors.keys() == {"a"}


class TestWatch:
    @pytest.fixture(autouse=True)
    def often(self, monkeypatch):
        monkeypatch.setattr(hook_directory, "LOOK_SECONDS", 0.01)

    async def until(self, condition: Callable[[], object]) -> None:
        end = time.monotonic() + PATIENCE
        while not condition():
            assert time.monotonic() < end, "was not noticed"
            await asyncio.sleep(0.01)

    async def test_changes_are_noticed_as_they_come(self, seen):
        seen.directory.read()
        watching = asyncio.get_running_loop().create_task(seen.directory.watch())
        file = seen.write("a.json", text())
        await self.until(lambda: seen.used[-1:] == [["a"]])
        # In place, half at a time.
        with file.open("w") as writing:
            writing.write('{"remote-')
            writing.flush()
            await asyncio.sleep(0.05)
            assert seen.used[-1] == ["a"]
            writing.write('endpoint": "/run/y.sock"}')
        await self.until(lambda: len(seen.used) == 3)
        # Whole, under another name first.
        seen.write("b.part", text(priority=-1)).rename(seen.path / "b.json")
        await self.until(lambda: seen.used[-1] == ["b", "a"])
        # The same size, in place.
        (seen.path / "b.json").write_text(text(priority=+1) + " ")
        await self.until(lambda: seen.used[-1] == ["a", "b"])
        file.rename(file.with_name("a.removed"))
        await self.until(lambda: seen.used[-1] == ["b"])
        watching.cancel()

    async def test_the_directory_is_removed_and_made_again(self, seen):
        seen.directory.read()
        watching = asyncio.get_running_loop().create_task(seen.directory.watch())
        seen.write("a.json", text())
        await self.until(lambda: seen.used[-1] == ["a"])
        shutil.rmtree(seen.path)
        await self.until(lambda: seen.directory.errors)
        await self.until(seen.path.is_dir)
        seen.write("b.json", text())
        await self.until(lambda: seen.used[-1] == ["a", "b"])
        # Another one is put in its place.
        other = seen.path.with_name("other")
        other.mkdir()
        (other / "c.json").write_text(text())
        seen.path.rename(seen.path.with_name("old"))
        shutil.rmtree(seen.path, ignore_errors=True)
        other.rename(seen.path)
        await self.until(lambda: seen.used[-1] == ["a", "b", "c"])
        watching.cancel()

    async def test_it_goes_on_though_it_cannot_be_read(self, seen):
        seen.path.parent.mkdir()
        seen.path.touch()
        watching = asyncio.get_running_loop().create_task(seen.directory.watch())
        await asyncio.sleep(0.05)
        assert not watching.done()
        seen.path.unlink()
        await self.until(seen.path.is_dir)
        seen.write("a.json", text())
        await self.until(lambda: seen.used[-1] == ["a"])
        watching.cancel()

    def test_it_is_read_only_when_something_changed(self, seen, monkeypatch):
        reads: list[int] = []
        read = seen.directory.read
        monkeypatch.setattr(seen.directory, "read", lambda: (reads.append(1), read()))
        seen.path.mkdir(parents=True)
        for _ in range(5):
            seen.directory.look()
        assert len(reads) == 1
        file = seen.write("a.json", text())
        for _ in range(5):
            seen.directory.look()
        assert len(reads) == 2
        os.utime(file)
        seen.directory.look()
        assert len(reads) == 3


class TestRemoved:
    """A server is asked no more when somebody says so, and not before."""

    @pytest.fixture(autouse=True)
    def registered(self, seen, lines):
        seen.directory.read()
        seen.write("a.json", text())
        seen.directory.read()
        lines()

    def test_a_file_that_is_gone_is_named_once(self, seen, lines):
        (seen.path / "a.json").unlink()
        for _ in range(3):
            seen.directory.read()
        assert seen.used[-1] == ["a"]
        [line] = lines()
        assert line == f"a.json: {seen.directory.errors['a']}"
        assert "koordctl hooks remove a" in line
        seen.write("a.json", text())
        seen.directory.read()
        assert seen.directory.errors == {}
        assert lines() == [NEWS]

    @pytest.mark.parametrize("there", [True, False], ids=["there", "gone already"])
    def test_a_mark_removes_it(self, seen, lines, there):
        file, mark = seen.path / "a.json", seen.path / "a.removed"
        if there:
            file.rename(mark)
        else:
            file.unlink()
            seen.directory.look()
            mark.touch()
        seen.directory.look()
        assert seen.used[-1] == []
        assert seen.directory.errors == {}
        assert seen.store.registrations == {}
        assert not mark.exists()
        # It may come back.
        seen.write("a.json", text())
        seen.directory.look()
        assert seen.used[-1] == ["a"]

    def test_a_file_counts_more_than_a_mark(self, seen):
        """It has registered again since."""
        mark = seen.path / "a.removed"
        mark.touch()
        seen.directory.look()
        assert seen.used[-1] == ["a"]
        assert not mark.exists()

    def test_a_mark_stays_until_that_is_kept(self, seen, tmp_path, monkeypatch):
        seen.store._path = str(tmp_path)
        (seen.path / "a.json").rename(seen.path / "a.removed")
        seen.directory.look()
        assert seen.used[-1] == []
        assert (seen.path / "a.removed").exists()

    def test_last_good_versions_outlive_the_proxy(self, seen, tmp_path, lines):
        store = RecordStore(str(tmp_path / "state.db"))
        before = Seen(seen.path, store)
        seen.write("b.json", text())
        before.directory.read()
        store.close()
        (seen.path / "a.json").unlink()
        seen.write("b.json", "{")
        lines()
        again = Seen(seen.path, RecordStore(str(tmp_path / "state.db")))
        again.directory.read()
        again.store.close()
        assert again.used == [["a", "b"]]
        assert again.directory.errors.keys() == {"a", "b"}
        assert len(lines()) == 2


class TestTouched:
    """A server writes its file when it starts, often with what is in it already."""

    @pytest.fixture(autouse=True)
    def files(self, seen):
        seen.path.mkdir(parents=True)
        for name in ("a", "b"):
            seen.write(f"{name}.json", text())
        seen.directory.look()
        assert seen.touched == [{"a", "b"}]
        seen.touched.clear()

    def renamed(self, seen):
        seen.write(".a.json.part", text()).rename(seen.path / "a.json")

    def in_place(self, seen):
        before = (seen.path / "a.json").stat().st_mtime_ns
        seen.write("a.json", text())
        os.utime(seen.path / "a.json", ns=(before, before + 1))

    def same_time(self, seen):
        before = (seen.path / "a.json").stat().st_mtime_ns
        new = seen.write("a.part", text())
        os.utime(new, ns=(before, before))
        new.rename(seen.path / "a.json")

    def removed_and_put_back(self, seen):
        (seen.path / "a.json").unlink()
        seen.directory.look()
        assert seen.touched == []
        seen.write("a.json", text())

    def unusable(self, seen):
        seen.write("a.json", "{")

    @pytest.mark.parametrize(
        "write", [renamed, in_place, same_time, removed_and_put_back, unusable]
    )
    def test_the_one_that_was_written(self, seen, write):
        write(self, seen)
        for _ in range(3):
            seen.directory.look()
        assert seen.touched == [{"a"}]

    def test_it_is_told_once_it_is_in_use(self, seen):
        order: list[object] = []
        seen.directory._use = lambda servers: order.append([one.name for one in servers])
        seen.directory._touched = order.append
        seen.write("c.json", text())
        seen.directory.look()
        assert order == [["a", "b", "c"], {"c"}]

    def test_other_files_are_nobodys(self, seen):
        for name in ("a", ".a.json", "a.json.swp", "a.part"):
            seen.write(name, text())
        (seen.path / "b.json").unlink()
        seen.directory.look()
        assert seen.touched == []

    def test_a_link_to_nothing_hides_no_other(self, seen):
        (seen.path / "c.json").symlink_to("nowhere")
        seen.directory.look()
        seen.touched.clear()
        self.renamed(seen)
        seen.directory.look()
        assert seen.touched == [{"a"}]

    def test_all_that_were_away_with_their_directory(self, seen):
        away = seen.path.rename(seen.path.with_name("away"))
        seen.path.touch()
        seen.directory.look()
        assert seen.touched == []
        seen.path.unlink()
        away.rename(seen.path)
        seen.directory.look()
        assert seen.touched == [{"a", "b"}]


def test_a_file_that_everybody_may_write_is_not_used(
    seen: Seen, caplog: pytest.LogCaptureFixture
) -> None:
    seen.directory.read()
    seen.write("a.json", text())
    evil = seen.write("b.json", text())
    evil.chmod(0o666)
    seen.directory.look()
    assert seen.used[-1] == ["a"]
    assert any(
        r.levelno == logging.WARNING and r.__dict__["fields"].get("path") == str(evil)
        for r in caplog.records
    )
    evil.chmod(0o644)
    seen.directory.look()
    assert seen.used[-1] == ["a", "b"]


def test_in_a_directory_that_everybody_may_write_nothing_changes(
    seen: Seen, lines: Callable[[], list[str]]
) -> None:
    seen.directory.read()
    seen.write("a.json", text())
    seen.directory.look()
    seen.path.chmod(0o1777)
    (seen.path / "a.json").unlink()
    seen.write("b.json", text())
    lines()
    seen.directory.look()
    seen.directory.look()
    assert seen.used[-1] == ["a"]
    assert lines() == ["cannot read the directory"]
    seen.path.chmod(0o755)
    seen.directory.look()
    assert seen.used[-1] == ["a", "b"], "one that is gone is expected all the same"
