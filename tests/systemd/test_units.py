"""The unit files: what systemd thinks of them, and that they agree with the programs."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import koord_proxy.config
import koordctl.asking
import koordlet.config
import pytest

from tests.systemd import units

# What systemd-analyze security gives them, times ten (0 is best, 100 worst). What is left:
# both run as root on the host's network and files, and may chown what is theirs; koordlet
# writes cgroups and traffic classes, and reaches every process.
EXPOSURE = {units.PROXY: 18, units.KOORDLET: 30}
OFFLINE_SINCE = 250

DOCS = Path(__file__).parents[2] / "docs"


def analyze(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["systemd-analyze", *arguments], capture_output=True, text=True, check=False
    )


def _analyze_version() -> int:
    if shutil.which("systemd-analyze") is None:
        return 0
    return int(analyze("--version").stdout.split()[1])


needs_analyze = pytest.mark.skipif(
    _analyze_version() < OFFLINE_SINCE, reason=f"needs systemd-analyze {OFFLINE_SINCE} or newer"
)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A root file system with the units, and with stubs of all they name."""
    directory = tmp_path / "etc/systemd/system"
    directory.mkdir(parents=True)
    for unit in units.ALL:
        shutil.copy(unit, directory)
    for target in ("sysinit", "basic", "sockets", "shutdown", "multi-user"):
        stub = directory / f"{target}.target"
        stub.write_text(f"[Unit]\nDescription={target}\nDefaultDependencies=no\n")
    for program in ("opt/pykoord/bin/koord-runtime-proxy", "opt/pykoord/bin/koordlet", "bin/kill"):
        path = tmp_path / program
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("#!/bin/sh\n")
        path.chmod(0o755)
    return tmp_path


@needs_analyze
def test_systemd_finds_nothing_wrong(root: Path) -> None:
    names = [unit.name for unit in units.ALL]
    said = analyze("verify", f"--root={root}", "--man=no", *names)
    assert (said.stdout, said.stderr, said.returncode) == ("", "", 0)


@needs_analyze
def test_systemd_would_find_something(root: Path) -> None:
    service = root / "etc/systemd/system" / units.KOORDLET.name
    service.write_text(service.read_text().replace("Restart=always", "Restart=allways"))
    assert "allways" in analyze("verify", f"--root={root}", "--man=no", service.name).stderr


@needs_analyze
@pytest.mark.parametrize("unit", EXPOSURE, ids=lambda unit: unit.name)
def test_exposure(root: Path, unit: Path) -> None:
    def within(threshold: int) -> bool:
        said = analyze(
            "security",
            f"--root={root}",
            "--offline=true",
            "--no-pager",
            f"--threshold={threshold}",
            unit.name,
        )
        assert "Overall exposure level" in said.stdout, said.stderr
        return said.returncode == 0

    assert within(EXPOSURE[unit])


@pytest.mark.parametrize("path", [units.PROXY, units.KOORDLET], ids=lambda path: path.name)
def test_a_service_that_stays(path: Path) -> None:
    unit = units.read(path)
    expected = {
        "Service.Type": "notify",
        "Service.NotifyAccess": "main",
        "Service.Restart": "always",
        "Service.RestartSec": "1",
        "Service.WatchdogSec": "30",
        "Service.OOMScoreAdjust": "-999",
        "Service.ExecReload": "/bin/kill -HUP $MAINPID",
        "Unit.StartLimitIntervalSec": "0",
        "Unit.Before": "kubelet.service",
        "Install.WantedBy": "multi-user.target",
    }
    assert {key: units.only(unit, key) for key in expected} == expected


def test_a_restart_of_the_runtime_does_not_stop_the_proxy() -> None:
    unit = units.read(units.PROXY)
    assert "containerd.service" in units.only(unit, "Unit.After").split()
    bonds = ("Requires", "BindsTo", "PartOf", "Requisite")
    assert [unit.get(f"Unit.{bond}") for bond in bonds] == [
        [units.PROXY_SOCKET.name],
        None,
        None,
        None,
    ]


def test_no_setting_is_needed() -> None:
    for path in (units.PROXY, units.KOORDLET):
        unit = units.read(path)
        program = path.stem
        flags = f"{program.replace('-', '_').upper()}_FLAGS"
        assert units.only(unit, "Service.ExecStart") == f"/opt/pykoord/bin/{program} ${flags}"
        assert units.only(unit, "Service.Environment") == f"{flags}="
        assert units.only(unit, "Service.EnvironmentFile") == f"-/etc/default/{program}"


def test_the_socket_is_the_proxy_s_default() -> None:
    socket, settings = units.read(units.PROXY_SOCKET), koord_proxy.config.Settings()
    endpoint = units.on_the_host(settings.koord_runtimeproxy_endpoint)
    assert units.only(socket, "Socket.ListenStream") == endpoint
    assert units.only(socket, "Socket.SocketMode") == settings.socket_mode
    assert units.only(units.read(units.PROXY), "Install.Also") == units.PROXY_SOCKET.name


def test_the_proxy_may_write_what_it_writes() -> None:
    unit, settings = units.read(units.PROXY), koord_proxy.config.Settings()
    allowed = units.writable(unit)
    for path in (
        settings.state_path,
        units.on_the_host(settings.koord_runtimeproxy_endpoint),
        # It makes the directory, should it vanish.
        settings.hook_config_path,
    ):
        assert str(Path(path).parent) in allowed
    made = f"/etc/{units.only(unit, 'Service.ConfigurationDirectory')}"
    assert made == settings.hook_config_path
    assert float(units.only(unit, "Service.TimeoutStopSec")) > settings.drain_timeout


def test_koordlet_may_write_what_it_writes() -> None:
    unit, settings = units.read(units.KOORDLET), koordlet.config.Settings()
    allowed = units.writable(unit)
    assert settings.runtime_hooks_addr == settings.runtime_hooks_host_endpoint
    for path in (
        units.on_the_host(settings.runtime_hooks_addr),
        settings.runtime_hooks_config_path,
        f"{settings.state_dir}/originals.db",
    ):
        assert str(Path(path).parent) in allowed
    # Below the state directory, unless told otherwise.
    assert (settings.tsdb_path, settings.prediction_checkpoint_filepath) == ("", "")
    assert f"-{settings.cgroup_root_dir}" in allowed
    assert f"-{settings.sys_fs_root_dir}/resctrl" in allowed
    made = f"/etc/{units.only(unit, 'Service.ConfigurationDirectory')}"
    assert made == settings.runtime_hooks_config_path


def test_everybody_may_ask_koordlet() -> None:
    unit, settings = units.read(units.KOORDLET), koordlet.config.Settings()
    assert not settings.status_address, "else the socket is not beside the other one"
    assert units.only(unit, "Service.RuntimeDirectoryMode") == "0755"
    beside = Path(units.on_the_host(settings.runtime_hooks_addr)).with_name("status.sock")
    asked = koordctl.asking.ADDRESS.removeprefix("unix://")
    assert units.on_the_host(asked) == str(beside)


DROP_INS = {
    page: re.findall(r"^```ini\n(.*?)^```", (DOCS / page).read_text(), re.MULTILINE | re.DOTALL)
    for page in ("operations.md", "collectors.md", "strategies.md")
}


def test_drop_ins_are_those_that_the_unit_speaks_of() -> None:
    text = units.KOORDLET.read_text()
    lines = [line for found in DROP_INS.values() for one in found for line in one.splitlines()]
    settings = {line.partition("=")[0] for line in lines if "=" in line} - {"Environment"}
    comment = text.partition("In a drop-in")[2].partition("\nProtect")[0]
    assert settings == set(re.findall(r"([A-Z]\w+)=", comment))


@needs_analyze
@pytest.mark.parametrize("text", [one for found in DROP_INS.values() for one in found])
def test_drop_ins_of_the_documents(root: Path, text: str) -> None:
    directory = root / f"etc/systemd/system/{units.KOORDLET.name}.d"
    directory.mkdir()
    (directory / "override.conf").write_text(text)
    said = analyze("verify", f"--root={root}", "--man=no", units.KOORDLET.name)
    assert (said.stdout, said.stderr, said.returncode) == ("", "", 0)


@pytest.mark.parametrize("path", [units.PROXY, units.KOORDLET], ids=lambda path: path.name)
def test_what_is_allowed_is_what_is_needed(path: Path) -> None:
    unit = units.read(path)
    assert "Service.PrivateNetwork" not in unit, "metrics are scraped on the host's loopback"
    netlink = ["AF_NETLINK"] if path == units.KOORDLET else []
    families = units.only(unit, "Service.RestrictAddressFamilies").split()
    assert families == ["AF_UNIX", "AF_INET", "AF_INET6", *netlink]
    assert units.only(unit, "Service.IPAddressAllow") == "localhost"
    address = koord_proxy.config.Settings().metrics_address
    assert re.match(r"127\.", address), "a default that IPAddressDeny= would cut off"
