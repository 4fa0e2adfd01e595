"""What users of dockerd see through the proxy is what they see without it.

Everything is done twice, directly at dockerd's socket and through the proxy, by the
command line, by the package or byte for byte; then the two are compared.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import io
import json
import os
import random
import re
import select
import signal
import tarfile
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import docker.errors
import pytest

from tests.integration.conftest import assert_sound
from tests.support.docker_client import Answer, Docker, Said, answer, normal
from tests.support.dockerd import IMAGE, Dockerd, dockerd, why_not
from tests.support.processes import until
from tests.support.proxy import Proxy

__all__ = ["dockerd"]

_WHY_NOT = why_not()

pytestmark = [
    pytest.mark.containerd,
    pytest.mark.skipif(_WHY_NOT is not None, reason=_WHY_NOT or "-"),
]

T = TypeVar("T")

KB, MB = 1 << 10, 1 << 20
NAME = "subject"
RUN = ("run", "--rm", "--network=none", f"--name={NAME}")


@functools.cache
def noise(size: int) -> bytes:
    """Bytes that do not compress, of one line and no control characters."""
    return random.Random(size).randbytes(size // 2).hex().encode()


@functools.cache
def archive(size: int) -> bytes:
    """A tar file of one file."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        info = tarfile.TarInfo("noise")
        info.size = size
        tar.addfile(info, io.BytesIO(noise(size)))
    return buffer.getvalue()


def md5(data: bytes) -> str:
    return hashlib.md5(data).hexdigest()


class Both:
    """dockerd's own socket, and the one in front of it."""

    def __init__(self, direct: Docker, relayed: Docker) -> None:
        self.direct = direct
        self.relayed = relayed

    def __call__(self, look: Callable[[Docker], T]) -> T:
        """Look twice; what is seen must be the same."""
        seen = look(self.direct)
        relayed = look(self.relayed)
        # Shown by pytest if they differ; what it says itself is cut short.
        print(seen, relayed, sep="\n")
        assert relayed == seen
        return seen


@pytest.fixture(scope="module")
def relay(dockerd: Dockerd) -> Iterator[Proxy]:
    with tempfile.TemporaryDirectory(prefix="pykoord-it-") as name:
        flags = ("--backend-runtime-mode=Docker", "--log-level=debug")
        with Proxy(Path(name), dockerd.address, *flags) as instance:
            yield instance
            assert_sound(instance)


@pytest.fixture
def both(dockerd: Dockerd, relay: Proxy, tmp_path: Path) -> Iterator[Both]:
    yield Both(Docker(dockerd.address, tmp_path), Docker(relay.address, tmp_path))
    dockerd.remove_all_containers()


@contextlib.contextmanager
def container(at: Docker, script: str = "", *options: str) -> Iterator[None]:
    """A container, by default one that runs until it is removed."""
    command = ["sh", "-c", script] if script else []
    flags = ("--detach", "--network=none", f"--name={NAME}")
    said = at("run", *flags, *options, IMAGE, *command)
    assert said.code == 0, said.err
    try:
        yield
    finally:
        assert at("rm", "--force", NAME).code == 0


# The command line.


@pytest.mark.parametrize("how", ["exec", "run"])
def test_terminal(both, how):
    def look(at: Docker) -> int:
        with contextlib.ExitStack() as stack:
            if how == "exec":
                stack.enter_context(container(at))
                words = ("exec", "-it", NAME, "sh")
            else:
                words = (*RUN, "-it", IMAGE, "sh")
            terminal = stack.enter_context(at.terminal(*words))
            terminal.wait_for("# ")
            for rows, columns in ((24, 80), (33, 99)):
                terminal.resize(rows, columns)
                size = f"{rows} {columns}"
                # The command line tells of a new size in its own time.
                terminal.type(f'until [ "$(busybox stty size)" = "{size}" ]; do :; done\n')
                terminal.type(f"echo is {size[:2]}''{size[2:]}\n")
                terminal.wait_for(f"is {size}")
            terminal.type("exit 5\n")
            return terminal.wait()

    assert both(look) == 5


def test_logs_are_followed(both):
    def look(at: Docker) -> tuple[bytes, bytes, int]:
        with (
            container(at, "echo first; read _; echo second", "-i"),
            at.spawn("logs", "--follow", NAME) as following,
        ):
            # Seen while the container waits.
            first = following.stdout.readline()
            at("attach", NAME, data=b"\n")
            return first, following.stdout.read(), following.wait()

    assert both(look) == (b"first\n", b"second\n", 0)


def test_copy_in_and_out(both, tmp_path):
    data = noise(8 * MB)
    (tmp_path / "in").write_bytes(data)

    def look(at: Docker) -> tuple[Said, ...]:
        with container(at):
            return (
                at("cp", tmp_path / "in", f"{NAME}:/root/file"),
                at("exec", NAME, "busybox", "md5sum", "/root/file"),
                at("cp", f"{NAME}:/root/file", tmp_path / "out"),
                at("cp", f"{NAME}:/root/nothing", tmp_path / "out"),
            )

    _, inside, _, missing = both(look)
    assert inside.out.startswith(md5(data))
    assert (tmp_path / "out").read_bytes() == data
    assert missing.code == 1


def test_buildkit(both, tmp_path):
    context = tmp_path / "context"
    context.mkdir()
    (context / "noise").write_bytes(noise(3 * MB))
    (context / "Dockerfile").write_text("FROM scratch\nCOPY noise /noise\nLABEL who=you\n")
    tried = both.direct("build", "--help", DOCKER_BUILDKIT="1")
    if "buildx" in tried.err:
        pytest.skip("the docker command line has no BuildKit: buildx is not installed")

    def look(at: Docker) -> tuple[int, Said, str]:
        built = at("build", "--no-cache", "--tag=kit", context, DOCKER_BUILDKIT="1")
        assert built.code == 0, built.err
        at("create", f"--name={NAME}", "kit", "nothing")
        at("cp", f"{NAME}:/noise", tmp_path / "out")
        at("rm", NAME)
        digest = md5((tmp_path / "out").read_bytes())
        return built.code, at("inspect", "--format={{.Config.Labels}}", "kit"), digest

    _, labels, digest = both(look)
    assert labels.out == "map[who:you]\n"
    assert digest == md5(noise(3 * MB))


def test_life_of_a_container(both):
    """One command after the other, each with what it says."""
    commands = [
        *(["top", NAME], ["pause", NAME], ["unpause", NAME], ["rename", NAME, "other"]),
        *(["rename", "other", NAME], ["update", "--cpu-shares=77", NAME], ["restart", NAME]),
        *(["exec", NAME, "mkdir", "/new"], ["diff", NAME], ["commit", NAME, "committed"]),
        *(["kill", "--signal=HUP", NAME], ["stop", NAME], ["start", NAME], ["port", NAME]),
        *(["rm", NAME], ["stop", NAME], ["rm", NAME], ["ps", "--all", "--quiet"], ["start", NAME]),
    ]

    def look(at: Docker) -> list[Said]:
        start = at("run", "--detach", "--network=none", f"--name={NAME}", IMAGE)
        _works(at)
        # Process ids of the machine are on top.
        return [start, *(_numberless(at(*command)) for command in commands)]

    codes = [said.code for said in both(look)]
    assert codes == [0] * 15 + [1, 0, 0, 0, 1]


def _works(at: Docker) -> None:
    """Wait for the second of a container's two processes, below the line that names columns."""
    until(lambda: len(at("top", NAME).out.splitlines()) == 3, "the container works")


def _numberless(said: Said) -> Said:
    lines = re.sub(r"[ \t]*\d+[ \t]*", " N ", said.out).splitlines()
    # Of two processes the younger one may have the smaller number.
    return Said(said.code, "\n".join(sorted(lines)), said.err)


def test_what_was_asked_for_is_created(both, dockerd):
    """Through the one request that is read, every wish arrives as it was made."""
    options = [
        *("--network=none", "--hostname=host", "--label=a=b", "--label=ключ=значение"),
        *("--env=X=two words", "--cpu-shares=300", "--cpu-quota=50000", "--cpu-period=100000"),
        *("--cpuset-cpus=0", "--memory=64m", "--memory-swap=128m", "--memory-reservation=32m"),
        *("--pids-limit=50", "--ulimit=nofile=100:200", "--cap-add=NET_ADMIN", "--cap-drop=MKNOD"),
        *("--device=/dev/null:/dev/other:rw", "--tmpfs=/scratch:size=1m", "--volume=/tmp:/in:ro"),
        *("--read-only", "--user=1:1", "--workdir=/tmp", "--entrypoint=sleep", "--stop-timeout=3"),
        *("--stop-signal=INT", "--health-cmd=true", "--restart=on-failure:2", "--shm-size=1m"),
        *("--log-opt=max-size=1m", "--security-opt=no-new-privileges", "--oom-score-adj=500"),
        *("--sysctl=kernel.msgmax=65536", f"--cgroup-parent={dockerd.cgroup_root}/below", "--init"),
        *("--add-host=a:192.0.2.1", "--dns=192.0.2.2", "--group-add=7", "--interactive", "--tty"),
    ]

    def look(at: Docker) -> tuple[Said, Any]:
        created = at("create", f"--name={NAME}", *options, IMAGE, "3600")
        assert at("start", NAME).code == 0
        (found,) = json.loads(at("inspect", NAME).out)
        del found["State"]
        assert at("rm", "--force", NAME).code == 0
        return created, found

    _, found = both(look)
    assert found["Config"]["Labels"] == {"a": "b", "ключ": "значение"}
    assert found["HostConfig"]["CpuShares"] == 300
    assert found["HostConfig"]["CgroupParent"] == f"{dockerd.cgroup_root}/below"


# The package.


def test_package_runs_and_executes(both):
    def look(at: Docker) -> list[Any]:
        with at.package() as client:
            subject = client.containers.run(
                IMAGE, name=NAME, detach=True, network_mode="none", labels={"a": "b"}
            )
            script = "echo out; echo err >&2; exit 6"
            done = subject.exec_run(["sh", "-c", script], demux=True)
            subject.update(cpu_shares=55)
            subject.reload()
            shares = subject.attrs["HostConfig"]["CpuShares"]
            stats = subject.stats(stream=True, decode=True)
            samples = [sorted(next(stats)) for _ in range(2)]
            stats.close()
            with pytest.raises(docker.errors.APIError) as refused:
                subject.remove()
            subject.stop()
            ended = subject.wait()
            subject.remove()
            with pytest.raises(docker.errors.NotFound) as missing:
                client.containers.get(NAME)
            said = [normal(str(one.value.explanation)) for one in (refused, missing)]
            return [done, shares, samples, said, ended, subject.labels]

    done, shares, samples, _, ended, _ = both(look)
    assert done == (6, (b"out\n", b"err\n"))
    assert shares == 55
    assert samples[0] == samples[1]
    assert ended == {"Error": None, "StatusCode": 0}


# Answers, byte for byte.

_NOBODY = [
    ("GET", "/_ping", None, 200),
    ("HEAD", "/_ping", None, 200),
    ("GET", "/v1.41/version", None, 200),
    ("GET", "/nowhere", None, 404),
    ("GET", "/v9.99/version", None, 400),
    ("POST", "/_ping", None, 404),
    ("GET", "/containers/nobody/json", None, 404),
    ("POST", "/containers/nobody/start", None, 404),
    ("POST", "/containers/nobody/stop", None, 404),
    ("POST", "/v1.41/containers/nobody/update", {}, 404),
    ("DELETE", "/containers/nobody", None, 404),
    ("DELETE", "/v1.24/containers/nobody?force=1", None, 404),
    ("POST", "/exec/nobody/start", {}, 404),
    ("POST", "/containers/nobody/attach?stream=1&stdout=1", None, 404),
    ("POST", "/containers/nobody/wait", None, 404),
    ("HEAD", "/containers/nobody/archive?path=/", None, 404),
    ("PUT", "/containers/nobody/archive?path=/", b"tar", 404),
    ("POST", "/containers/create", {"Image": "nobody/knows:this"}, 404),
    ("POST", "/containers/create", {}, 400),
    ("POST", "/containers/create", b"", 500),
    ("POST", "/v1.24/containers/create?name=no%20name", {"Image": IMAGE}, 400),
    ("GET", "/containers/json?all=1&filters=%7B%7D", None, 200),
]


@pytest.mark.parametrize(("method", "page", "body", "status"), _NOBODY)
def test_answer_where_nobody_is(both, method, page, body, status):
    assert both(lambda at: at.ask(method, page, body)).status == status


def test_answers_about_a_container(both):
    asked: list[tuple[str, str, Any, int]] = [
        ("POST", f"/containers/create?name={NAME}", {"Image": IMAGE}, 409),
        ("POST", f"/containers/{NAME}/start", None, 304),
        ("DELETE", f"/containers/{NAME}", None, 409),
        ("HEAD", f"/containers/{NAME}/archive?path=/bin/busybox", None, 200),
        ("POST", f"/containers/{NAME}/update", {"CpuShares": 99}, 200),
        ("POST", f"/containers/{NAME}/update", {"Memory": 1}, 400),
        ("POST", f"/containers/{NAME}/resize?h=x", None, 400),
        ("POST", f"/containers/{NAME}/kill?signal=WHAT", None, 400),
        ("POST", f"/containers/{NAME}/stop?t=3", None, 204),
        ("POST", f"/containers/{NAME}/stop", None, 304),
        ("POST", f"/containers/{NAME}/kill", None, 409),
        ("POST", f"/containers/{NAME}/exec", {"Cmd": ["true"]}, 409),
        ("POST", f"/containers/{NAME}/start", {}, 204),
        ("POST", f"/containers/{NAME}/restart?t=1", None, 204),
        ("DELETE", f"/containers/{NAME}?force=1&v=1", None, 204),
        ("DELETE", f"/containers/{NAME}?force=1&v=1", None, 404),
    ]

    def look(at: Docker) -> list[Answer]:
        wish = {"Image": IMAGE, "HostConfig": {"NetworkMode": "none"}}
        created = at.ask("POST", f"/containers/create?name={NAME}", wish)
        started = at.ask("POST", f"/containers/{NAME}/start")
        return [created, started, *(at.ask(*one[:3]) for one in asked)]

    assert [one.status for one in both(look)] == [201, 204, *(one[3] for one in asked)]


def test_chunked_body(both):
    def chunks(body: bytes) -> Iterator[bytes]:
        return (body[at : at + 100_000] for at in range(0, len(body), 100_000))

    def look(at: Docker) -> list[Answer]:
        wish = json.dumps({"Image": IMAGE, "Cmd": ["x" * 250_000]}).encode()
        with at.connection() as connection:
            seen = []
            for page, body in (
                ("/images/create?fromSrc=-&repo=chunked", archive(2 * MB)),
                (f"/containers/create?name={NAME}", wish),
                (f"/containers/{NAME}/update", b'{"CpuShares": 44}'),
            ):
                headers = {"Content-Type": "application/json", "Transfer-Encoding": "chunked"}
                connection.request("POST", page, chunks(body), headers, encode_chunked=True)
                seen.append(answer(connection.getresponse()))
            connection.request("GET", f"/containers/{NAME}/json")
            found = answer(connection.getresponse()).json
            assert found["HostConfig"]["CpuShares"] == 44
            assert len(found["Path"]) == 250_000
            connection.request("DELETE", f"/containers/{NAME}")
            return [*seen, answer(connection.getresponse())]

    assert [one.status for one in both(look)] == [200, 201, 200, 204]


_HOST = b"Host: docker\r\n"
_WIRE = {
    "old": b"GET /_ping HTTP/1.0\r\n\r\n",
    "old, kept": b"GET /_ping HTTP/1.0\r\nConnection: keep-alive\r\n\r\n"
    b"GET /_ping HTTP/1.0\r\n\r\n",
    "closed": b"GET /_ping HTTP/1.1\r\n" + _HOST + b"Connection: close\r\n\r\n",
    "odd case": b"GET /_ping HTTP/1.1\r\nhOsT: docker\r\ncOnNeCtIoN:close\r\nX-Empty:\r\n\r\n",
    "one after the other": b"GET /_ping HTTP/1.1\r\n"
    + _HOST
    + b"\r\nPOST /containers/nobody/start HTTP/1.1\r\n"
    + _HOST
    + b"\r\nGET /nowhere HTTP/1.1\r\n"
    + _HOST
    + b"Connection: close\r\n\r\n",
    "chunks with extras": b"POST /containers/create HTTP/1.1\r\n"
    + _HOST
    + b"Content-Type: application/json\r\nTransfer-Encoding: chunked\r\nTrailer: X-Sum\r\n"
    + b"Connection: close\r\n\r\n1;what=ever\r\n{\r\n01\r\n}\r\n0\r\nX-Sum: 2\r\n\r\n",
    "empty body": b"POST /containers/nobody/start HTTP/1.1\r\n"
    + _HOST
    + b"Content-Length: 0\r\nConnection: close\r\n\r\n",
}


@pytest.mark.parametrize("request_", _WIRE.values(), ids=_WIRE)
def test_on_the_wire(both, request_):
    def look(at: Docker) -> bytes:
        with at.wire(request_) as wire:
            return _without_dates(_all(wire))

    assert both(look).startswith(b"HTTP/1.")


def _all(wire: Any) -> bytes:
    return b"".join(iter(lambda: wire.recv(1 << 16), b""))


def _without_dates(raw: bytes) -> bytes:
    return re.sub(rb"Date: [^\r]*\r\n", b"", raw)


@pytest.mark.parametrize("page", ["/images/create?fromSrc=-&repo=leave", "/containers/create"])
def test_body_that_waits_for_leave(both, page):
    body = archive(MB) if "images" in page else json.dumps({"Image": IMAGE}).encode()

    def look(at: Docker) -> tuple[bytes, bytes]:
        head = (
            f"POST {page} HTTP/1.1\r\nHost: docker\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(body)}\r\nExpect: 100-continue\r\nConnection: close\r\n\r\n"
        )
        with at.wire(head.encode()) as wire:
            leave = wire.recv(len(b"HTTP/1.1 100 Continue\r\n\r\n"))
            wire.sendall(body)
            return leave, normal(_without_dates(_all(wire)))

    leave, rest = both(look)
    assert leave == b"HTTP/1.1 100 Continue\r\n\r\n"
    assert rest.startswith("HTTP/1.1 20")


@pytest.mark.parametrize("upgrade", [True, False], ids=["upgrade", "as of old"])
def test_connection_becomes_a_stream(both, upgrade):
    """dockerd takes the connection over, with 101 if it was asked, with 200 if not."""

    def look(at: Docker) -> tuple[bytes, bytes]:
        with container(at):
            wish = {"AttachStdin": True, "AttachStdout": True, "Cmd": ["busybox", "wc", "-c"]}
            made = _exec_id(at, wish)
            body = b'{"Detach": false, "Tty": false}'
            head = (
                f"POST /exec/{made}/start HTTP/1.1\r\nHost: docker\r\n"
                f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n"
                + ("Connection: Upgrade\r\nUpgrade: tcp\r\n" if upgrade else "")
                + "\r\n"
            )
            with at.wire(head.encode() + body) as wire:
                seen = b""
                while b"\r\n\r\n" not in seen:
                    seen += wire.recv(1 << 16)
                wire.sendall(b"data\n")
                wire.shutdown(1)
                head, _, rest = (seen + _all(wire)).partition(b"\r\n\r\n")
                return head, rest

    head, rest = both(look)
    assert head.startswith(b"HTTP/1.1 101 " if upgrade else b"HTTP/1.1 200 ")
    assert rest == b"\1\0\0\0\0\0\0\x025\n"


def _exec_id(at: Docker, wish: dict[str, Any]) -> str:
    with at.connection() as connection:
        headers = {"Content-Type": "application/json"}
        connection.request("POST", f"/containers/{NAME}/exec", json.dumps(wish), headers)
        return str(json.load(connection.getresponse())["Id"])


# Back-pressure, and what clients leave behind.

LARGE = 64 * MB
GROWTH = 16.0
"""Megabytes that the proxy may grow by while more than that waits to get through."""


def test_large_answer_waits_for_a_slow_reader(both, relay):
    assert both.direct("import", "-", "large", data=archive(LARGE)).code == 0
    before = peak = relay.resident()
    with both.relayed.connection() as connection:
        connection.request("GET", "/images/large/get")
        response = connection.getresponse()
        parts = []
        while part := response.read(256 * KB):
            parts.append(part)
            peak = max(peak, relay.resident())
            time.sleep(0.003)
    assert noise(LARGE) in b"".join(parts)
    assert peak - before < GROWTH


def test_large_request_waits_for_dockerd(both, relay, dockerd):
    body = memoryview(archive(LARGE))
    head = b"POST /images/create?fromSrc=-&repo=waiting HTTP/1.1\r\n" + _HOST
    last = f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n".encode()
    before, sent = relay.resident(), 0
    with both.relayed.wire() as wire:
        dockerd.signal(signal.SIGSTOP)
        try:
            wire.sendall(head + last)
            # Nothing is taken for a while: it is held up from end to end.
            while sent < len(body) and select.select([], [wire], [], 1.0)[1]:
                sent += wire.send(body[sent : sent + 64 * KB])
            grown = relay.resident() - before
        finally:
            dockerd.signal(signal.SIGCONT)
        assert sent < GROWTH * MB
        assert grown < GROWTH
        wire.sendall(body[sent:])
        assert _all(wire).startswith(b"HTTP/1.1 200 OK\r\n")


def test_abandoned_streams_are_given_up_at_both_ends(both, relay, dockerd):
    def open_files() -> list[int]:
        return [len(os.listdir(f"/proc/{one.pid}/fd")) for one in (relay, dockerd)]

    with container(both.direct):
        before = open_files()
        with contextlib.ExitStack() as stack:
            for page in ("/events", f"/containers/{NAME}/logs?follow=1&stdout=1") * 10:
                connection = stack.enter_context(both.relayed.connection())
                connection.request("GET", page)
                connection.getresponse()
            assert all(b - a >= 20 for a, b in zip(before, open_files(), strict=True))
        # A few may be opened once and kept.
        until(lambda: all(b < a + 10 for a, b in zip(before, open_files(), strict=True)))


def test_streams_end_with_dockerd_and_it_is_found_again(both, dockerd):
    with (
        container(both.direct, "echo first; read _", "-i"),
        both.direct.spawn("logs", "--follow", NAME) as direct,
        both.relayed.spawn("logs", "--follow", NAME) as relayed,
        both.relayed.connection() as idle,
    ):
        following = (direct, relayed)
        assert [one.stdout.readline() for one in following] == [b"first\n"] * 2
        idle.request("GET", "/_ping")
        assert answer(idle.getresponse()).status == 200
        wire = idle.sock
        dockerd.kill()
        assert wire.recv(1) == b""
        # A follower gets an unexpected end, both ways.
        ended = [(one.stdout.read(), one.stderr.read(), one.wait()) for one in following]
        assert ended[0] == ended[1]
        dockerd.start()
        assert both.relayed("exec", NAME, "echo", "hi") == Said(0, "hi\n", "")
