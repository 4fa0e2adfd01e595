"""The kubelet's cgroups on cgroup v1, made and taken away as by a kubelet: /kubepods and below."""

from __future__ import annotations

import fcntl
import os
import signal
import tempfile
from functools import partial
from pathlib import Path
from types import TracebackType

from koord_demo.cgroups import mounts
from koord_host.knobs.layout import Driver, Layout
from koord_model.qos import KubeQoS

from tests.support.processes import until

ROOT = "kubepods"
CONTROLLERS = ("cpu", "cpuset", "memory")
LAYOUT = Layout(1, Driver.CGROUPFS)
CGROUPS = Path(LAYOUT.cgroup_root)


def why_not() -> str | None:
    """What keeps a kubelet's groups from being made here; None where nothing does."""
    if os.geteuid() != 0:
        return "making cgroups needs root"
    if not all((CGROUPS / name / "cgroup.procs").exists() for name in CONTROLLERS):
        return "needs cgroup v1"
    if not {0, 1} <= os.sched_getaffinity(0):
        return "needs CPUs 0 and 1"
    return None


class Kubepods:
    """The groups of a node's pods; ``with`` makes them, and takes them away with all below.

    There is one such node on a machine: others wait until this one is gone. The lock's file says
    which groups a test made, so that those of a killed run are taken away, and never a kubelet's.
    """

    def __enter__(self) -> Kubepods:
        self._lock = os.open(
            Path(tempfile.gettempdir()) / "pykoord-kubepods.lock", os.O_CREAT | os.O_RDWR
        )
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX)
            self._remove_those_of_a_killed_run()
            for qos in KubeQoS:
                self._make(LAYOUT.kube_qos_group(qos))
                os.pwrite(self._lock, self._identity(), 0)
        except BaseException:
            os.close(self._lock)
            raise
        self.write(f"{ROOT}/besteffort", "cpu.shares", 2)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            for group in self._everywhere():
                remove_group(group)
        finally:
            os.close(self._lock)

    def make_pod(
        self, qos: KubeQoS, uid: str, *, shares: int = 2, quota: int = -1, memory: int = -1
    ) -> str:
        """A pod's group with the kubelet's limits; its name."""
        group = LAYOUT.pod_group(qos, uid)
        self._make(group)
        self.write(group, "cpu.shares", shares)
        self.write(group, "cpu.cfs_quota_us", quota)
        self.write(group, "memory.limit_in_bytes", memory)
        return group

    def remove_pod(self, group: str) -> None:
        """What a kubelet does when a pod's containers are gone."""
        for mount in set(mounts().values()):
            remove_group(mount / group)

    def read(self, group: str, file: str) -> str:
        """What a group's file holds."""
        return self.path(group, file).read_text().strip()

    def write(self, group: str, file: str, value: object) -> None:
        self.path(group, file).write_text(str(value))

    def path(self, group: str, file: str) -> Path:
        return CGROUPS / file.partition(".")[0] / group / file

    def _make(self, group: str) -> None:
        for controller in CONTROLLERS:
            (CGROUPS / controller / group).mkdir()
        above = group.rpartition("/")[0]
        for file in ("cpuset.cpus", "cpuset.mems"):
            self.write(group, file, self.read(above, file))

    def _remove_those_of_a_killed_run(self) -> None:
        taken = [group for group in self._everywhere() if group.exists()]
        if not taken:
            return
        if os.pread(self._lock, 100, 0) != self._identity():
            raise RuntimeError(f"{', '.join(map(str, taken))}: not made by a test; not touched")
        for group in taken:
            for processes in group.rglob("cgroup.procs"):
                for pid in processes.read_text().split():
                    os.kill(int(pid), signal.SIGKILL)
            remove_group(group)

    def _identity(self) -> bytes:
        """The groups that are there, as no others ever are: by boot and inode."""
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{boot} {(CGROUPS / CONTROLLERS[0] / ROOT).stat().st_ino}".encode()

    def _everywhere(self) -> list[Path]:
        """Runc makes a pod's group for every controller there is."""
        return sorted({mount / ROOT for mount in mounts().values()})


def remove_group(group: Path) -> None:
    """Remove a group and those below it; one is busy until its last process is reaped."""
    below = sorted(group.rglob("*/"), key=lambda path: len(path.parts), reverse=True)
    for one in (*below, group):
        until(partial(_removed, one), f"nothing runs in {one}")


def _removed(group: Path) -> bool:
    try:
        group.rmdir()
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return True
