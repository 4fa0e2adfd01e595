"""The program as an administrator meets it: a process, its socket, its file, its messages."""

import json
import os
import signal
import socket
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from koord_demo.programs import console_script
from koord_hooks.stages import Stage, rpc_path
from koord_proto import hook_pb2 as pb
from koordlet.agent.main import main

from tests.support.processes import PATIENCE, get, until
from tests.support.proxy import Koordlet

# What the default plugins ask for.
HOOKS = ("PreRunPodSandbox", "PreCreateContainer", "PreUpdateContainerResources")
CREATE = Stage.PRE_CREATE_CONTAINER


class Program(Koordlet):
    """A koordlet that leaves the machine's own cgroups alone: it finds none."""

    def __init__(self, directory: Path, *flags: str) -> None:
        nowhere = f"--cgroup-root-dir={directory}/none"
        super().__init__(directory, directory / "hookserver.d", nowhere, *flags)

    def launch(self) -> "Program":
        self.spawn([console_script("koordlet"), *self.flags])
        return self

    @property
    def lines(self) -> list[str]:
        """What it said to people, not to the log."""
        return [line for line in self.said.splitlines() if not line.startswith("{")]

    def ask(self, request: pb.ContainerResourceHookRequest) -> Any:
        with grpc.insecure_channel(f"unix:{self.socket}") as channel:
            call = channel.unary_unary(
                rpc_path(CREATE),
                request_serializer=pb.ContainerResourceHookRequest.SerializeToString,
                response_deserializer=pb.ContainerResourceHookResponse.FromString,
            )
            return call(request, timeout=PATIENCE, wait_for_ready=True)


Make = Callable[..., Program]


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Make]:
    made: list[Program] = []

    def program(*flags: str, started: bool = True) -> Program:
        made.append(Program(tmp_path, *flags))
        if started:
            made[-1].start()
        return made[-1]

    yield program
    for one in made:
        one.close()


def test_it_registers_answers_and_leaves_only_its_registration(make, batch_container, batch_answer):
    koordlet = make("--runtime-hooks-failure-policy=Fail", "--hook-timeout=1.5")
    text = koordlet.registration.read_text()
    assert json.loads(text) == {
        "remote-endpoint": str(koordlet.socket),
        "failure-policy": "Fail",
        "runtime-hooks": list(HOOKS),
        "timeout": 1.5,
    }
    assert koordlet.ask(batch_container) == batch_answer
    assert koordlet.stop() == 0
    # The proxy is to expect it back.
    assert koordlet.registration.read_text() == text
    assert not koordlet.socket.exists()
    assert koordlet.lines == []
    logged = koordlet.events()
    assert [line["message"] for line in logged[1:]] == [
        *("serving", "changed", "stopping", "stopped"),
    ]
    assert (logged[2]["pod"], logged[2]["container"]) == ("batch/job-1", "main")


def test_what_a_kill_leaves_does_not_hinder_the_next(make, batch_container):
    koordlet = make()
    koordlet.kill()
    assert koordlet.socket.exists()
    koordlet.start()
    koordlet.ask(batch_container)
    koordlet.signal(signal.SIGINT)
    assert koordlet.wait() == 0


def test_a_second_one_gives_way(make, batch_container):
    first = make()
    second = make(started=False).launch()
    assert second.wait() == 1
    assert second.lines == [f"koordlet: {first.socket}: a running server answers on this socket"]
    assert first.registration.exists()
    first.ask(batch_container)


def test_hangup_registers_again(make):
    koordlet = make()
    text = koordlet.registration.read_text()
    koordlet.registration.unlink()
    koordlet.signal(signal.SIGHUP)
    until(koordlet.registration.exists)
    assert koordlet.registration.read_text() == text
    assert koordlet.stop() == 0


def test_stages_can_be_disabled(make, batch_container):
    koordlet = make("--runtime-hooks-disable-stages=PreCreateContainer")
    registered = json.loads(koordlet.registration.read_text())["runtime-hooks"]
    assert registered == [stage for stage in HOOKS if stage != "PreCreateContainer"]
    answer = koordlet.ask(batch_container)
    assert answer.container_resources == batch_container.container_resources


def test_a_plugin_failure_can_fail_the_call(make, batch_container, tmp_path, monkeypatch):
    """The plugin is a third party's, as pip would have installed it."""
    hook = "@hookimpl\ndef pre_create_container(): raise KeyError('x')"
    (tmp_path / "theirs.py").write_text(f"from koord_hooks.specs import hookimpl\n{hook}\n")
    info = tmp_path / "theirs-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: theirs\nVersion: 1\n")
    (info / "entry_points.txt").write_text("[pykoord.hooks]\ntheirs = theirs\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    koordlet = make("--runtime-hooks-plugin-failure-policy=Fail", "--hook-plugins=theirs")
    with pytest.raises(grpc.RpcError, match="hook plugin theirs failed"):
        koordlet.ask(batch_container)


def test_metrics_are_served(make, tmp_path, batch_container):
    path = tmp_path / "metrics.sock"
    koordlet = make(f"--metrics-address={path}")
    koordlet.ask(batch_container)
    wanted = 'outcome="patch",plugin="batchresource",stage="PreCreateContainer"} 1.0'
    # Counted once the answer is on its way.
    until(lambda: wanted in get(path, "/metrics"))
    assert koordlet.stop() == 0
    assert not path.exists()


def test_systemd_is_notified(make, tmp_path, monkeypatch):
    monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))
    monkeypatch.setenv("WATCHDOG_USEC", "100000")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as systemd:
        systemd.bind(os.environ["NOTIFY_SOCKET"])
        systemd.settimeout(PATIENCE)
        koordlet = make(started=False).launch()
        assert systemd.recv(100) == b"READY=1"
        assert koordlet.registration.exists()
        assert systemd.recv(100) == b"WATCHDOG=1"
        koordlet.signal(signal.SIGTERM)
        assert set(iter(lambda: systemd.recv(100), b"STOPPING=1")) <= {b"WATCHDOG=1"}
        assert koordlet.wait() == 0


@pytest.mark.parametrize(
    ("flag", "words"),
    [
        ("--hook-plugins=batch", 'hook plugin "batch" does not exist; there are: batchresource, '),
        ("--runtime-hooks-addr=/" + "x" * 120, "107 bytes"),
        ("--metrics-address=nowhere", "--metrics-address: "),
        ("--status-address=0.0.0.0:1", "only loopback"),
    ],
)
def test_bad_settings_are_one_line_and_exit_2(make, flag, words):
    koordlet = make(flag, started=False).launch()
    assert koordlet.wait() == 2
    [line] = koordlet.lines
    assert line.startswith("koordlet: ")
    assert words in line


@pytest.mark.parametrize(
    ("flag", "words"),
    [
        ("--no-such-flag", "--no-such-flag"),
        ("--runtime-hooks-failure-policy=Abort", 'is "Abort"; expected one of Ignore, Fail'),
        ("--runtime-hooks-network=tcp", 'is "tcp"; expected one of unix'),
        ("--runtime-hooks-addr=k.sock", "expected an absolute path"),
    ],
)
def test_flags_that_cannot_be_parsed_are_the_same(monkeypatch, capsys, flag, words):
    """Nothing runs yet when they are refused: that needs no process."""
    monkeypatch.setattr(sys, "argv", ["koordlet", flag])
    with pytest.raises(SystemExit) as left:
        main()
    assert left.value.code == 2
    [line] = capsys.readouterr().err.splitlines()
    assert line.startswith("koordlet: ")
    assert words in line


def test_a_registration_directory_that_cannot_be_is_one_line_and_exit_1(make, tmp_path):
    (tmp_path / "hookserver.d").write_text("a file")
    koordlet = make(started=False).launch()
    assert koordlet.wait() == 1
    [line] = koordlet.lines
    assert line.startswith(f"koordlet: {tmp_path / 'hookserver.d'}: cannot register: ")
    assert not koordlet.socket.exists()


@pytest.mark.parametrize(
    ("flag", "words"), [("--version", "koordlet "), ("--help", "--runtime-hooks-addr")]
)
def test_version_and_help(monkeypatch, capsys, flag, words):
    monkeypatch.setattr(sys, "argv", ["koordlet", flag])
    with pytest.raises(SystemExit) as left:
        main()
    assert not left.value.code
    printed = capsys.readouterr()
    assert words in printed.out
    assert printed.err == ""
