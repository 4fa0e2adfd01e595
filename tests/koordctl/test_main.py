import json
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from koord_model.version import describe_version
from koord_service.status import StatusPage

from tests.koordctl.conftest import PODS, Failing, Run, Serve
from tests.support.processes import PATIENCE

PROXY_HINT = (
    "is koord-runtime-proxy running, and is this its --metrics-address? "
    "Nodes that use NRI need no proxy."
)
KOORDLET_HINT = "is koordlet running, and is this its --status-address? It answers on its own node."


def test_the_proxys_commands(proxy: str, run: Run) -> None:
    at = f"--address={proxy}"
    assert "batch/job-1" in run("pods", at)
    reported = run("pods", at, "--unmanaged")
    assert "no answer within 2 s" in reported
    assert "shop/web" not in reported
    assert json.loads(run("pods", "--json", at)) == PODS
    [job] = json.loads(run("pods", "--json", "--unmanaged", at))
    assert [one["name"] for one in job["containers"]] == ["main"]


@pytest.mark.parametrize(
    ("argv", "key"),
    [
        ("node", "capacity"),
        ("metrics query node_cpu_usage", "series"),
        ("metrics kinds", "kinds"),
        ("predict show", "predictors"),
    ],
)
def test_koordlets_documents_as_json(koordlet: str, run: Run, argv: str, key: str) -> None:
    assert json.loads(run(*argv.split(), "--json", f"--address={koordlet}"))[key]


@pytest.mark.parametrize(
    ("argv", "hint"),
    [
        ("pods", PROXY_HINT),
        ("hooks list", PROXY_HINT),
        *((f"why {what}", KOORDLET_HINT) for what in ("suppress", "pod a", "evicted", "cgroup a")),
        *((what, KOORDLET_HINT) for what in ("top", "node", "events", "metrics kinds")),
        ("predict show", KOORDLET_HINT),
    ],
)
def test_nobody_answers(failing: Failing, tmp_path: Path, argv: str, hint: str) -> None:
    code, line = failing(*argv.split(), f"--address={tmp_path}/s")
    expected = f"koordctl: no answer from {tmp_path}/s: No such file or directory; {hint}"
    assert (code, line) == (1, expected)


@pytest.mark.parametrize(
    ("argv", "page", "words"),
    [
        ("pods", "pods", "{} is not a status of koord-runtime-proxy"),
        ("top", "v1/top", "does not answer /v1/top as koordlet does"),
    ],
)
def test_somebody_else_answers(
    failing: Failing, serve: Serve, argv: str, page: str, words: str
) -> None:
    address = serve(**{page: StatusPage(b"healthy\n")}).address
    code, line = failing(argv, f"--address={address}")
    assert code == 1
    assert words.format(address) in line


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        ("", "COMMAND"),
        ("start", "invalid choice: 'start'"),
        ("status --jsn", "--jsn"),
        ("status --unmanaged", "--unmanaged"),
        ("pods --address=9319", 'address is "9319"; expected 127.0.0.1:9319'),
        *((f"top {flag}", flag[:2]) for flag in ("-n0", "-nx", "--sort=pods", "--class")),
        *((f"predict show {flag}", flag[:2]) for flag in ("-n0", "-nx", "--sort=cpu")),
        ("events -n 0", '"0" is not a number of events; expected 1 or more'),
        ("events -n -3", '"-3" is not a number'),
        ("events -n many", '"many" is not a number'),
        ("events --pod web", '"web" is not a pod; expected NAMESPACE/NAME'),
        ("events --pod a/b/c", '"a/b/c" is not a pod'),
        ("metrics query", "KIND"),
        ("metrics query node_psi io", '"io" is not a label; expected LABEL=VALUE'),
        ("metrics query node_psi window=5", '"window=5" is not a label'),
        ("why pod", "the following arguments are required: NAME"),
        ("why pod a/b/c", '"a/b/c" is not a pod; expected NAMESPACE/NAME or NAME'),
        ("why pod /b", '"/b" is not a pod'),
        ("why evicted b/", '"b/" is not a pod'),
        ("why cgroup /", '"/" is not a cgroup; expected one below /sys/fs/cgroup/'),
        ("why cgroup /sys/fs/cgroup/memory", "is not a cgroup"),
        ("why suppress --history 501", '"501" is not a number of decisions; expected 0 to 500'),
        ("why suppress --history -1", "--history"),
        ("why moon", "moon"),
    ],
)
def test_arguments_that_cannot_be(failing: Failing, argv: str, words: str) -> None:
    code, line = failing(*argv.split())
    assert code == 2
    assert words in line


PROGRAM = [sys.executable, "-c", "from koordctl.main import main; main()"]


def test_version_and_help() -> None:
    for flags, words in (
        (["--version"], f"{describe_version('koordctl')}\n"),
        (["--help"], "pods and containers, the hooks that they missed"),
        (["pods", "--help"], "--unmanaged"),
    ):
        reported = subprocess.run([*PROGRAM, *flags], capture_output=True, text=True, check=True)
        assert words in reported.stdout
        assert reported.stderr == ""


def test_a_reader_that_has_seen_enough(serve: Serve) -> None:
    address = serve(pods=StatusPage(json.dumps(PODS * 5000).encode())).address
    with subprocess.Popen(
        [*PROGRAM, "pods", "--address", address], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as program:
        assert program.stdout is not None
        assert program.stderr is not None
        program.stdout.readline()
        program.stdout.close()
        assert program.stderr.read() == b""
        assert program.wait(PATIENCE) == 0


def test_who_interrupts_it_knows_why(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(tmp_path / "s"))
        server.listen()
        server.settimeout(PATIENCE)
        command = [sys.executable, "-m", "koordctl.main", "node", f"--address={tmp_path}/s"]
        with subprocess.Popen(command, stderr=subprocess.PIPE, cwd=tmp_path) as program:
            connection, _ = server.accept()
            with connection:
                program.send_signal(signal.SIGINT)
                _, said = program.communicate(timeout=PATIENCE)
    assert (program.returncode, said) == (130, b"")
