"""Settings: Koordinator's flags, variables and file, and which of them wins."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from koord_devices.config import settings
from koord_devices.vendor_table import UnknownVendorError, load
from koord_service.settings import SettingsError

FILE = """
version: v1
flags:
  kdd:
    oneshot: true
    sleepInterval: 90s
    printsOutputFile: /file
"""


def test_defaults_are_koordinators() -> None:
    found = settings([], {})
    assert (found.oneshot, found.no_timestamp, found.sleep_interval) == (False, False, 900.0)
    assert found.prints_output_file == "/var/run/koordlet/xpu-device-infos/ic-device"


def test_flags_win_over_variables_those_over_the_file(tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_text(FILE)
    variables = {"KDD_SLEEP_INTERVAL": "2m", "CONFIG_FILE": str(file), "KDD_NO_TIMESTAMP": "true"}
    found = settings(["--v=4", "--sleep-interval", "1m30s"], variables)
    assert (found.sleep_interval, found.oneshot, found.no_timestamp) == (90.0, True, True)
    assert settings([], variables).sleep_interval == 120.0
    assert settings(["-config-file", str(file)], {}).prints_output_file == "/file"
    assert settings(["--oneshot=false"], variables).oneshot is False


def test_in_koordinators_daemon_set_tools_are_the_hosts(tmp_path: Path) -> None:
    mount = str(tmp_path)
    assert settings([], {}, mount).host_root == mount
    assert settings([], {"KDD_HOST_ROOT": "/x"}, mount).host_root == "/x"
    assert settings(["--host-root=/"], {}, mount).host_root == "/"
    assert settings([], {}, f"{mount}/none").host_root == "/"


@pytest.mark.parametrize("name", ["KDD_PRINTS_OUTPUT_FILE", "PRINTS_OUTPUT_FILE"])
def test_both_names_of_the_output_file(name: str) -> None:
    assert settings([], {name: "/x"}).prints_output_file == "/x"


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("version: v2", 'version is "v2"; expected "v1"'),
        ("flags: {kdd: {onshot: true}}", '"flags.kdd.onshot" is not a setting'),
        ("flags: 7", "flags is not a mapping"),
        ("a: [", "not valid YAML"),
        ("a: 2020-13-45", "not valid YAML"),
        ("flags: {kdd: {sleepInterval: soon}}", 'KDD_SLEEP_INTERVAL is "soon"'),
        ("flags: {kdd: {sleepInterval: 0s}}", "--sleep-interval is 0; expected more than 0"),
    ],
)
def test_a_file_that_cannot_be_used(tmp_path: Path, text: str, line: str) -> None:
    file = tmp_path / "config.yaml"
    file.write_text(text)
    with pytest.raises(SettingsError, match=line) as caught:
        settings(["--config-file", str(file)], {})
    assert "\n" not in str(caught.value)


def test_a_vendor_of_another_distribution(monkeypatch: pytest.MonkeyPatch) -> None:
    """One of the same name replaces ours."""

    class Point:
        name = "huawei"

        def load(self) -> Any:
            return SimpleNamespace(Vendor=lambda: "theirs")

    monkeypatch.setattr("koord_devices.vendor_table.entry_points", lambda group: [Point()])
    assert load(["huawei"]) == {"huawei": "theirs"}


def test_which_vendors() -> None:
    everyone = ["amd", "cambricon", "huawei", "intel", "kunlun", "metax", "nvidia"]
    assert list(load(["*"])) == everyone
    assert list(load(["*", "-amd"])) == everyone[1:]
    assert list(load(["nvidia", "huawei"])) == ["huawei", "nvidia"]
    with pytest.raises(UnknownVendorError, match='"nvdia" is not a known vendor'):
        load(["nvdia"])
