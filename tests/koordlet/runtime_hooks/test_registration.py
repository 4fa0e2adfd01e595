import json
import stat
from pathlib import Path

import pytest
from koord_hooks.stages import Stage
from koordlet.runtime_hooks.registration import HookRegistration, registration_text

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


def test_the_file_is_there_for_everybody_to_read(tmp_path: Path) -> None:
    registration = HookRegistration(str(tmp_path / "not" / "yet"), TEXT)
    assert not registration.written
    registration.write()
    assert registration.written
    assert registration.path == tmp_path / "not" / "yet" / "koordlet.json"
    assert registration.path.read_text() == TEXT
    assert stat.S_IMODE(registration.path.stat().st_mode) == 0o644


def test_the_error_names_the_directory(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    registration = HookRegistration(str(tmp_path / "file"), TEXT)
    with pytest.raises(OSError, match="cannot register") as caught:
        registration.write()
    assert not registration.written
    assert caught.value.filename == str(tmp_path / "file")
