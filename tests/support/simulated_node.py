"""A test double: a whole node's procfs, sysfs and cgroups as plain files that change in time.

It is as large as a node gets (64 CPUs, 2 NUMA nodes, 110 pods of 3 containers unless reported
otherwise), written to a directory, best on tmpfs. It keeps the rules that collectors lean
on: counters only grow, a pod's use is the sum of its containers', the node's is the sum of
all pods' and the system's, and ``truth`` says what they really were. Files are as long as
a kernel's, so that reading and parsing them costs as much; the kernel's own work of making
them up is not in it.
"""

from __future__ import annotations

import os
import random
from dataclasses import dataclass, field
from pathlib import Path

from koord_host.knobs.layout import Driver, Layout, ScopePrefix
from koord_model.demand import Demand
from koord_model.keys import BATCH_CPU, LABEL_QOS
from koord_model.pod import Container, Pod
from koord_model.qos import KubeQoS
from koordlet.states_informer.state.pod_inventory import PodRecord

_MIB = 1 << 20
_OTHER_V1 = ("cache", "rss_huge", "shmem", "mapped_file", "dirty", "writeback", "pgpgin",
             "pgpgout", "pgfault", "pgmajfault", "workingset_refault_anon",
             "workingset_refault_file", "swap", "hierarchical_memory_limit")  # fmt: skip
_OTHER_V2 = ("file", "kernel", "kernel_stack", "pagetables", "sec_pagetables", "percpu", "sock",
             "vmalloc", "shmem", "zswap", "zswapped", "file_mapped", "file_dirty",
             "file_writeback", "swapcached", "anon_thp", "file_thp", "shmem_thp",
             "slab_reclaimable", "slab_unreclaimable", "slab", "workingset_refault_anon",
             "workingset_refault_file", "workingset_activate_anon", "workingset_activate_file",
             "workingset_nodereclaim", "pgscan", "pgsteal", "pgscan_kswapd", "pgscan_direct",
             "pgsteal_kswapd", "pgsteal_direct", "pgfault", "pgmajfault", "pgrefill",
             "pgactivate", "pgdeactivate", "pglazyfree", "pglazyfreed", "thp_fault_alloc",
             "thp_collapse_alloc")  # fmt: skip


@dataclass
class _Group:
    """One container: its use now, and its counters so far."""

    name: str
    cores: float = 0.0
    memory: int = 0
    used_ns: int = 0
    periods: int = 0
    throttled: int = 0


@dataclass
class _SimulatedPod:
    record: PodRecord
    group: str
    containers: list[_Group] = field(default_factory=list)


class SimulatedNode:
    """The files below ``root``; ``advance`` lets time pass."""

    def __init__(
        self,
        root: Path,
        *,
        version: int = 2,
        pods: int = 110,
        containers: int = 3,
        cpus: int = 64,
        numa_nodes: int = 2,
        seed: int = 1,
    ) -> None:
        self.root = root
        self.cpus, self.numa_nodes = cpus, numa_nodes
        self.layout = Layout(
            version, Driver.CGROUPFS, f"{root}/cgroup", f"{root}/resctrl", f"{root}/proc"
        )
        self.sys_root = f"{root}/sys"
        self.memory_bytes = 256 << 30
        self.system_cores = 1.5
        self._random = random.Random(seed)
        self._containers = containers
        self._jiffies = [0.0] * cpus
        self._made = 0
        self._pods: list[_SimulatedPod] = []
        self._machine()
        for _ in range(pods):
            self.add_pod()
        self.advance(0.0)

    @property
    def records(self) -> tuple[PodRecord, ...]:
        """The pods that run, as the kubelet would list them."""
        return tuple(one.record for one in self._pods)

    def truth(self) -> dict[str, tuple[float, int]]:
        """Cores and bytes that each pod has used since the last ``advance``, by UID."""
        return {
            one.record.pod.uid: (
                sum(each.cores for each in one.containers),
                sum(each.memory for each in one.containers),
            )
            for one in self._pods
        }

    def add_pod(self, uid: str = "") -> PodRecord:
        """A new pod: every third is best effort."""
        number, self._made = self._made, self._made + 1
        uid = uid or f"{number:08x}-0000-4000-8000-{number:012x}"
        best_effort = number % 3 == 0
        qos = KubeQoS.BEST_EFFORT if best_effort else KubeQoS.BURSTABLE
        group = self.layout.pod_group(qos, uid)
        labels = {LABEL_QOS: "BE" if best_effort else "LS", "app": f"app-{number % 20}"}
        pod = Pod(f"app-{number}", f"team-{number % 7}", uid, labels, cgroup_parent=f"/{group}")
        each = {BATCH_CPU: 300} if best_effort else {"cpu": 300, "memory": 512 * _MIB}
        most = {} if best_effort else {"cpu": 500, "memory": 1024 * _MIB}
        names = [f"c{index}" for index in range(self._containers)]
        ids = [f"{number:04x}{index:02x}".ljust(64, "f") for index in range(self._containers)]
        record = PodRecord(
            pod,
            {one: Container(pod, name, one) for one, name in zip(ids, names, strict=True)},
            demand=Demand(
                priority=5500 if best_effort else 9500,
                phase="Running",
                requests={name: amount * self._containers for name, amount in each.items()},
                limits={name: amount * self._containers for name, amount in most.items()},
                container_requests=dict.fromkeys(names, each),
                container_limits=dict.fromkeys(names, most),
            ),
        )
        groups = [
            _Group(self.layout.container_group(group, one, ScopePrefix.CONTAINERD)) for one in ids
        ]
        self._pods.append(_SimulatedPod(record, group, groups))
        for name in (group, *(one.name for one in groups)):
            for directory in self._directories(name):
                directory.mkdir(parents=True, exist_ok=True)
            self._write_limits(name)
        return record

    def remove_pod(self) -> None:
        """The oldest pod ends, and its groups with it."""
        gone = self._pods.pop(0)
        for name in (*(one.name for one in gone.containers), gone.group):
            for directory in self._directories(name):
                for file in directory.iterdir():
                    file.unlink()
                directory.rmdir()

    def advance(self, seconds: float) -> None:
        """Let time pass: everyone uses something, all counters grow, all files are anew."""
        for pod in self._pods:
            for one in pod.containers:
                one.cores = round(self._random.uniform(0.01, 0.2), 3)
                one.memory = self._random.randrange(20, 400) * _MIB
                one.used_ns += int(one.cores * seconds * 1e9)
                one.periods += int(10 * seconds)
                one.throttled += int(self._random.uniform(0, 3) * seconds)
                self._write_group(one.name, one)
            self._write_group(pod.group, _sum(pod.containers))
        self._write_group("kubepods/besteffort", _sum(self._of("BE")))
        self._write_limits("kubepods/besteffort")
        total = _sum(self._of("BE") + self._of("LS"))
        self._write_machine(total, seconds)

    def _of(self, qos: str) -> list[_Group]:
        pods = (one for one in self._pods if one.record.pod.labels[LABEL_QOS] == qos)
        return [group for pod in pods for group in pod.containers]

    def _directories(self, group: str) -> list[Path]:
        v1 = ("cpu", "cpuacct", "cpuset", "memory")
        subsystems = v1 if self.layout.version == 1 else ("cpu",)
        return [Path(self.layout.group_path(group, one)) for one in subsystems]

    def _write_limits(self, name: str) -> None:
        """What the kubelet and the runtime set, and nobody changes."""
        cpu = Path(self.layout.group_path(name, "cpu"))
        if self.layout.version == 2:
            _write(cpu / "cpu.max", "max 100000\n")
            _write(cpu / "cpuset.cpus.effective", f"0-{self.cpus - 1}\n")
            return
        _write(cpu / "cpu.cfs_quota_us", "-1\n")
        _write(cpu / "cpu.cfs_period_us", "100000\n")
        cpuset = Path(self.layout.group_path(name, "cpuset"))
        _write(cpuset / "cpuset.cpus", f"0-{self.cpus - 1}\n")

    def _write_group(self, name: str, group: _Group) -> None:
        for directory in self._directories(name):
            directory.mkdir(parents=True, exist_ok=True)
        cpu = Path(self.layout.group_path(name, "cpu"))
        memory = Path(self.layout.group_path(name, "memory"))
        periods = f"nr_periods {group.periods}\nnr_throttled {group.throttled}\n"
        active, inactive = group.memory // 4, group.memory - group.memory // 4
        if self.layout.version == 1:
            _write(cpu / "cpu.stat", f"{periods}throttled_time 0\n")
            usage = Path(self.layout.group_path(name, "cpuacct")) / "cpuacct.usage"
            _write(usage, f"{group.used_ns}\n")
            lines = [f"{word} 4096" for word in _OTHER_V1]
            for prefix in ("", "total_"):
                lines += [f"{prefix}inactive_anon {inactive}", f"{prefix}active_anon {active}"]
                lines += [f"{prefix}inactive_file {8 * _MIB}", f"{prefix}active_file {4 * _MIB}"]
                lines += [f"{prefix}unevictable 0", *(f"total_{word} 4096" for word in _OTHER_V1)]
        else:
            used = group.used_ns // 1000
            _write(
                cpu / "cpu.stat",
                f"usage_usec {used}\nuser_usec {used}\nsystem_usec 0\n{periods}"
                "throttled_usec 0\nnr_bursts 0\nburst_usec 0\n",
            )
            lines = ["anon 0", *(f"{word} 4096" for word in _OTHER_V2[:16])]
            lines += [f"inactive_anon {inactive}", f"active_anon {active}"]
            lines += [f"inactive_file {8 * _MIB}", f"active_file {4 * _MIB}", "unevictable 0"]
            lines += [f"{word} 4096" for word in _OTHER_V2[16:]]
        _write(memory / "memory.stat", "\n".join(lines) + "\n")
        self._write_numa(memory, inactive, active)

    def _write_numa(self, memory: Path, inactive: int, active: int) -> None:
        nodes = self.numa_nodes

        def line(word: str, amount: int, separator: str, *total: str) -> str:
            each = (f"N{node}={amount // nodes}" for node in range(nodes))
            return f"{word}{separator}{' '.join((*total, *each))}"

        if self.layout.version == 1:
            pages = (inactive + active) // 4096
            words = {"total": pages + 3072, "file": 3072, "anon": pages, "unevictable": 0}
            lines = [
                f"{prefix}{word}={count} " + line("", count, "").strip()
                for prefix in ("", "hierarchical_")
                for word, count in words.items()
            ]
        else:
            words = {"anon": inactive + active, "file": 12 * _MIB, "inactive_anon": inactive}
            words |= {"active_anon": active, "inactive_file": 8 * _MIB, "active_file": 4 * _MIB}
            lines = [
                line(word, amount, " ") for word, amount in {**words, "unevictable": 0}.items()
            ]
        _write(memory / "memory.numa_stat", "\n".join(lines) + "\n")

    def _machine(self) -> None:
        """What never changes: CPUs, their caches, NUMA nodes."""
        half = self.cpus // self.numa_nodes
        for cpu in range(self.cpus):
            base = Path(self.sys_root, f"devices/system/cpu/cpu{cpu}")
            first = cpu // half * half
            texts = {
                "topology/core_id": (cpu % half) // 2,
                "topology/physical_package_id": cpu // half,
                "topology/die_id": 0,
                "cache/index3/level": 3,
                "cache/index3/type": "Unified",
                "cache/index3/id": cpu // half,
                "cache/index3/shared_cpu_list": f"{first}-{first + half - 1}",
                "online": 1,
            }
            for name, text in texts.items():
                (base / name).parent.mkdir(parents=True, exist_ok=True)
                (base / name).write_text(f"{text}\n")
        for word in ("online", "possible", "present"):
            Path(self.sys_root, f"devices/system/cpu/{word}").write_text(f"0-{self.cpus - 1}\n")
        for node in range(self.numa_nodes):
            base = Path(self.sys_root, f"devices/system/node/node{node}")
            base.mkdir(parents=True)
            (base / "cpulist").write_text(f"{node * half}-{(node + 1) * half - 1}\n")
        processor = "vendor_id\t: GenuineIntel\nmodel name\t: Simulated CPU\n"
        Path(self.layout.proc_root, "1").mkdir(parents=True)
        Path(self.layout.proc_root, "cpuinfo").write_text(processor)
        Path(self.layout.proc_root, "1/mountinfo").write_text("")

    def _write_machine(self, pods: _Group, seconds: float) -> None:
        proc = Path(self.layout.proc_root)
        share = (pods.cores + self.system_cores) * seconds * 100 / self.cpus
        self._jiffies = [one + share for one in self._jiffies]
        lines = [_cpu_line("cpu", sum(self._jiffies))]
        lines += [_cpu_line(f"cpu{index}", one) for index, one in enumerate(self._jiffies)]
        lines += ["intr " + "0 " * 400, "ctxt 1", "btime 1700000000", "procs_running 1"]
        _write(proc / "stat", "\n".join(lines) + "\n")
        available = self.memory_bytes - pods.memory - 2048 * _MIB
        _write(
            proc / "meminfo",
            _meminfo("", self.memory_bytes, available) + f"MemAvailable: {available // 1024} kB\n",
        )
        for node in range(self.numa_nodes):
            path = Path(self.sys_root, f"devices/system/node/node{node}/meminfo")
            each = self.memory_bytes // self.numa_nodes, available // self.numa_nodes
            _write(path, _meminfo(f"Node {node} ", *each))


def _write(path: Path, text: str) -> None:
    """Write over what is there: a reader finds no empty file, as there is none in a kernel."""
    file = os.open(path, os.O_WRONLY | os.O_CREAT, 0o644)
    try:
        os.pwrite(file, text.encode(), 0)
        os.ftruncate(file, len(text))
    finally:
        os.close(file)


def _sum(groups: list[_Group]) -> _Group:
    return _Group(
        "",
        sum(one.cores for one in groups),
        sum(one.memory for one in groups),
        sum(one.used_ns for one in groups),
        max((one.periods for one in groups), default=0),
        max((one.throttled for one in groups), default=0),
    )


def _cpu_line(name: str, jiffies: float) -> str:
    user, system = int(jiffies * 0.7), int(jiffies) - int(jiffies * 0.7)
    return f"{name} {user} 0 {system} 100000 0 0 0 0 0 0"


def _meminfo(prefix: str, total: int, free: int) -> str:
    words = {"MemTotal": total, "MemFree": free - 20 * _MIB, "Active(file)": 10 * _MIB}
    words |= {"Inactive(file)": 10 * _MIB, "SReclaimable": 0, "Active(anon)": 0, "Shmem": 0}
    words |= {f"Other{index}": 0 for index in range(30)}
    return "".join(f"{prefix}{word}: {amount // 1024} kB\n" for word, amount in words.items())
