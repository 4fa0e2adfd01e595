"""The program as an admin meets it: a process, its socket, its file, its words."""

import json
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from koord_hooks.stages import Stage, rpc_path
from koord_proto import hook_pb2 as pb
from koordlet.agent.main import main

from tests.support.processes import PATIENCE

PROGRAM = [sys.executable, "-c", "from koordlet.agent.main import main; main()"]
# What the default plugins ask for.
HOOKS = ("PreRunPodSandbox", "PreCreateContainer", "PreUpdateContainerResources")


class Koordlet:
    """A running koordlet; what it says goes to ``said``."""

    def __init__(self, folder: Path, *flags: str, environ: dict[str, str] | None = None) -> None:
        self.socket = folder / "run" / "k.sock"
        self.file = folder / "hookserver.d" / "koordlet.json"
        self._log = folder / "log"
        with self._log.open("ab") as log:
            self.process = subprocess.Popen(
                [
                    *PROGRAM,
                    f"--runtime-hooks-addr={self.socket}",
                    f"--runtime-hooks-host-endpoint={self.socket}",
                    f"--runtime-hooks-config-path={self.file.parent}",
                    # The machine's own cgroups are none of these tests' business.
                    "--read-only",
                    f"--state-dir={folder / 'state'}",
                    *flags,
                ],
                stderr=log,
                env=environ,
            )

    @property
    def said(self) -> str:
        return self._log.read_text()

    def until_serving(self) -> "Koordlet":
        until(lambda: self.file.exists() or self.process.poll() is not None)
        assert self.process.poll() is None, self.said
        return self

    def stop(self, number: signal.Signals = signal.SIGTERM) -> int:
        self.process.send_signal(number)
        return self.process.wait(PATIENCE)

    def ask(self, stage: Stage, request: pb.ContainerResourceHookRequest) -> Any:
        with grpc.insecure_channel(f"unix:{self.socket}") as channel:
            call = channel.unary_unary(
                rpc_path(stage),
                request_serializer=pb.ContainerResourceHookRequest.SerializeToString,
                response_deserializer=pb.ContainerResourceHookResponse.FromString,
            )
            return call(request, timeout=PATIENCE, wait_for_ready=True)


def until(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, "waited too long"
        time.sleep(0.01)


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Koordlet]]:
    started: list[Koordlet] = []

    def starter(*flags: str, **options: Any) -> Koordlet:
        started.append(Koordlet(tmp_path, *flags, **options))
        return started[-1]

    yield starter
    for koordlet in started:
        if koordlet.process.poll() is None:
            koordlet.process.kill()
        koordlet.process.wait()


Start = Callable[..., Koordlet]


def test_it_registers_answers_and_leaves_only_its_registration(
    start: Start,
    batch_container: pb.ContainerResourceHookRequest,
    batch_answer: pb.ContainerResourceHookResponse,
) -> None:
    flags = ["--runtime-hooks-failure-policy=Fail", "--hook-timeout=1.5", "--log-format=json"]
    koordlet = start(*flags).until_serving()
    assert json.loads(koordlet.file.read_text()) == {
        "remote-endpoint": str(koordlet.socket),
        "failure-policy": "Fail",
        "runtime-hooks": list(HOOKS),
        "timeout": 1.5,
    }
    assert koordlet.ask(Stage.PRE_CREATE_CONTAINER, batch_container) == batch_answer
    text = koordlet.file.read_text()
    assert koordlet.stop() == 0
    # The proxy is to expect it back.
    assert koordlet.file.read_text() == text
    assert not koordlet.socket.exists()
    told = [json.loads(line) for line in koordlet.said.splitlines()]
    assert [line["message"] for line in told] == ["serving", "changed", "stopping"]
    assert (told[1]["pod"], told[1]["container"]) == ("batch/job-1", "main")


def test_what_a_kill_leaves_does_not_hinder_the_next(
    start: Start, batch_container: pb.ContainerResourceHookRequest
) -> None:
    killed = start().until_serving()
    killed.stop(signal.SIGKILL)
    assert killed.socket.exists()
    left = killed.file.stat().st_mtime_ns
    successor = start()
    until(lambda: successor.file.stat().st_mtime_ns != left)
    successor.ask(Stage.PRE_CREATE_CONTAINER, batch_container)
    assert successor.stop(signal.SIGINT) == 0


def test_a_second_one_gives_way(
    start: Start, batch_container: pb.ContainerResourceHookRequest
) -> None:
    first = start().until_serving()
    second = start()
    assert second.process.wait(PATIENCE) == 1
    assert [line for line in second.said.splitlines() if line.startswith("koordlet: ")] == [
        f"koordlet: {first.socket}: a running server answers on this socket"
    ]
    assert first.file.exists()
    first.ask(Stage.PRE_CREATE_CONTAINER, batch_container)


def test_hangup_registers_again_and_reads_nothing_anew(start: Start) -> None:
    koordlet = start().until_serving()
    text = koordlet.file.read_text()
    koordlet.file.unlink()
    until(lambda: "serving" in koordlet.said)
    koordlet.process.send_signal(signal.SIGHUP)
    until(koordlet.file.exists)
    assert koordlet.file.read_text() == text
    assert koordlet.stop() == 0


def test_stages_can_be_left_out(
    start: Start, batch_container: pb.ContainerResourceHookRequest
) -> None:
    koordlet = start("--runtime-hooks-disable-stages=PreCreateContainer").until_serving()
    registered = json.loads(koordlet.file.read_text())["runtime-hooks"]
    assert registered == [stage for stage in HOOKS if stage != "PreCreateContainer"]
    answer = koordlet.ask(Stage.PRE_CREATE_CONTAINER, batch_container)
    assert answer.container_resources == batch_container.container_resources


def test_a_plugin_failure_can_fail_the_call(
    start: Start,
    batch_container: pb.ContainerResourceHookRequest,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    _distribute(tmp_path, "theirs", "def pre_create_container(): raise KeyError('x')")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    flags = ("--runtime-hooks-plugin-failure-policy=Fail", "--hook-plugins=theirs")
    koordlet = start(*flags).until_serving()
    with pytest.raises(grpc.RpcError, match="hook plugin theirs failed"):
        koordlet.ask(Stage.PRE_CREATE_CONTAINER, batch_container)


def _distribute(directory: Path, name: str, hook: str) -> None:
    """A third party's plugin, as pip would have put it there."""
    imports = "from koord_hooks.specs import hookimpl"
    (directory / f"{name}.py").write_text(f"{imports}\n@hookimpl\n{hook}\n")
    info = directory / f"{name}-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1\n")
    (info / "entry_points.txt").write_text(f"[pykoord.hooks]\n{name} = {name}\n")


def test_metrics_are_served(
    start: Start, tmp_path: Path, batch_container: pb.ContainerResourceHookRequest
) -> None:
    path = tmp_path / "status.sock"
    koordlet = start(f"--metrics-address={path}").until_serving()
    koordlet.ask(Stage.PRE_CREATE_CONTAINER, batch_container)
    wanted = 'outcome="patch",plugin="batchresource",stage="PreCreateContainer"} 1.0'
    # Counted once the answer is on its way.
    until(lambda: wanted in page(path))
    assert koordlet.stop() == 0
    assert not path.exists()


def page(path: Path) -> str:
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(str(path))
        client.sendall(b"GET /metrics HTTP/1.0\r\n\r\n")
        return b"".join(iter(lambda: client.recv(65536), b"")).decode()


def test_systemd_hears_of_it(start: Start, tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as systemd:
        systemd.bind(str(tmp_path / "notify"))
        systemd.settimeout(PATIENCE)
        environ = {"NOTIFY_SOCKET": str(tmp_path / "notify"), "WATCHDOG_USEC": "100000"}
        koordlet = start(environ=environ)
        assert systemd.recv(100) == b"READY=1"
        assert koordlet.file.exists()
        assert systemd.recv(100) == b"WATCHDOG=1"
        koordlet.process.send_signal(signal.SIGTERM)
        heard = iter(lambda: systemd.recv(100), b"STOPPING=1")
        assert set(heard) <= {b"WATCHDOG=1"}
        assert koordlet.process.wait(PATIENCE) == 0


@pytest.mark.parametrize(
    ("flag", "words"),
    [
        ("--hook-plugins=batch", 'hook plugin "batch" does not exist; there are: batchresource, '),
        ("--runtime-hooks-addr=/" + "x" * 120, "107 bytes"),
        ("--metrics-address=nowhere", "--metrics-address: "),
        ("--status-address=0.0.0.0:1", "only loopback"),
        ("--no-such-flag", "--no-such-flag"),
    ],
)
def test_bad_settings_are_one_line_and_exit_2(start: Start, flag: str, words: str) -> None:
    koordlet = start(flag)
    assert koordlet.process.wait(PATIENCE) == 2
    [line] = koordlet.said.splitlines()
    assert line.startswith("koordlet: ")
    assert words in line


@pytest.mark.parametrize(
    ("flag", "words"),
    [
        ("--runtime-hooks-failure-policy=Abort", 'is "Abort"; expected one of Ignore, Fail'),
        ("--runtime-hooks-network=tcp", 'is "tcp"; expected one of unix'),
        (
            "--runtime-hooks-disable-stages=PreLunch",
            '"PreLunch" is not a hook type; expected',
        ),
        ("--runtime-hooks-addr=k.sock", "expected an absolute path"),
    ],
)
def test_settings_that_cannot_be_read_are_the_same(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], flag: str, words: str
) -> None:
    """Nothing runs yet when they are refused: that needs no process."""
    monkeypatch.setattr(sys, "argv", ["koordlet", flag])
    with pytest.raises(SystemExit) as left:
        main()
    assert left.value.code == 2
    [line] = capsys.readouterr().err.splitlines()
    assert line.startswith("koordlet: ")
    assert words in line


def test_a_registration_directory_that_cannot_be_is_one_line_and_exit_1(
    start: Start, tmp_path: Path
) -> None:
    (tmp_path / "hookserver.d").write_text("a file")
    koordlet = start()
    assert koordlet.process.wait(PATIENCE) == 1
    [line] = koordlet.said.splitlines()
    assert line.startswith(f"koordlet: {tmp_path / 'hookserver.d'}: cannot register: ")
    assert not koordlet.socket.exists()


def test_version_and_help() -> None:
    for flag, words in (("--version", "koordlet "), ("--help", "--runtime-hooks-addr")):
        told = subprocess.run([*PROGRAM, flag], capture_output=True, text=True, check=True)
        assert words in told.stdout
        assert told.stderr == ""
