"""A machine within this one: network, cgroups (v1) and mounts of its own, as a container has.

What runs inside sees its own cgroups as the whole hierarchy, can change no kernel setting, and
finds ``/var/lib`` and ``/var/log`` empty.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import signal
import threading
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Self

from koord_demo.cgroups import mounts

from tests.support import kubepods, network
from tests.support.processes import Program, until

_JOIN = """\
#!/bin/sh
set -e
for procs in {procs}; do echo $$ > "$procs"; done
"""
_FURNISH = """\
set -e
mkdir {folder}/cgroup
mount -t tmpfs -o mode=755 none {folder}/cgroup
{binds}
umount -l /sys/fs/cgroup
mount --move {folder}/cgroup /sys/fs/cgroup
mount -t tmpfs none /var/lib
mount -t tmpfs none /var/log
mount --bind /proc/sys /proc/sys
for setting in {settings}; do
    cat /proc/sys/$setting > {folder}/setting
    cp {folder}/setting {folder}/$(basename $setting)
    mount --bind {folder}/$(basename $setting) /proc/sys/$setting
done
mount -o remount,bind,ro /proc/sys
mount --bind {folder}/stat /proc/stat
touch {folder}/furnished
exec sleep infinity
"""
_SETTINGS = (
    *("vm/overcommit_memory", "vm/panic_on_oom", "kernel/panic", "kernel/panic_on_oops"),
    *("kernel/keys/root_maxkeys", "kernel/keys/root_maxbytes"),
)
"""What a kubelet insists on: files of the machine's own, which mean nothing."""
_STAT_SECONDS = 0.2
_STAT_BYTES = 2048
"""More than it ever has, so that a reader never sees half of it."""


def why_not() -> str | None:
    """What keeps one from being made here; None where nothing does."""
    return kubepods.why_not() or network.why_not()


class OwnMachine(network.OwnNetwork):
    """While entered: programs started with ``inside`` run there, and end with it at the latest.

    Its ``/proc/stat`` counts what pods use, as if the machine did nothing else: that of two
    cores, a control plane and whoever shares them would leave nothing to offer.
    """

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self._folder = folder
        self._name_of_group = f"pykoord-test-{os.getpid()}"
        self._holder = Program("machine", folder)
        self._done = threading.Event()
        self._clock = threading.Thread(target=self._count, name="stat", daemon=True)

    def __enter__(self) -> Self:
        super().__enter__()
        try:
            for group in self._groups():
                group.mkdir()
            self._inherit_cpuset()
            self._write_stat()
            self._furnish()
            self._clock.start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *error: object) -> None:
        self._done.set()
        if self._clock.ident is not None:
            self._clock.join()
        for group in self._groups():
            until(partial(_is_empty, group), f"nothing runs in {group}")
        self._holder.close()
        for group in self._groups():
            kubepods.remove_group(group)
        super().__exit__(*error)

    def inside(self, command: Sequence[str]) -> list[str]:
        return [str(self._folder / "inside"), *command]

    def group(self, controller: str) -> Path:
        """What is the root of a controller's groups inside, seen from here."""
        return kubepods.CGROUPS / controller / self._name_of_group

    def leftovers(self) -> list[str]:
        """What of it is still there; nothing after it was left."""
        return [str(group) for group in self._groups() if group.exists()]

    def _groups(self) -> list[Path]:
        return sorted({mount / self._name_of_group for mount in mounts().values()})

    def _inherit_cpuset(self) -> None:
        own = self.group("cpuset")
        for file in ("cpuset.cpus", "cpuset.mems"):
            (own / file).write_text((own.parent / file).read_text())

    def _furnish(self) -> None:
        binds = "\n".join(
            f"mkdir -p {self._folder}/cgroup/{group.parent.name}\n"
            f"mount --bind {group} {self._folder}/cgroup/{group.parent.name}"
            for group in self._groups()
        )
        join = _JOIN.format(procs=" ".join(str(one / "cgroup.procs") for one in self._groups()))
        network_namespace = f"nsenter --net=/run/netns/{self._name}"
        furnish = shlex.quote(
            _FURNISH.format(folder=self._folder, binds=binds, settings=" ".join(_SETTINGS))
        )
        hold = f"exec {network_namespace} unshare --mount --cgroup sh -c {furnish}\n"
        self._holder.spawn(["sh", "-c", join + hold])
        furnished = self._folder / "furnished"
        self._holder.wait_until(furnished.exists, "it is not furnished")
        namespaces = f"/proc/{self._holder.pid}/ns"
        enter = (
            f'exec {network_namespace} --mount={namespaces}/mnt --cgroup={namespaces}/cgroup "$@"\n'
        )
        script = self._folder / "inside"
        script.write_text(join + enter)
        script.chmod(0o700)

    # ---- what it does beside pods: nothing

    def _count(self) -> None:
        while not self._done.wait(_STAT_SECONDS):
            with contextlib.suppress(OSError):  # the pods' group comes and goes
                self._write_stat()

    def _write_stat(self) -> None:
        """In place: it is mounted."""
        usage = self.group("cpuacct") / "kubepods" / "cpuacct.usage_percpu"
        used = usage.read_text().split() if usage.exists() else []
        real = Path("/proc/stat").read_text().splitlines()
        text = "\n".join(_quiet(line, used) for line in real if not line.startswith("intr"))
        descriptor = os.open(self._folder / "stat", os.O_CREAT | os.O_WRONLY, 0o644)
        try:
            os.pwrite(descriptor, f"{text}\n".ljust(_STAT_BYTES).encode(), 0)
        finally:
            os.close(descriptor)


def _quiet(line: str, used: Sequence[str]) -> str:
    """A line of /proc/stat in which CPUs are busy with what was ``used``, nanoseconds by CPU."""
    name, *numbers = line.split()
    if not name.startswith("cpu"):
        return line
    busy = [int(one) * os.sysconf("SC_CLK_TCK") // 10**9 for one in used]
    ticks = sum(map(int, numbers))
    mine = sum(busy) if name == "cpu" else sum(busy[int(name[3:]) : int(name[3:]) + 1])
    return f"{name} {mine} 0 0 {ticks - mine} 0 0 0 0 0 0"


def _is_empty(group: Path) -> bool:
    """Whether nothing runs in a group and below it; what does is killed."""
    try:
        found = [procs.read_text().split() for procs in group.rglob("cgroup.procs")]
    except OSError:  # groups vanish while they are looked at
        return False
    pids = [int(pid) for some in found for pid in some]
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    return not pids
