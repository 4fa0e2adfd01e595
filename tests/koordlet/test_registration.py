import json
import os
import stat
from pathlib import Path

import pytest
from koord_hooks.stages import Stage
from koordlet.registration import Registration, registration_text

STAGES = (Stage.PRE_RUN_POD_SANDBOX, Stage.PRE_CREATE_CONTAINER)
TEXT = registration_text("/run/k.sock", "Fail", STAGES, 1.5)


def test_the_text_is_what_the_proxies_read() -> None:
    assert json.loads(TEXT) == {
        "remote-endpoint": "/run/k.sock",
        "failure-policy": "Fail",
        "runtime-hooks": ["PreRunPodSandbox", "PreCreateContainer"],
        "timeout": 1.5,
    }


def test_a_timeout_of_zero_is_left_to_the_proxy() -> None:
    assert "timeout" not in json.loads(registration_text("/run/k.sock", "Ignore", STAGES))


def test_the_file_is_readable_and_alone_whatever_the_umask(tmp_path: Path) -> None:
    before = os.umask(0o077)
    try:
        registration = Registration(str(tmp_path / "not" / "yet"), TEXT)
        registration.write()
    finally:
        os.umask(before)
    assert registration.path == tmp_path / "not" / "yet" / "koordlet.json"
    assert registration.path.read_text() == TEXT
    assert stat.S_IMODE(registration.path.stat().st_mode) == 0o644
    assert os.listdir(registration.path.parent) == ["koordlet.json"]


def test_the_proxy_never_sees_half_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def power_cut(_: int) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(os, "fsync", power_cut)
    registration = Registration(str(tmp_path), TEXT)
    with pytest.raises(OSError, match="cannot register: Input/output error"):
        registration.write()
    assert not registration.in_place
    assert not [name for name in os.listdir(tmp_path) if name.endswith("json")]


def test_what_a_killed_process_left_is_replaced(tmp_path: Path) -> None:
    (tmp_path / ".koordlet.json.part").write_text("half")
    (tmp_path / "koordlet.json").write_text("old")
    Registration(str(tmp_path), TEXT).write()
    assert os.listdir(tmp_path) == ["koordlet.json"]
    assert (tmp_path / "koordlet.json").read_text() == TEXT


def test_the_error_names_the_directory(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(OSError, match="cannot register") as caught:
        Registration(str(tmp_path / "file"), TEXT).write()
    assert caught.value.filename == str(tmp_path / "file")


class TestRemoval:
    def test_ours_goes(self, tmp_path: Path) -> None:
        registration = Registration(str(tmp_path), TEXT)
        registration.write()
        registration.remove()
        assert not registration.in_place
        assert os.listdir(tmp_path) == []

    def test_it_is_known_to_be_in_place_before(self, tmp_path: Path) -> None:
        registration = Registration(str(tmp_path), TEXT)
        registration.write()
        assert registration.in_place

    def test_another_processes_stays_even_if_it_is_alike(self, tmp_path: Path) -> None:
        ours, theirs = Registration(str(tmp_path), TEXT), Registration(str(tmp_path), TEXT)
        ours.write()
        theirs.write()
        ours.remove()
        assert theirs.path.exists()
        theirs.remove()
        assert not theirs.path.exists()

    def test_an_edited_one_stays(self, tmp_path: Path) -> None:
        registration = Registration(str(tmp_path), TEXT)
        registration.write()
        os.utime(registration.path, ns=(0, 0))
        registration.remove()
        assert registration.path.exists()

    def test_one_that_is_gone_is_no_error(self, tmp_path: Path) -> None:
        registration = Registration(str(tmp_path), TEXT)
        registration.write()
        registration.path.unlink()
        registration.remove()

    def test_what_was_never_written_is_not_removed(self, tmp_path: Path) -> None:
        registration = Registration(str(tmp_path), TEXT)
        registration.path.write_text("theirs")
        registration.remove()
        assert registration.path.exists()
