"""A real dockerd of our own, on a containerd of our own (see koord_demo.containerd).

Its data, its state, its socket and its cgroup parent are within those of that
containerd, which takes everything away in the end. As under systemd, the
containerd outlives the dockerd: containers live on, however dockerd ends.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import docker
import docker.errors
import pytest
from koord_demo import containerd, oci_image

from tests.support.containerd import Containerd
from tests.support.oci_image import IMAGE, SLEEP_FOREVER
from tests.support.processes import get
from tests.support.proxy import Agent

__all__ = ["IMAGE", "Dockerd", "dockerd", "requires_dockerd", "why_not"]

# Root's PATH need not have the system's directories.
_PATH = f"{os.environ.get('PATH', '/usr/bin:/bin')}:/usr/sbin:/sbin"

# Made by every dockerd, wherever it keeps its own.
_PLUGINS = Path("/run/docker/plugins")


def why_not() -> str | None:
    """What keeps a real dockerd from running here; None where nothing does."""
    reason = containerd.why_not()
    if reason is not None:
        return reason
    missing = [name for name in ("dockerd", "docker") if not shutil.which(name, path=_PATH)]
    return f"not installed: {', '.join(missing)}" if missing else None


def requires_dockerd(test: Callable[..., object]) -> Callable[..., object]:
    """Mark a test as needing a real dockerd, and skip it, with a reason, where there is none."""
    reason = why_not()
    marked = pytest.mark.skipif(reason is not None, reason=reason or "")(test)
    return pytest.mark.containerd(marked)


@pytest.fixture(scope="session")
def dockerd() -> Iterator[Dockerd]:
    """A running dockerd that knows one image; tests may kill it and start it again."""
    reason = why_not()
    if reason is not None:
        pytest.skip(reason)
    with Dockerd() as instance:
        yield instance
    assert instance.leftovers() == []


class Dockerd(Agent):
    """One dockerd as a child process, the containerd below it, and all their containers.

    ``start`` and ``stop`` (or ``kill``) may follow each other: containers live on in
    between. ``close`` ends all and leaves nothing behind.
    """

    def __init__(self, directory: Path | None = None) -> None:
        self._containerd = Containerd(directory)
        super().__init__("dockerd", self._containerd.directory)
        self.address = self.directory / "d.sock"
        self.cgroup_root = self._containerd.cgroup_root
        """Parent of the cgroups of all containers that do not name another one below it."""
        self._foreign = [path for path in (_PLUGINS, _PLUGINS.parent) if path.exists()]
        self._imported = False

    @contextlib.contextmanager
    def client(self) -> Iterator[docker.DockerClient]:
        """A new client, with connections of its own."""
        client = docker.DockerClient(base_url=f"unix://{self.address}")
        try:
            yield client
        finally:
            client.close()

    def start(self) -> None:
        """Start, and wait until the API answers and the image is there."""
        if self._containerd.pid is None:
            self._containerd.start()
        (self.directory / "d.pid").unlink(missing_ok=True)
        self.spawn(["/usr/bin/env", f"PATH={_PATH}", "dockerd", *self._flags()])
        self.wait_until(self._answers, "does not answer")
        if not self._imported:
            self.import_image()
        self._imported = True

    def import_image(self, name: str = IMAGE) -> None:
        """Bring the image in under a name; a moment's work, since nothing is pulled."""
        command = json.dumps(SLEEP_FOREVER)
        with self.client() as client:
            client.api.import_image_from_data(
                oci_image.image_layer(oci_image.BUSYBOX.read_bytes()),
                repository=name,
                changes=["ENV PATH=/bin", f"CMD {command}"],
            )
            assert client.images.get(name).attrs["Config"]["Cmd"] == [*SLEEP_FOREVER]

    def remove_all_containers(self) -> None:
        """Kill and remove every container, as far as dockerd can."""
        with self.client() as client:
            for container in client.containers.list(all=True, ignore_removed=True):
                with contextlib.suppress(docker.errors.APIError):
                    container.remove(force=True, v=True)

    def close(self) -> None:
        """End every container, both daemons and their helpers; remove what they made."""
        try:
            with contextlib.suppress(Exception):
                # Only what once was up can have containers.
                if self._imported and not self._runs():
                    super().close()
                    self.start()
                if self._runs():
                    self.remove_all_containers()
                    self.stop()
        finally:
            super().close()
            self._containerd.close()
            for path in (_PLUGINS, _PLUGINS.parent):
                if path not in self._foreign:
                    # Another dockerd may use it by now.
                    with contextlib.suppress(OSError):
                        path.rmdir()

    def leftovers(self) -> list[str]:
        """What of ours is on the machine now, beside the daemons; nothing after ``close``."""
        return self._containerd.leftovers()

    def _runs(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def _answers(self) -> bool:
        with contextlib.suppress(OSError):
            return get(self.address, "/_ping") == "OK"
        return False

    def _flags(self) -> list[str]:
        config = self.directory / "daemon.json"
        # Up to 20.10 a key is made in /etc unless a file says otherwise; later the name is unknown.
        key = {"deprecated-key-path": f"{self.directory}/key.json"} if _version() < 23 else {}
        config.write_text(json.dumps(key))
        overlay = containerd.overlay_works(self.directory)
        return [
            f"--config-file={config}",
            f"--host=unix://{self.address}",
            f"--containerd={self._containerd.address}",
            f"--data-root={self.directory}/docker",
            f"--exec-root={self.directory}/exec",
            f"--pidfile={self.directory}/d.pid",
            f"--storage-driver={'overlay2' if overlay else 'vfs'}",
            f"--cgroup-parent={self.cgroup_root}",
            "--exec-opt=native.cgroupdriver=cgroupfs",
            "--live-restore",
            "--group=root",
            # The machine's network stays as it is.
            *("--bridge=none", "--iptables=false", "--ip-masq=false", "--ip-forward=false"),
        ]


def _version() -> int:
    done = subprocess.run(
        ["dockerd", "--version"],
        check=True,
        capture_output=True,
        text=True,
        env=os.environ | {"PATH": _PATH},
    )
    found = re.search(r"version (\d+)\.", done.stdout)
    assert found, done.stdout
    return int(found[1])
