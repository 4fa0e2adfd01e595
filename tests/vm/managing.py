"""What is done on the node to see its QoS manager at work, and what is then there.

Each step leaves the node to the next: pods that run, a NodeSLO in force.
"""

from __future__ import annotations

import dataclasses
import json
import os
import signal
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from koord_demo.cgroups import container_pid
from koord_demo.cri_client import Cri

from tests.vm import managed, neighbours, node, observing, slices
from tests.vm import managed_files as files
from tests.vm.kubelet import DEADLINE, Kubelet, Started
from tests.vm.managed import ALLOCATED, BURSTING, CACHED, CEILING, LATE

JOURNAL = Path("/var/lib/koordlet/journal.jsonl")

_KOORDLET = "journalctl --unit=koordlet --output=cat"
_NOBODY = "PATH=$PATH:/opt/pykoord/bin setpriv --reuid=65534 --regid=65534 --clear-groups"

Groups = Mapping[str, Mapping[str, str]]


@dataclasses.dataclass
class Managing:
    """The steps, and what they know of each other."""

    kubelet: Kubelet
    direct: Cri
    ids: dict[str, str] = dataclasses.field(default_factory=dict)
    found: Groups = dataclasses.field(default_factory=dict)
    """All groups before any strategy did anything."""
    began: float = 0.0
    """When koordlet was started, seconds since the epoch."""
    read: int = 0
    """Lines of the journal that were there before."""
    raised_at: float = 0.0
    """When a quota was seen raised, in seconds since the epoch."""
    interrupts: Mapping[str, str] = dataclasses.field(default_factory=dict)
    """CPUs of the network cards' interrupts before koordlet was started."""
    unplug: Callable[[], None] = lambda: None
    """Ends the resource plugin."""

    # ---- steps

    def qos_start(self) -> dict[str, Any]:
        """All CPUs, and koordlet with every gate on from its first second."""
        for cpu in range(2, 8):
            Path(f"/sys/devices/system/cpu/cpu{cpu}/online").write_text("1")
        # As collectors.md wants it for waits for memory and disks.
        Path("/proc/sys/kernel/task_delayacct").write_text("1")
        Path("/etc/default/koordlet").write_text(managed.ENVIRONMENT)
        Path(managed.RULES).parent.mkdir(exist_ok=True)
        node.run("modprobe virtio_net")
        self.interrupts = neighbours.interrupts()
        self.unplug = neighbours.plug()
        self.ask(on=False)
        self.kubelet.list_pods(Path(managed.LISTED), managed.spec)
        self.read = len(_journal(0))
        self.began = time.time()
        started = node.run("systemctl start koordlet")
        node.until("koordlet in the proxy's list", node.koordlet_is_asked)
        node.until("the resource plugin", lambda: "plugin registered" in self.said())
        pods = (
            (BURSTING, managed.BURN),
            (CACHED, managed.CACHE),
            (ALLOCATED, managed.ECHO),
        )
        for case, command in pods:
            self.start(case, command)
        neighbours.talk()
        node.until("page cache", lambda: self.runs(CACHED.name, "sleep"))
        node.until("pools without its CPUs", lambda: self.cpus_of(BURSTING.name) == managed.SHARED)
        # Hooks write what they want a moment after a pod has started.
        time.sleep(3)
        self.found = files.groups()
        return {
            "started": started,
            "found": self.found,
            "allocated": self.cpus_of(ALLOCATED.name),
            "cpus": files.text("/sys/fs/cgroup/cpuset.cpus.effective"),
        }

    def qos_on(self) -> dict[str, Any]:
        """The NodeSLO asks for all of it: best-effort pods lose CPUs."""
        began = time.monotonic()
        self.ask()
        node.until("fewer CPUs", lambda: files.cpus(files.BESTEFFORT) == 2)
        moved = neighbours.interrupts()
        seconds = round(time.monotonic() - began, 1)
        node.until("protected memory", lambda: files.text(files.BURSTABLE / "memory.min") != "0")
        node.until("a guard", lambda: files.text(files.BESTEFFORT / "memory.high") != "max")
        time.sleep(2)
        return {
            "seconds": seconds,
            "groups": files.groups(),
            "bursting": self.group_of(BURSTING.name),
            "io": {
                name: files.text(slices.CGROUP / name) for name in ("io.cost.qos", "io.cost.model")
            },
            "sysctl": files.text(files.SYSCTL),
            "interrupts": {"found": self.interrupts, "moved": moved},
            "suppress": _why("strategy=cpu_suppress"),
            "people": [
                node.run(f"{_NOBODY} koordctl why {words}")
                for words in (
                    "suppress",
                    f"cgroup {files.BESTEFFORT}",
                )
            ],
        }

    def qos_burst_up(self) -> dict[str, Any]:
        """A throttled container's quota grows as far as it may."""
        group = slices.CGROUP / self.group_of(BURSTING.name)
        node.until("a raised quota", lambda: files.quota(group) == CEILING)
        raised, self.raised_at = self.bandwidth(), time.time()
        # As a kubelet does that resizes the pod in place. systemd, which runc asks for it, sets
        # all that it knows of the container's scope.
        self.kubelet.update(self.ids[BURSTING.name], BURSTING)
        updated = self.bandwidth()
        begin = time.monotonic()
        while files.text(group / "memory.min") == "0" and time.monotonic() < begin + managed.SOON:
            time.sleep(0.2)
        return {
            "raised": raised,
            "updated": updated,
            "memory": {name: files.text(group / name) for name in managed.HELD_BACK},
            "seconds": round(time.monotonic() - begin, 1),
        }

    def qos_burst_down(self) -> dict[str, Any]:
        """The shared CPUs count as overloaded: the quota comes down again, step by step.

        On a slow machine it may have begun to before: the steps are looked up afterwards. Once
        it is down it may rise again, since the CPUs then have room: the steps end where it was.
        """
        self.ask(managed.FULL)
        group = slices.CGROUP / self.group_of(BURSTING.name)
        base = f"{managed.BASE} 100000"

        def steps() -> list[int]:
            return [
                one["new"]
                for one in self.changes(self.raised_at)
                if one["group"].endswith(group.name) and one["knob"] == "cpu.cfs_quota_us"
            ]

        end: dict[str, str] = {}

        def down() -> bool:
            end.update(self.bandwidth())
            return end["container cpu.max"] == end["pod cpu.max"] == base

        node.until("the quota before the burst", down)
        node.until("that in the journal", lambda: managed.BASE in steps())
        # One thread emulates all processors: what burns on takes them from the steps to come.
        os.kill(container_pid(self.direct, self.ids[BURSTING.name]), signal.SIGSTOP)
        return {"steps": _up_to_last(steps(), managed.BASE), "end": end}

    def qos_quota(self) -> dict[str, Any]:
        """By quota instead of CPUs; systemd, which makes another pod, has its own view of it."""
        self.ask(managed.QUOTA, managed.FULL)
        node.until("a quota", lambda: files.quota(files.BESTEFFORT) > 0)
        node.until("all CPUs", lambda: files.cpus(files.BESTEFFORT) in (0, 6, 8))
        before = files.groups()
        self.start(LATE, managed.HOLD)
        node.until("a new pod's CPUs", lambda: files.cpus_below() == {managed.SHARED})
        after, wanted = files.groups(), files.above()
        # A kubelet does this to each class once a minute.
        at = time.time()
        slices.set_weight("kubepods-besteffort.slice", 1)
        slices.set_weight("kubepods-burstable.slice", 4)
        undone: list[dict[str, Any]] = []
        while not (undone and files.above() == wanted) and time.time() < at + managed.SOON:
            time.sleep(0.2)
            undone = [
                one
                for one in self.changes(at)
                if one["group"].endswith("besteffort.slice") and one["knob"] == "cpu.cfs_quota_us"
            ]
        return {
            "before": before,
            "after": after,
            "late": self.group_of(LATE.name),
            "wanted": wanted,
            "undone": undone,
            "done_again": files.above(),
            "seconds": round(time.time() - at, 1),
        }

    def qos_pages(self) -> dict[str, Any]:
        """Pages that people and Katalyst's agent read."""
        top: dict[str, dict[str, Any]] = {}

        def delays() -> bool:
            top.update({name: self.row_of(name) for name in (ALLOCATED.name, BURSTING.name)})
            talks, burns = top[ALLOCATED.name], top[BURSTING.name]
            return None not in (talks.get("tcp_rtt"), burns.get("sched_wait"))

        node.until("delays", delays)
        return {
            "top": top,
            "groups": {
                name: neighbours.malachite(slices.CGROUP / self.group_of(name))
                for name in (BURSTING.name, CACHED.name)
            },
            "system": neighbours.system(),
            "memory": Path("/proc/meminfo").read_text(),
        }

    def qos_offload(self) -> dict[str, Any]:
        """Half a minute after the start memory has been reclaimed for the first time."""

        def reclaimed() -> bool:
            return any(line.get("knob") == "memory.reclaim" for line in self.journal())

        node.until("memory.reclaim", reclaimed)
        return {
            # Not what there is at first: on a slow machine some is gone by then.
            "before": managed.CACHED_BYTES,
            "after": self.cached(),
            "lines": [one for one in self.journal() if one.get("knob") == "memory.reclaim"],
            "why": _why(f"pod={self.name_of(CACHED.name)}"),
        }

    def qos_kill(self) -> dict[str, Any]:
        """koordlet is killed, and one thing it did is not wanted any more when it is back."""
        before = files.groups()
        group = slices.CGROUP / self.group_of(BURSTING.name)
        unit = node.unit(node.KOORDLET)
        self.ask(managed.QUOTA, managed.FULL, managed.UNPROTECTED)
        at = time.time()
        node.run("systemctl kill --signal=KILL koordlet")

        def again() -> bool:
            now = node.unit(node.KOORDLET)
            return now["ActiveState"] == "active" and now["MainPID"] != unit["MainPID"]

        node.until("koordlet, started again", again)
        # Not before every strategy has had time to say what it wants.
        node.until("unprotected memory", lambda: files.text(group / "memory.min") == "0")
        return {
            "before": before,
            "after": files.groups(),
            "allocated": self.cpus_of(ALLOCATED.name),
            "changes": self.changes(at),
            "interrupts": neighbours.interrupts(),
        }

    def qos_evict(self) -> dict[str, Any]:
        """A pod is in the way: its container is stopped through the runtime."""
        self.ask(managed.QUOTA, managed.FULL, managed.EVICT)
        ident = self.ids[LATE.name]

        def stopped() -> bool:
            return self.direct.container_status(ident, timeout=DEADLINE).status.finished_at > 0

        node.until("the eviction", stopped)
        # It is gone for the kubelet, too.
        self.kubelet.list_pods(Path(managed.LISTED), managed.spec)
        others = (self.ids[name] for name in (BURSTING.name, CACHED.name))
        states = [self.direct.container_status(one, timeout=DEADLINE) for one in others]
        return {
            "others": [one.status.finished_at for one in states],
            "people": node.run(f"{_NOBODY} koordctl why evicted {self.name_of(LATE.name)}"),
            "victim": self.name_of(LATE.name),
            "pressure": observing.page(
                "/v1/metrics/query?kind=node_psi&window=30s&aggregation=last"
            ),
        }

    def qos_off(self) -> dict[str, Any]:
        """Everything is switched off while koordlet runs."""
        self.ask(on=False)
        node.until("no quota", lambda: files.quota(files.BESTEFFORT) < 0)
        time.sleep(3)
        return {"found": self.found, "after": files.groups(), **files.machine()}

    def qos_stop(self) -> dict[str, Any]:
        """koordlet is stopped while best-effort pods are held down."""
        self.ask()
        node.until("fewer CPUs", lambda: files.cpus(files.BESTEFFORT) == 2)
        journal = self.journal()
        stopped = node.run("systemctl stop koordlet")
        return {
            "stopped": stopped,
            "found": self.found,
            "after": files.groups(),
            **files.machine(),
            "interrupts": {"found": self.interrupts, "after": neighbours.interrupts()},
            "moves": [one for one in journal if one.get("knob") == "irq.smp_affinity_list"],
            "decisions": [one for one in journal if "strategy" in one],
            "owners": sorted({one["owner"] for one in journal if "owner" in one}),
        }

    def qos_log(self) -> dict[str, Any]:
        """What koordlet said of all this."""
        self.unplug()
        said = self.said().splitlines()
        systemd = node.run(f"journalctl _PID=1 --output=cat --since=@{self.began:.0f}")["output"]
        return {
            "lines": said,
            "systemd": [one for one in systemd.splitlines() if "ailed" in one],
        }

    def steps(self) -> tuple[Callable[[], Any], ...]:
        """In their order."""
        return (
            self.qos_start,
            self.qos_on,
            self.qos_pages,
            self.qos_burst_up,
            self.qos_burst_down,
            self.qos_quota,
            self.qos_offload,
            self.qos_kill,
            self.qos_evict,
            self.qos_off,
            self.qos_stop,
            self.qos_log,
        )

    # ---- how

    def ask(self, *changes: tuple[str, object], on: bool = True) -> None:
        """Put a NodeSLO into force, as an editor writes a file."""
        path = Path(managed.RULES)
        aside = path.with_suffix(".new")
        aside.write_text(managed.slo(*changes, on=on))
        aside.rename(path)

    def start(self, case: managed.PodCase, *command: tuple[str, ...]) -> None:
        def bound(pod: Started) -> None:
            self.kubelet.list_pods(Path(managed.LISTED), managed.spec, pod)

        self.ids[case.name] = self.kubelet.start(case, *command, bound=bound)
        self.kubelet.list_pods(Path(managed.LISTED), managed.spec)

    def said(self) -> str:
        """Log of koordlet since it was started."""
        return str(node.run(f"{_KOORDLET} --since=@{self.began:.0f}")["output"])

    def cpus_of(self, name: str) -> str:
        """The CPUs of a pod's container."""
        return files.text(slices.CGROUP / self.group_of(name) / "cpuset.cpus")

    def runs(self, name: str, program: str) -> bool:
        """True if a pod's first process is this program by now."""
        pid = container_pid(self.direct, self.ids[name])
        return Path(f"/proc/{pid}/comm").read_text().strip() == program

    def row_of(self, name: str) -> dict[str, Any]:
        """The row of a pod's container in /v1/top."""
        pods = observing.page("/v1/top")["pods"]
        rows = (row for pod in pods for row in pod["containers"] if row["id"] == self.ids[name])
        found: dict[str, Any] = next(rows, {})
        return found

    def group_of(self, name: str) -> str:
        """The cgroup of a pod's container."""
        pid = container_pid(self.direct, self.ids[name])
        [line] = Path(f"/proc/{pid}/cgroup").read_text().splitlines()
        return line.removeprefix("0::/")

    def name_of(self, name: str) -> str:
        """A pod's "namespace/name"."""
        ident = self.ids[name]
        labels = self.direct.container_status(ident, timeout=DEADLINE).status.labels
        return f"{labels['io.kubernetes.pod.namespace']}/{labels['io.kubernetes.pod.name']}"

    def cached(self) -> int:
        """Bytes of page cache of the pod that has some."""
        stat = files.text(slices.CGROUP / self.group_of(CACHED.name) / "memory.stat")
        return next(int(line.split()[1]) for line in stat.splitlines() if line.startswith("file "))

    def bandwidth(self) -> dict[str, str]:
        """Quota and burst of the bursting container and its pod."""
        container = slices.CGROUP / self.group_of(BURSTING.name)
        return {
            f"{who} {file}": files.text(group / file)
            for who, group in (("container", container), ("pod", container.parent))
            for file in ("cpu.max", "cpu.max.burst")
        }

    def journal(self) -> list[dict[str, Any]]:
        """What koordlet has journalled since it was started with strategies."""
        return _journal(self.read)

    def changes(self, since: float) -> list[dict[str, Any]]:
        """What it has changed since then, to the second."""
        return [one for one in self.journal() if "knob" in one and one["time"] > _rfc3339(since)]


def _journal(after: int) -> list[dict[str, Any]]:
    lines = JOURNAL.read_text().splitlines() if JOURNAL.exists() else []
    return [json.loads(line) for line in lines[after:] if line.endswith("}")]


def _why(asked: str) -> Any:
    return observing.page(f"/v1/why?{asked}&history=20")


def _rfc3339(at: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(at))


def _up_to_last(steps: list[int], wanted: int) -> list[int]:
    """The steps up to the last one that came there."""
    return steps[: len(steps) - steps[::-1].index(wanted)]
