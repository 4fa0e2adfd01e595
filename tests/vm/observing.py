"""What koordlet says of pods that burn, beside what the kernel says of the same seconds."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import json
import os
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from koord_demo.cgroups import container_pid
from koord_demo.cri_client import Cri
from koord_host.kernel import KernelFilesystem
from koord_host.knobs.layout import Driver, Layout
from koord_model.node_info import NodeCPUInfo
from koordctl.koordlet_client import ADDRESS
from koordlet.metrics_advisor.collectors import nodeinfo
from koordlet.metrics_advisor.contract.collector import CollectContext, CollectorSources

from koordctl import status_client
from tests.vm import node, slices
from tests.vm.expectations import NODE_FIGURES, POD_FIGURES, Burner
from tests.vm.kubelet import Kubelet

JOURNALLED = ("collector unavailable", "not collected", "collector failed")

_PRESSURES = ("cpu", "memory", "io")
_AVERAGE_SECONDS = 2.0
"""How long the kernel keeps an average before it computes the next."""
_REPORTED_SECONDS = 20.0
"""How old koordlet's last figure may be."""
_TRIES = 60

Samples = list[tuple[float, dict[str, float]]]
"""Pressures, and when they were read."""


@dataclasses.dataclass(frozen=True)
class Burning:
    """A pod that burns: where the kernel counts it."""

    name: str
    uid: str
    container_id: str
    pid: int
    groups: Mapping[str, Path]
    """By "container" and "pod"."""

    def counters(self) -> dict[str, float]:
        """What only grows, by source."""
        found = {"/proc/PID/stat": _process_seconds(self.pid)}
        for who, group in self.groups.items():
            stat = _numbers(group / "cpu.stat")
            found[f"cpu.stat {who}"] = stat["usage_usec"] / 1e6
            found[f"periods {who}"] = stat["nr_periods"]
            found[f"throttled {who}"] = stat["nr_throttled"]
        return found

    def memory(self) -> dict[str, float]:
        """Bytes, by source."""
        found = {"/proc/PID/status": _bytes(f"/proc/{self.pid}/status", "RssAnon")}
        for who, group in self.groups.items():
            stat = _numbers(group / "memory.stat")
            own = stat["inactive_anon"] + stat["active_anon"] + stat["unevictable"]
            found[f"memory.stat {who}"] = own
            found[f"memory.stat {who} with files"] = (
                own + stat["active_file"] + stat["inactive_file"]
            )
        return found

    def signal(self, number: int) -> None:
        os.kill(self.pid, number)


def start(kubelet: Kubelet, cri: Cri, burner: Burner) -> Burning:
    """Start a pod that burns, and wait until it has its memory."""
    container_id = kubelet.start(burner.pod, burner.command)
    pid = container_pid(cri, container_id)
    [line] = Path(f"/proc/{pid}/cgroup").read_text().splitlines()
    group = slices.CGROUP / line.removeprefix("0::/")
    uid = cri.container_status(container_id).status.labels["io.kubernetes.pod.uid"]
    held = f"/proc/{pid}/status"
    # The kernel counts a process's pages in batches of 64.
    node.until("the burner's memory", lambda: _bytes(held, "RssAnon") > 0.97 * burner.memory)
    groups = {"container": group, "pod": group.parent}
    return Burning(burner.pod.name, uid, container_id, pid, groups)


def measure(burning: Sequence[Burning], seconds: float) -> dict[str, Any]:
    """Some seconds as koordlet and as the kernel saw them."""
    koordlet = int(node.unit(node.KOORDLET)["MainPID"])
    before = {one.name: one.counters() for one in burning}
    node_before, own_before = _node_cpu(), _process_seconds(koordlet)
    began = time.monotonic()
    with _watched_pressures(burning) as pressures:
        time.sleep(seconds)
        after = {one.name: one.counters() for one in burning}
        node_after, own_after = _node_cpu(), _process_seconds(koordlet)
        elapsed = time.monotonic() - began
        kernel = {one.name: _kernel(one, before, after, elapsed) for one in burning}
        reported = {one.name: _reported(one, elapsed) for one in burning}
        whole = {name: _query(name, elapsed, pick) for name, pick, _ in NODE_FIGURES}
        pressed = _reported_pressures_in_calm(burning, pressures)
    return {
        "seconds": elapsed,
        "kernel": {**kernel, "node": _node((node_after - node_before) / elapsed)},
        "koordlet": {**reported, "node": {name: _only(found) for name, found in whole.items()}},
        "pressure": {"koordlet": pressed, "kernel": _distinct(pressures)},
        "cost": {
            "cores": (own_after - own_before) / elapsed,
            "memory": _bytes(f"/proc/{koordlet}/status", "VmRSS"),
            "start": start_seconds(),
        },
    }


def start_seconds() -> float:
    """How long koordlet's last start took, from its process to its readiness."""
    names = ("ExecMainStartTimestampMonotonic", "ActiveEnterTimestampMonotonic")
    said = [
        node.run(f"systemctl show --value --property={name} {node.KOORDLET}")["output"]
        for name in names
    ]
    return (int(said[1]) - int(said[0])) / 1e6


def page(path: str) -> Any:
    """One of koordlet's pages.

    Raises:
        OSError: it does not answer.
    """
    try:
        return json.loads(status_client.ask(ADDRESS, path, status_client.KOORDLET))
    except status_client.AskError as error:
        raise OSError(str(error)) from None


def seconds_measured(one: Burning, window: int) -> list[float]:
    """When the container's CPU was measured, to the second, seconds since the epoch.

    Never, for a koordlet that is ready and has not read yet what the one before it wrote.
    """
    parameters = {"window": f"{window}s", "points": "1", "step": "1s"}
    labels = {"kind": "container_cpu_usage", "container_id": one.container_id}
    found = page(f"/v1/metrics/query?{urlencode({**labels, **parameters})}")
    rows = (zip(found["times"], one["points"], strict=True) for one in found["series"])
    return [at for row in rows for at, value in row if value is not None]


def machine() -> dict[str, Any]:
    """The machine as lscpu, as koordlet's collector, and as koordlet itself describe it."""
    said = node.run("lscpu --parse=CPU,CORE,SOCKET,NODE")["output"]
    rows = [line.split(",") for line in said.splitlines() if not line.startswith("#")]
    sources = CollectorSources(KernelFilesystem(), Layout(2, Driver.SYSTEMD))
    infos = nodeinfo.Collector(sources).collect(CollectContext(time.time(), time.monotonic())).infos
    [cpus] = (info for info in infos if isinstance(info, NodeCPUInfo))
    seen = [(one.id, one.core, one.socket, one.node) for one in cpus.online]
    model = node.run("lscpu | sed -n 's/^Model name: *//p'")["output"]
    return {
        "lscpu": {"rows": [[int(word or 0) for word in row] for row in rows], "model": model},
        "collector": {"rows": seen, "model": cpus.model},
        "koordlet": page("/v1/node"),
        "memory": _bytes("/proc/meminfo", "MemTotal"),
    }


def journal() -> list[dict[str, str]]:
    """What koordlet's collectors had to say, by process."""
    said = node.run(f"journalctl --unit={node.KOORDLET} --output=json")["output"]
    lines = [json.loads(line) for line in said.splitlines()]
    return [
        {"pid": line["_PID"], "message": line["MESSAGE"]}
        for line in lines
        if any(words in line["MESSAGE"] for words in JOURNALLED)
    ]


def _kernel(
    one: Burning,
    before: Mapping[str, Mapping[str, float]],
    after: Mapping[str, Mapping[str, float]],
    seconds: float,
) -> dict[str, float | None]:
    grown = {name: value - before[one.name][name] for name, value in after[one.name].items()}
    found: dict[str, float | None] = {**one.memory()}
    found["/proc/PID/stat"] = grown["/proc/PID/stat"] / seconds
    for who in one.groups:
        found[f"cpu.stat {who}"] = grown[f"cpu.stat {who}"] / seconds
        periods = grown[f"periods {who}"]
        ratio = grown[f"throttled {who}"] / periods if periods else None
        found[f"cpu.stat {who} throttled"] = ratio
    return found


def _reported(one: Burning, seconds: float) -> dict[str, float | None]:
    labels = {"pod": {"pod_uid": one.uid}, "container": {"container_id": one.container_id}}
    return {
        kind: _only(_query(kind, seconds, pick, **labels[kind.partition("_")[0]]))
        for kind, pick, _ in POD_FIGURES
    }


def _query(kind: str, seconds: float, pick: str, **labels: str) -> list[dict[str, Any]]:
    parameters = {"kind": kind, "window": f"{seconds:.3f}s", "aggregation": pick, **labels}
    found = page(f"/v1/metrics/query?{urlencode(parameters)}")["series"]
    return [{**one, "value": one["values"][pick]} for one in found]


def _only(found: Sequence[Mapping[str, Any]]) -> float | None:
    return found[0]["value"] if len(found) == 1 else None


@contextlib.contextmanager
def _watched_pressures(burning: Sequence[Burning]) -> Iterator[Samples]:
    """All pressures, again and again meanwhile: averages over 10 s, new every two."""
    seen: Samples = []
    done = threading.Event()

    def watch() -> None:
        while not done.wait(0.5):
            seen.append((time.monotonic(), _pressures(burning)))

    watching = threading.Thread(target=watch)
    watching.start()
    try:
        yield seen
    finally:
        done.set()
        watching.join()


def _pressures(burning: Iterable[Burning]) -> dict[str, float]:
    found = {}
    for resource in _PRESSURES:
        files = {f"node {resource}": Path(f"/proc/pressure/{resource}")}
        for one in burning:
            for who, group in one.groups.items():
                files[f"{one.name} {who} {resource}"] = group / f"{resource}.pressure"
        for name, file in files.items():
            for line in file.read_text().splitlines():
                degree, average, *_ = line.split()
                found[f"{name} {degree}"] = float(average.removeprefix("avg10="))
    return found


def _reported_pressures_in_calm(burning: Sequence[Burning], samples: Samples) -> dict[str, float]:
    """What koordlet says at a moment before which no sample was late.

    When the whole machine stalls for longer than the kernel keeps an average, koordlet may read one
    that is not among the samples.
    """
    for _ in range(_TRIES):
        reported = _reported_pressures(burning)
        since = time.monotonic() - _REPORTED_SECONDS
        times = [at for at, _ in samples if at >= since] + [time.monotonic()]
        if all(after - before < _AVERAGE_SECONDS for before, after in itertools.pairwise(times)):
            break
        time.sleep(1.0)
    return reported


def _reported_pressures(burning: Sequence[Burning]) -> dict[str, float]:
    """What koordlet says now."""
    reported = {}
    for name, kind, labels in (
        ("node", "node_psi", {}),
        *((f"{one.name} pod", "pod_psi", {"pod_uid": one.uid}) for one in burning),
        *(
            (f"{one.name} container", "container_psi", {"container_id": one.container_id})
            for one in burning
        ),
    ):
        for found in _query(kind, _REPORTED_SECONDS, "last", psi_precision="avg10", **labels):
            one = found["labels"]
            resource = {"mem": "memory"}.get(one["psi_resource"], one["psi_resource"])
            reported[f"{name} {resource} {one['psi_degree']}"] = found["value"]
    return reported


def _distinct(samples: Samples) -> dict[str, list[float]]:
    """All that the kernel said of each."""
    seen = [one for _, one in samples]
    return {name: sorted({one[name] for one in seen}) for name in seen[-1]}


def _node(cores: float) -> dict[str, float]:
    meminfo = "/proc/meminfo"
    total = _bytes(meminfo, "MemTotal")
    return {
        "/proc/stat": cores,
        "MemTotal - MemAvailable": total - _bytes(meminfo, "MemAvailable"),
        "MemTotal - MemFree": total - _bytes(meminfo, "MemFree"),
    }


def _node_cpu() -> float:
    """Seconds of CPU of the whole machine."""
    user, nice, system, _, _, irq, softirq, *_ = (
        int(word) for word in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:]
    )
    return (user + nice + system + irq + softirq) / os.sysconf("SC_CLK_TCK")


def _process_seconds(pid: int) -> float:
    """What ps shows as a process's time, not rounded."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _numbers(path: Path) -> dict[str, int]:
    lines = (line.split() for line in path.read_text().splitlines())
    return {name: int(value) for name, value in lines}


def _bytes(path: str, name: str) -> int:
    """A line in kB of status or meminfo; 0 where there is none."""
    for line in Path(path).read_text().splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) << 10
    return 0
