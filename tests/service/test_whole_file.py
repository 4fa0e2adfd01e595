"""A file is replaced whole, with its mode, and nothing else is left in its directory."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

import pytest
from koord_service.whole_file import write_whole


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "state.json"
    path.write_text("old")
    return path


@pytest.fixture
def synced(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What the disk was waited for: what an open file descriptor is of."""
    paths: list[str] = []
    monkeypatch.setattr(
        os, "fsync", lambda descriptor: paths.append(os.readlink(f"/proc/self/fd/{descriptor}"))
    )
    return paths


def test_it_is_replaced_and_not_written_in_place(file: Path) -> None:
    before = file.open()
    write_whole(file, b"new")
    with before:
        assert before.read() == "old"
    assert file.read_bytes() == b"new"
    assert os.listdir(file.parent) == ["state.json"]


@pytest.mark.parametrize("mode", [0o600, 0o644])
@pytest.mark.parametrize("umask", [0o000, 0o077])
def test_modes_do_not_depend_on_the_umask(tmp_path: Path, mode: int, umask: int) -> None:
    path = tmp_path / "not" / "yet"
    before = os.umask(umask)
    try:
        write_whole(path, b"", mode=mode, directory_mode=0o700)
    finally:
        os.umask(before)
    assert stat.S_IMODE(path.stat().st_mode) == mode
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


def test_a_missing_directory_may_be_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        write_whole(tmp_path / "not" / "yet", b"", directory_mode=None)
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("sync", [True, False])
def test_the_disk_has_the_file_and_its_name_if_it_is_waited_for(
    file: Path, synced: list[str], sync: bool
) -> None:
    write_whole(file, b"new", sync=sync)
    assert synced == [str(file.with_name(".state.json.part")), str(file.parent)] * sync
    assert file.read_bytes() == b"new"


def test_a_disk_that_fails_leaves_the_old_file_alone(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="Input/output error"):
        write_whole(file, b"new")
    assert file.read_text() == "old"
    assert os.listdir(file.parent) == ["state.json"]


def test_a_directory_in_its_place_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "state.json").mkdir()
    with pytest.raises(IsADirectoryError):
        write_whole(tmp_path / "state.json", b"new")
    assert os.listdir(tmp_path) == ["state.json"]


def test_what_a_killed_program_left_is_replaced(file: Path, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("kept")
    file.with_name(".state.json.part").symlink_to(secret)
    write_whole(file, b"new")
    assert secret.read_text() == "kept"
    assert not file.is_symlink()
    assert sorted(os.listdir(tmp_path)) == ["secret", "state.json"]
