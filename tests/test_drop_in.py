"""Each program starts with the arguments that Koordinator's own manifests give to its original."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import koord_descheduler.program.settings
import koord_devices.config
import koord_manager.program.config
import koord_manager.program.ignored_flags
import koord_proxy.config
import koord_scheduler.program.settings
import koordlet.agent.config
import koordlet.agent.ignored_flags
import pytest
from koord_service.go_flags import GoFlags
from koord_service.settings import SettingsError, parse

from tests.support.koordinator_arguments import (
    CHART,
    DESCHEDULER,
    DEVICE_DAEMON,
    FLAGS,
    KLOG,
    KOORDLET,
    MANAGER,
    MANIFESTS,
    PROXY,
    SCHEDULER,
)
from tests.support.ports import free_port
from tests.support.processes import PATIENCE, until

PROGRAMS: dict[str, tuple[type[Any], GoFlags]] = {
    KOORDLET: (koordlet.agent.config.KoordletSettings, koordlet.agent.ignored_flags.IGNORED),
    MANAGER: (koord_manager.program.config.Settings, koord_manager.program.ignored_flags.IGNORED),
    PROXY: (koord_proxy.config.ProxySettings, koord_proxy.config.IGNORED),
}
TEXTS = ("node-strategy-name-need-check", "runtime-hook-server-val")
"""Flags whose values look like those of booleans, and are text."""

WITHOUT_FLAG_LISTS: dict[str, tuple[type[Any], GoFlags]] = {
    SCHEDULER: (
        koord_scheduler.program.settings.SchedulerSettings,
        koord_scheduler.program.settings.IGNORED,
    ),
    DESCHEDULER: (
        koord_descheduler.program.settings.DeschedulerSettings,
        koord_descheduler.program.settings.IGNORED,
    ),
    DEVICE_DAEMON: (koord_devices.config.DeviceDaemonSettings, koord_devices.config.IGNORED),
}
"""Those of which only the arguments of manifest and chart are held here."""

LISTS = [*MANIFESTS.items(), *CHART.items()]
programs = pytest.mark.parametrize("program", PROGRAMS)


def read(program: str, *arguments: str) -> Any:
    settings, ignored = (PROGRAMS | WITHOUT_FLAG_LISTS)[program]
    return parse(
        settings, prog=program, description="", argv=arguments, environ={}, ignored=ignored
    )


def words(text: str) -> list[tuple[str, str]]:
    """Names and values."""
    return [(name, value) for name, _, value in (one.partition("=") for one in text.split())]


@pytest.mark.parametrize(("program", "arguments"), LISTS)
def test_the_lists_of_manifest_and_chart(program: str, arguments: tuple[str, ...]) -> None:
    read(program, *arguments)


def test_what_of_the_chart_counts() -> None:
    found = read(KOORDLET, *CHART[KOORDLET])
    assert found.metrics_address == ":9316"
    assert found.cgroup_root_dir == "/host-cgroup/"
    assert found.runtime_hooks_host_endpoint == "/var/run/koordlet/koordlet.sock"
    assert "BEMemoryEvict=true" in found.feature_gates
    assert found.log_level == "info"
    manager = read(MANAGER, *CHART[MANAGER])
    assert manager.health_probe_addr == ":8000"
    assert manager.feature_gates == ()
    scheduler = read(SCHEDULER, *CHART[SCHEDULER])
    assert (scheduler.bind_address, scheduler.port) == ("0.0.0.0", 10251)  # what probes ask
    assert scheduler.configuration == "/config/koord-scheduler.config"


@programs
@pytest.mark.parametrize("dashes", ["-", "--"])
@pytest.mark.parametrize("apart", [False, True], ids=["with =", "as two words"])
def test_every_flag_of_the_original(program: str, dashes: str, *, apart: bool) -> None:
    for name, value in [*words(FLAGS[program]), *words(KLOG)]:
        if apart and value in ("true", "false") and name not in TEXTS:
            read(program, f"{dashes}{name}")
        elif apart:
            read(program, f"{dashes}{name}", value)
        else:
            read(program, f"{dashes}{name}={value}")


@programs
def test_no_flag_is_both_ignored_and_a_setting(program: str) -> None:
    _, ignored = PROGRAMS[program]
    for name in ignored.names - {"v"}:
        settings, _ = PROGRAMS[program]
        with pytest.raises(SettingsError, match=name):
            parse(settings, prog=program, description="", argv=[f"--{name}=1"], environ={})


@programs
@pytest.mark.parametrize(
    ("given", "meant"),
    [("--logtostdrr=true", "--logtostderr"), ("-loglevel", "--log-level")],
)
def test_a_misspelt_flag_is_refused_with_the_one_that_is_meant(
    program: str, given: str, meant: str
) -> None:
    with pytest.raises(SettingsError) as refused:
        read(program, given)
    assert given.partition("=")[0] in str(refused.value)
    assert f"{meant}?" in str(refused.value)


class Started:
    """A process of one of our programs; what it says goes to a file."""

    def __init__(self, folder: Path, command: list[str], arguments: list[str]) -> None:
        self._log = folder / "log"
        with self._log.open("wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, *command, *arguments],
                stderr=log,
                env={"PATH": "/usr/bin", "NODE_NAME": "node-1"},
            )

    @property
    def said(self) -> str:
        return self._log.read_text()

    def wait_until(self, condition: Callable[[], object]) -> None:
        until(lambda: condition() or self.process.poll() is not None)
        assert self.process.poll() is None, self.said

    def ignored(self) -> list[str]:
        """The flags that it names as ignored: in one line, and no other line is about them."""
        [line] = [line for line in self.said.splitlines() if "logtostderr" in line]
        return [word for word in line.replace('"', " ").replace("=", " ").split() if "--" in word]


Start = Callable[[list[str], list[str]], Started]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    running = []

    def begin(command: list[str], arguments: list[str]) -> Started:
        running.append(Started(tmp_path, command, arguments))
        return running[-1]

    yield begin
    for one in running:
        one.process.kill()
        one.process.wait(PATIENCE)


def here(arguments: tuple[str, ...], folder: Path, port: int = 0) -> list[str]:
    """The arguments, with paths and ports that are this test's own."""
    moved = (
        word.replace("=/host-", f"={folder}/host-")
        .replace("=/var/run/", f"={folder}/")
        .replace("=:9316", f"=127.0.0.1:{port}")
        for word in arguments
    )
    return list(moved)


@pytest.mark.parametrize("lists", [MANIFESTS, CHART], ids=["manifest", "chart"])
def test_koordlet_starts(start: Start, tmp_path: Path, lists: dict[str, tuple[str, ...]]) -> None:
    port = free_port()
    more = [
        f"--runtime-hooks-addr={tmp_path}/run/koordlet.sock",
        f"--runtime-hooks-config-path={tmp_path}/hookserver.d",
        f"--runtime-hooks-nri-socket-path={tmp_path}/nri.sock",
        f"--state-dir={tmp_path}/state",
        f"--cgroup-root-dir={tmp_path}/none",  # the machine's own stay as they are
    ]
    program = start(["-m", "koordlet"], [*here(lists[KOORDLET], tmp_path, port), *more])
    program.wait_until(lambda: (tmp_path / "hookserver.d" / "koordlet.json").exists())
    if lists is CHART:
        with urlopen(f"http://127.0.0.1:{port}/metrics", timeout=PATIENCE) as answer:
            assert b"koordlet_" in answer.read()
    assert program.ignored() == ["--logtostderr"]


def test_the_manager_complains_of_nothing_but_the_cluster(start: Start, tmp_path: Path) -> None:
    program = start(["-m", "koord_manager"], list(CHART[MANAGER]))
    assert program.process.wait(PATIENCE) == 2
    assert program.said.splitlines()[-1].startswith("koord-manager: no Kubernetes API: ")
    assert program.ignored() == ["--logtostderr", "--sync-period"]


def test_the_proxy_starts(start: Start, tmp_path: Path) -> None:
    more = [
        f"--koord-runtimeproxy-endpoint={tmp_path}/proxy.sock",
        f"--hook-config-path={tmp_path}/hookserver.d",
        f"--state-path={tmp_path}/state.db",
        "--metrics-address=",
        "-logtostderr",
    ]
    program = start(["-m", "koord_proxy"], [*here(MANIFESTS[PROXY], tmp_path), *more])
    program.wait_until((tmp_path / "proxy.sock").exists)
    program.wait_until(lambda: "serving" in program.said)
    assert program.ignored() == ["--logtostderr"]
