"""The unit files: what systemd thinks of them, and that they agree with the programs."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import koord_proxy.config
import koord_proxy.main
import koordctl.koordlet_client
import koordlet.agent.config
import pytest
from koord_devices.config import DeviceDaemonSettings
from koord_service.settings import parse

from tests.systemd import units

# What systemd-analyze security gives them, times ten (0 is best, 100 worst). What is left:
# both run as root on the host's network and files, and may chown what is theirs; koordlet
# writes cgroups and traffic classes, and reaches every process.
EXPOSURE = {units.PROXY: 18, units.KOORDLET: 30, units.DEVICE_DAEMON: 23, units.CONTROL_PLANE: 13}
OFFLINE_SINCE = 250

DOCS = Path(__file__).parents[2] / "docs"

PROGRAMS = (
    "opt/pykoord/bin/koord-runtime-proxy",
    "opt/pykoord/bin/koordlet",
    "opt/pykoord/bin/koord-device-daemon",
    "opt/pykoord/bin/koord-manager",
    "bin/kill",
    "usr/bin/cri-dockerd",
)

NAMES = [unit.name.replace("@", "@manager") for unit in units.ALL]

DOCKER_NODE = {
    "docker.socket": "[Socket]\nListenStream=/run/docker.sock\n",
    "docker.service": (
        "[Unit]\nRequires=docker.socket\nAfter=docker.socket containerd.service\n"
        "[Service]\nExecStart=/bin/kill -l\n"
    ),
    "cri-docker.socket": "[Socket]\nListenStream=/run/cri-dockerd.sock\n",
    "cri-docker.service": (
        "[Unit]\nRequires=cri-docker.socket\nAfter=docker.service\n"
        "[Service]\nExecStart=/usr/bin/cri-dockerd --container-runtime-endpoint fd://\n"
    ),
    "kubelet.service": "[Unit]\nAfter=cri-docker.service\n[Service]\nExecStart=/bin/kill -l\n",
}
"""Units of a node with docker, in the order that docker's and cri-dockerd's own ones have."""


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
    (directory / "koord@manager.service").symlink_to(units.CONTROL_PLANE.name)
    for target in ("sysinit", "basic", "sockets", "shutdown", "multi-user", "network-online"):
        stub = directory / f"{target}.target"
        stub.write_text(f"[Unit]\nDescription={target}\nDefaultDependencies=no\n")
    for program in PROGRAMS:
        path = tmp_path / program
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("#!/bin/sh\n")
        path.chmod(0o755)
    return tmp_path


@pytest.fixture
def docker_root(root: Path) -> Path:
    """The same on a node with docker; multi-user.target wants all."""
    directory = root / "etc/systemd/system"
    for name, text in DOCKER_NODE.items():
        (directory / name).write_text(text)
    wanted = " ".join([*DOCKER_NODE, *NAMES])
    with (directory / "multi-user.target").open("a") as target:
        target.write(f"Wants={wanted}\n")
    drop_ins = directory / units.DOCKER.parent.name
    drop_ins.mkdir()
    shutil.copy(units.DOCKER, drop_ins)
    return root


@needs_analyze
@pytest.mark.parametrize(
    ("node", "names"),
    [("root", NAMES), ("docker_root", ["multi-user.target"])],
)
def test_systemd_finds_nothing_wrong(
    request: pytest.FixtureRequest, node: str, names: list[str]
) -> None:
    root: Path = request.getfixturevalue(node)
    said = analyze("verify", f"--root={root}", "--man=no", *names)
    assert (said.stdout, said.stderr, said.returncode) == ("", "", 0)


@needs_analyze
@pytest.mark.parametrize(
    ("unit", "before", "after", "words"),
    [
        (units.KOORDLET, "Restart=always", "Restart=allways", "allways"),
        (units.DOCKER, "Before=cri", "After=kubelet.service cri", "ordering cycle"),
    ],
)
def test_systemd_would_find_something(
    docker_root: Path, unit: Path, before: str, after: str, words: str
) -> None:
    path = docker_root / "etc/systemd/system" / unit.relative_to(units.DIRECTORY)
    path.write_text(path.read_text().replace(before, after))
    said = analyze("verify", f"--root={docker_root}", "--man=no", "multi-user.target")
    assert words in said.stderr


@needs_analyze
@pytest.mark.parametrize("unit", EXPOSURE, ids=lambda unit: unit.name)
def test_exposure(docker_root: Path, unit: Path) -> None:
    def within(threshold: int) -> bool:
        said = analyze(
            "security",
            f"--root={docker_root}",
            "--offline=true",
            "--no-pager",
            f"--threshold={threshold}",
            unit.name.replace("@", "@manager"),
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


def test_docker_is_one_setting_and_an_order() -> None:
    """All else, the hardening too, is the unit's."""
    drop_in = units.read(units.DOCKER)
    assert set(drop_in) == {"Unit.After", "Unit.Before", "Service.Environment"}
    assert units.only(drop_in, "Unit.After") == "docker.service"
    assert units.only(drop_in, "Unit.Before") == "cri-docker.service"
    name, _, value = units.only(drop_in, "Service.Environment").partition("=")
    settings = parse(
        koord_proxy.config.ProxySettings,
        prog=koord_proxy.main.PROGRAM,
        description="",
        argv=[],
        environ={name: value},
    )
    assert settings.docker
    socket = units.only(units.read(units.PROXY_SOCKET), "Socket.ListenStream")
    assert units.on_the_host(settings.koord_runtimeproxy_endpoint) == socket


def test_dockerds_socket_can_be_reached() -> None:
    unit, socket = units.read(units.PROXY), koord_proxy.config.DOCKERD
    assert units.on_the_host(socket) == "/run/docker.sock", "hidden, if it were a user's or in /tmp"
    # It is root's and docker's, with mode 0660; elsewhere it may be another user's.
    assert "CAP_DAC_OVERRIDE" in units.only(unit, "Service.CapabilityBoundingSet")
    assert "AF_UNIX" in units.only(unit, "Service.RestrictAddressFamilies")


def test_no_setting_is_needed() -> None:
    for path in (units.PROXY, units.KOORDLET):
        unit = units.read(path)
        program = path.stem
        flags = f"{program.replace('-', '_').upper()}_FLAGS"
        assert units.only(unit, "Service.ExecStart") == f"/opt/pykoord/bin/{program} ${flags}"
        assert units.only(unit, "Service.Environment") == f"{flags}="
        assert units.only(unit, "Service.EnvironmentFile") == f"-/etc/default/{program}"


def test_the_socket_is_the_proxy_s_default() -> None:
    socket, settings = units.read(units.PROXY_SOCKET), koord_proxy.config.ProxySettings()
    endpoint = units.on_the_host(settings.koord_runtimeproxy_endpoint)
    assert units.only(socket, "Socket.ListenStream") == endpoint
    assert units.only(socket, "Socket.SocketMode") == settings.socket_mode
    assert units.only(units.read(units.PROXY), "Install.Also") == units.PROXY_SOCKET.name


def test_the_proxy_may_write_what_it_writes() -> None:
    unit, settings = units.read(units.PROXY), koord_proxy.config.ProxySettings()
    # It makes the directory of registrations, should it vanish.
    paths = (settings.state_path, settings.koord_runtimeproxy_endpoint, settings.hook_config_path)
    assert {str(Path(units.on_the_host(path)).parent) for path in paths} <= {*units.writable(unit)}
    made = f"/etc/{units.only(unit, 'Service.ConfigurationDirectory')}"
    assert made == settings.hook_config_path
    assert float(units.only(unit, "Service.TimeoutStopSec")) > settings.drain_timeout


def test_koordlet_may_write_what_it_writes() -> None:
    unit, settings = units.read(units.KOORDLET), koordlet.agent.config.KoordletSettings()
    allowed = {*units.writable(unit)}
    assert settings.runtime_hooks_addr == settings.runtime_hooks_host_endpoint
    database = f"{settings.state_dir}/originals.db"
    paths = (settings.runtime_hooks_addr, settings.runtime_hooks_config_path, database)
    assert {str(Path(units.on_the_host(path)).parent) for path in paths} <= allowed
    # Below the state directory, unless configured otherwise.
    assert (settings.tsdb_path, settings.prediction_checkpoint_filepath) == ("", "")
    assert {f"-{settings.cgroup_root_dir}", f"-{settings.sys_fs_root_dir}/resctrl"} <= allowed
    made = f"/etc/{units.only(unit, 'Service.ConfigurationDirectory')}"
    assert made == settings.runtime_hooks_config_path


def test_the_device_daemon_may_write_where_koordlet_reads() -> None:
    unit, settings = units.read(units.DEVICE_DAEMON), DeviceDaemonSettings()
    file = Path(units.on_the_host(settings.prints_output_file))
    read = units.on_the_host(koordlet.agent.config.KoordletSettings().xpu_device_infos_dir)
    assert str(file.parent) == read
    socket = dict(one.split("=", 1) for one in unit["Service.Environment"])["KDD_STATUS_ADDRESS"]
    assert {read, str(Path(socket.removeprefix("unix://")).parent)} <= {*units.writable(unit)}
    assert units.only(unit, "Service.RuntimeDirectoryPreserve") == "yes", "a restart keeps the file"
    assert float(units.only(unit, "Service.WatchdogSec")) > 2 * settings.probe_timeout


def test_everybody_may_ask_koordlet() -> None:
    unit, settings = units.read(units.KOORDLET), koordlet.agent.config.KoordletSettings()
    assert not settings.status_address, "else the socket is not beside the other one"
    assert units.only(unit, "Service.RuntimeDirectoryMode") == "0755"
    beside = Path(units.on_the_host(settings.runtime_hooks_addr)).with_name("status.sock")
    asked = koordctl.koordlet_client.ADDRESS.removeprefix("unix://")
    assert units.on_the_host(asked) == str(beside)


PAGES_WITH_DROP_INS = (
    "operations/install.md",
    "operations/docker.md",
    "collectors.md",
    "strategies/caches-and-disks.md",
)


def _drop_ins() -> Iterator[tuple[str, str]]:
    """The unit and the text of each drop-in: ``systemctl edit`` before it names the unit."""
    for page in PAGES_WITH_DROP_INS:
        text = (DOCS / page).read_text()
        for block in re.finditer(r"^```ini\n(.*?)^```", text, re.MULTILINE | re.DOTALL):
            edited = re.findall(r"`systemctl edit ([\w-]+)`", text[: block.start()])
            yield f"{edited[-1]}.service", block[1]


DROP_INS = list(_drop_ins())


@needs_analyze
@pytest.mark.parametrize(("unit", "text"), DROP_INS, ids=[unit for unit, _ in DROP_INS])
def test_drop_ins_of_the_documents(docker_root: Path, unit: str, text: str) -> None:
    directory = docker_root / f"etc/systemd/system/{unit}.d"
    directory.mkdir()
    (directory / "override.conf").write_text(text)
    said = analyze("verify", f"--root={docker_root}", "--man=no", unit)
    assert (said.stdout, said.stderr, said.returncode) == ("", "", 0)


def test_cri_dockerd_is_given_the_proxys_socket() -> None:
    [text] = [one for unit, one in DROP_INS if unit == "cri-docker.service"]
    socket = units.only(units.read(units.PROXY_SOCKET), "Socket.ListenStream")
    assert f" --docker-endpoint unix://{socket}\n" in text


@pytest.mark.parametrize("path", [units.PROXY, units.KOORDLET], ids=lambda path: path.name)
def test_what_is_allowed_is_what_is_needed(path: Path) -> None:
    unit = units.read(path)
    assert "Service.PrivateNetwork" not in unit, "metrics are scraped on the host's loopback"
    netlink = ["AF_NETLINK"] if path == units.KOORDLET else []
    families = units.only(unit, "Service.RestrictAddressFamilies").split()
    assert families == ["AF_UNIX", "AF_INET", "AF_INET6", *netlink]
    assert units.only(unit, "Service.IPAddressAllow") == "localhost"
    address = koord_proxy.config.ProxySettings().metrics_address
    assert re.match(r"127\.", address), "a default that IPAddressDeny= would cut off"
