"""The peers and ourselves as processes, and what they use."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

BIN = Path(sys.executable).parent

HAPROXY = """
global
  nbthread 1
defaults
  mode http
  timeout connect 5s
  timeout client 60s
  timeout server 60s
frontend client
  bind unix@{listen} proto {version}
  default_backend runtime
backend runtime
  server runtime unix@{backend} proto {version}
"""

NGINX = """
daemon off;
master_process off;
pid {directory}/nginx.pid;
error_log {directory}/nginx.err crit;
events {{}}
http {{
  access_log off;
  keepalive_requests 100000000;
  client_body_temp_path {directory}/b; proxy_temp_path {directory}/p;
  fastcgi_temp_path {directory}/f;
  uwsgi_temp_path {directory}/u; scgi_temp_path {directory}/s;
  server {{
    listen unix:{listen} http2;
    root {root};
    default_type application/grpc;
  }}
}}
"""


@contextlib.contextmanager
def running(command: Sequence[str], ready: Path) -> Iterator[int]:
    """Run a program until the block ends; yields its pid once the file is there."""
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + 20
        while not ready.exists():
            if process.poll() is not None or time.monotonic() > deadline:
                raise SystemExit(f"bench: {command[0]} does not start")
            time.sleep(0.02)
        time.sleep(0.3)
        yield process.pid
    finally:
        process.terminate()
        process.wait()


def socat(listen: Path, backend: Path) -> contextlib.AbstractContextManager[int]:
    return running(["socat", f"UNIX-LISTEN:{listen},fork", f"UNIX-CONNECT:{backend}"], listen)


def haproxy(
    listen: Path, backend: Path, scratch: Path, *, version: str = "h2"
) -> contextlib.AbstractContextManager[int]:
    """HAProxy, with HTTP/2 or (``h1``) HTTP/1.1 on both sides."""
    config = scratch / f"{listen.stem}.cfg"
    config.write_text(HAPROXY.format(listen=listen, backend=backend, version=version))
    return running([which("haproxy"), "-f", str(config), "-db", "-q"], listen)


def nginx(listen: Path, root: Path, scratch: Path) -> contextlib.AbstractContextManager[int]:
    """A constant-answer backend in C: files under ``root`` over HTTP/2."""
    config = scratch / "nginx.conf"
    config.write_text(NGINX.format(listen=listen, root=root, directory=scratch))
    return running([which("nginx"), "-p", str(scratch), "-c", str(config)], listen)


def proxy(
    listen: Path, backend: Path, *, hooks: Path, plugins: str = "", mode: str = "Containerd"
) -> contextlib.AbstractContextManager[int]:
    command = [str(BIN / "koord-runtime-proxy"), "--log-level", "info"]
    command += ["--backend-runtime-mode", mode]
    command += ["--koord-runtimeproxy-endpoint", str(listen)]
    command += ["--remote-runtime-service-endpoint", str(backend)]
    command += ["--hook-config-path", str(hooks), "--state-path", f"{listen}.db"]
    command += ["--metrics-address", f"unix://{listen}.status"]
    if plugins:
        command += ["--hook-plugins", plugins]
    return running(command, listen)


def koordlet(listen: Path, hooks: Path, *flags: str) -> contextlib.AbstractContextManager[int]:
    command = [str(BIN / "koordlet"), "--runtime-hooks-addr", str(listen)]
    command += ["--runtime-hooks-host-endpoint", str(listen)]
    command += ["--runtime-hooks-config-path", str(hooks)]
    command += ["--state-dir", f"{listen}.state", *flags]
    return running(command, hooks / "koordlet.json")


def which(program: str) -> str:
    for directory in ("/usr/sbin", "/usr/bin", "/usr/local/sbin", "/usr/local/bin"):
        if (path := Path(directory, program)).exists():
            return str(path)
    raise SystemExit(f"bench: {program} is not installed; run `make bench` as root on Debian")


def cpu_micros(pid: int) -> float:
    """CPU time used so far by all threads, in microseconds, as the scheduler counts it."""
    spent = 0
    for task in Path(f"/proc/{pid}/task").glob("*/schedstat"):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # it has just ended
            spent += int(task.read_text().split()[0])
    return spent / 1000


def rss_megabytes(pid: int) -> float:
    """Resident memory, as ``VmRSS`` has it."""
    return _status_megabytes(pid, "VmRSS:")


def peak_megabytes(pid: int) -> float:
    """The most that was resident, ``VmHWM``."""
    return _status_megabytes(pid, "VmHWM:")


def _status_megabytes(pid: int, field: str) -> float:
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.split(field)[1].split()[0]) / 1024
