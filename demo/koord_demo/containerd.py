"""A real containerd of our own, beside whatever else the machine runs.

It has a root, a state directory, a socket and a cgroup parent that no one else
uses, knows one image, needs no network, and takes everything away with it.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType

import grpc

from koord_demo import cgroups
from koord_demo.cri_client import Cri
from koord_demo.oci_image import BUSYBOX, IMAGE, write_image

PROGRAMS = ("containerd", "containerd-shim-runc-v2", "ctr", "runc")

# Root's PATH need not have the system's directories.
_PATH = f"{os.environ.get('PATH', '/usr/bin:/bin')}:/usr/sbin:/sbin"
_ROUNDS = 3
"""Rounds in which pods are removed."""

_CONFIG = """\
version = 2
root = "{directory}/root"
state = "{directory}/state"
oom_score = 0
disabled_plugins = [
  # These make directories outside of ours, or are for disks we do not have.
  "io.containerd.internal.v1.opt",
  "io.containerd.internal.v1.restart",
  "io.containerd.snapshotter.v1.aufs",
  "io.containerd.snapshotter.v1.btrfs",
  "io.containerd.snapshotter.v1.devmapper",
  "io.containerd.snapshotter.v1.zfs",
  "io.containerd.tracing.processor.v1.otlp",
]

[grpc]
  address = "{directory}/c.sock"

[plugins."io.containerd.nri.v1.nri"]
  disable = {no_nri}
  socket_path = "{directory}/nri.sock"
  plugin_path = "{directory}/nri-plugins"
  plugin_config_path = "{directory}/nri-plugins"
  plugin_request_timeout = "{nri_timeout:g}s"

[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{image}"
  # Some machines withhold the right to lower a process's score.
  restrict_oom_score_adj = true
  tolerate_missing_hugetlb_controller = true
  disable_tcp_service = true
  stream_server_address = "127.0.0.1"
  stream_server_port = "0"

  # Of its own as well: nothing is pulled, unless somebody says from where.
  [plugins."io.containerd.grpc.v1.cri".registry]
    config_path = "{directory}/registries"

  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "{directory}/cni"
    conf_dir = "{directory}/cni"

  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = "{snapshotter}"
    default_runtime_name = "runc"

    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"

      [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
        Root = "{directory}/runc"
        SystemdCgroup = false
"""


def why_not() -> str | None:
    """Return the reason why a real containerd cannot run here; None if it can."""
    if os.geteuid() != 0:
        return "a real containerd needs root"
    missing = [name for name in PROGRAMS if shutil.which(name, path=_PATH) is None]
    if not BUSYBOX.exists():
        missing.append("busybox")
    return f"not installed: {', '.join(missing)}" if missing else None


class Containerd:
    """One containerd as a child process, and everything it starts.

    ``start`` and ``stop`` (or ``kill``) may follow each other: pods live on in
    between, as on a node. ``close`` ends all and leaves nothing behind.
    """

    def __init__(
        self,
        directory: Path | None = None,
        *,
        programs: Path | None = None,
        nri_timeout: float | None = None,
        inside: Sequence[str] = (),
    ) -> None:
        """Keep everything in ``directory``; take programs from ``programs`` before the PATH.

        ``inside`` stands before the daemon's command, for namespaces of its own.

        With ``nri_timeout``, plugins may register at ``nri_address`` and are waited for
        that many seconds; needs containerd 1.7 or newer.
        """
        # A socket's path may have 107 bytes, and pytest's directories are long.
        self.directory = Path(tempfile.mkdtemp(prefix="pykoord-", dir=directory))
        self.address = self.directory / "c.sock"
        self.nri_address = self.directory / "nri.sock"
        self.log = self.directory / "containerd.log"
        self.cgroup_root = f"/pykoord-test-{secrets.token_hex(4)}"
        """Parent of all cgroups of the pods run here: give it to ``batch_pod_config``."""
        self._nri_timeout = nri_timeout
        self._inside = inside
        self._environment = os.environ | {"PATH": f"{programs}:{_PATH}" if programs else _PATH}
        self._process: subprocess.Popen[bytes] | None = None
        self._imported = False
        if len(os.fsencode(self.address)) > 107:
            raise ValueError(f"{self.address}: too long for a socket; give a shorter directory")

    def __enter__(self) -> Containerd:
        try:
            self.start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    @property
    def pid(self) -> int | None:
        """The daemon's process id while it runs."""
        running = self._process is not None and self._process.poll() is None
        return self._process.pid if running and self._process else None

    def cri(self, service: str = "runtime.v1") -> Cri:
        """A new client, with a connection of its own."""
        return Cri(self.address, service)

    def start(self, *, timeout: float = 20.0) -> None:
        """Start the daemon and wait until CRI answers and the image is there.

        Raises:
            RuntimeError: it did not come up; the message has the end of its log.
        """
        snapshotter = "overlayfs" if overlay_works(self.directory) else "native"
        config = self.directory / "config.toml"
        config.write_text(
            _CONFIG.format(
                directory=self.directory,
                image=IMAGE,
                snapshotter=snapshotter,
                no_nri=str(self._nri_timeout is None).lower(),
                nri_timeout=self._nri_timeout or 2.0,
            )
        )
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                [*self._inside, "containerd", "--config", config],
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                # Ctrl-C on the terminal is for us: we stop it in order.
                start_new_session=True,
            )
        deadline = time.monotonic() + timeout
        with self.cri() as cri:
            self._wait(deadline, lambda: bool(cri.version(timeout=1.0).runtime_name))
            if not self._imported:
                self._import_image(snapshotter)
            # The CRI plugin learns of an image a moment after it is there.
            self._wait(deadline, lambda: cri.image_status(IMAGE, timeout=1.0) is not None)
        self._imported = True

    def stop(self) -> None:
        """Stop the daemon in order; its pods run on."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """SIGKILL the daemon; its pods run on."""
        self._end(signal.SIGKILL)

    def restart(self) -> None:
        self.stop()
        self.start()

    def close(self) -> None:
        """End every pod, the daemon and its helpers; remove mounts, cgroups and files."""
        with contextlib.suppress(RuntimeError, OSError):
            # Only what once was up can have pods.
            if self._imported and self.pid is None:
                self.start()
            if self.pid is not None:
                self.remove_all_pods()
        self.stop()
        self._end_processes()
        for mount in self._mounts():
            subprocess.run(["umount", "-l", mount], check=False, env=self._environment)
        for directory in self._cgroups():
            _remove_cgroup(directory)
        shutil.rmtree(self.directory, ignore_errors=True)

    def remove_all_pods(self) -> None:
        """Stop and remove what runs, as far as containerd can."""
        with self.cri() as cri, contextlib.suppress(grpc.RpcError):
            # A busy machine takes longer than a call waits; and calls of clients that are gone end.
            for _ in range(_ROUNDS):
                for sandbox in cri.list_pod_sandbox():
                    with contextlib.suppress(grpc.RpcError):
                        cri.stop_pod_sandbox(sandbox.id)
                        cri.remove_pod_sandbox(sandbox.id)

    def leftovers(self) -> list[str]:
        """Return our leftovers on the machine beside the daemon; nothing after ``close``."""
        return [
            *(f"process {pid}" for pid in self._shims()),
            *(f"mount {mount}" for mount in self._mounts()),
            *(f"cgroup {directory}" for directory in self._cgroups()),
            *([f"directory {self.directory}"] if self.directory.exists() else []),
        ]

    def _wait(self, deadline: float, ready: Callable[[], bool]) -> None:
        while True:
            with contextlib.suppress(grpc.RpcError):
                if ready():
                    return
            if self.pid is None or time.monotonic() > deadline:
                self.kill()
                tail = self.log.read_text(errors="replace")[-2000:]
                raise RuntimeError(f"containerd did not come up; its log ends:\n{tail}")
            time.sleep(0.02)

    def _import_image(self, snapshotter: str) -> None:
        tar = write_image(self.directory / "image.tar")
        containerd = ["ctr", "--address", str(self.address), "--namespace", "k8s.io"]
        done = subprocess.run(
            [*containerd, "images", "import", "--snapshotter", snapshotter, str(tar)],
            check=False,
            capture_output=True,
            text=True,
            env=self._environment,
        )
        if done.returncode:
            raise RuntimeError(f"ctr could not import the image: {done.stderr.strip()}")

    def _end(self, how: signal.Signals) -> None:
        if self._process is None:
            return
        self._process.send_signal(how)
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process = None

    def _end_processes(self) -> None:
        """Kill what containerd could not end: shims and the containers' processes."""
        for address in self.directory.glob("state/io.containerd.runtime.v2.task/*/*/address"):
            Path(address.read_text().removeprefix("unix://")).unlink(missing_ok=True)
        members = {
            int(pid)
            for directory in self._cgroups()
            for path in directory.rglob("cgroup.procs")
            for pid in path.read_text().split()
        }
        for pid in (*self._shims(), *members):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def _shims(self) -> list[int]:
        mark = os.fsencode(self.address)
        found = []
        for process in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                words = (process / "cmdline").read_bytes().split(b"\0")
                if mark in words and b"containerd-shim" in words[0]:
                    found.append(int(process.name))
        return found

    def _mounts(self) -> list[str]:
        """Mounts below our directory, the innermost first."""
        lines = Path("/proc/self/mountinfo").read_text().splitlines()
        mounts = (line.split(" ")[4] for line in lines)
        return [m for m in mounts if Path(m).is_relative_to(self.directory)][::-1]

    def _cgroups(self) -> list[Path]:
        roots = {m / self.cgroup_root.lstrip("/") for m in cgroups.mounts().values()}
        return sorted(root for root in roots if root.is_dir())


def overlay_works(directory: Path) -> bool:
    """True if an overlay can be mounted here, as containerd's default snapshotter does."""
    with tempfile.TemporaryDirectory(dir=directory) as name:
        for part in ("lower", "upper", "work", "merged"):
            (Path(name) / part).mkdir()
        options = f"lowerdir={name}/lower,upperdir={name}/upper,workdir={name}/work"
        mount = ["mount", "-t", "overlay", "overlay", "-o", options, f"{name}/merged"]
        if subprocess.run(mount, check=False, capture_output=True).returncode:
            return False
        subprocess.run(["umount", f"{name}/merged"], check=True)
        return True


def _remove_cgroup(directory: Path) -> None:
    """Remove a group and those below it; a group is busy until its last process is reaped."""
    groups = [*directory.rglob("*/"), directory]
    for group in sorted(groups, key=lambda path: len(path.parts), reverse=True):
        for _ in range(100):
            try:
                if group.is_dir():
                    group.rmdir()
                break
            except OSError:
                time.sleep(0.02)
