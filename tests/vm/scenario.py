"""What happens on the node, step by step; each step's outcome is a line of JSON on stdout.

A step that fails says so in its line, and the next one is tried, unless there is no
point: on a node that is not set up.
"""

from __future__ import annotations

import importlib
import json
import os
import signal
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from koord_demo.cgroups import container_pid, oom_score_adj
from koord_demo.oci_image import IMAGE, write_image

from tests.vm import expectations, network_cards, node, observing, readme, recipe, slices
from tests.vm.docking import Docking
from tests.vm.expectations import BE
from tests.vm.kubelet import Kubelet, groups, settled
from tests.vm.managing import Managing
from tests.vm.observing import Burning

RESTARTS = 2
MEASURED_SECONDS, MEASUREMENTS = 12.0, 4
"""Again where it differs: a load that came or went meanwhile, or we are wrong each time."""

kubelet = Kubelet(node.SOCKET)
direct = Kubelet(node.CONTAINERD).cri
"""Past the proxy, to see what came of its work."""
burning: list[Burning] = []


def versions() -> dict[str, Any]:
    commands = {
        "kernel": "uname -r",
        "systemd": "systemctl --version | head -1",
        "containerd": "containerd --version",
        "runc": "runc --version | head -1",
        "python": "/opt/pykoord/bin/python --version",
        "pykoord": "koordctl --version",
        "package": "dpkg-query --show --showformat '${db:Status-Status} ${Version}' pykoord",
        "cgroup": "stat -f -c %T /sys/fs/cgroup",
        "controllers": "cat /sys/fs/cgroup/cgroup.controllers",
        "psi": "cat /proc/pressure/cpu",
        "init": "cat /proc/1/comm",
    }
    return {name: node.run(command)["output"] for name, command in commands.items()}


def images() -> dict[str, Any]:
    """The image comes in before the pods: there is no registry to ask."""
    with tempfile.TemporaryDirectory() as directory:
        tar = write_image(Path(directory) / "image.tar")
        done = node.run(f"ctr --namespace k8s.io images import {tar}")
    node.until("the image", lambda: direct.image_status(IMAGE, timeout=60) is not None)
    return done


def installation() -> list[dict[str, Any]]:
    """The README's steps, word for word; its first one was done as the disk was made."""
    Path("/etc/default/koordlet").write_text(expectations.KOORDLET_ENVIRONMENT)
    # Debian's own level, 3, leaves the counters to CAP_SYS_ADMIN.
    Path("/proc/sys/kernel/perf_event_paranoid").write_text("2")
    drop_ins = Path("/etc/systemd/system/koordlet.service.d")
    drop_ins.mkdir()
    # As operations/resource-plugins.md has it, before koordlet is given it.
    Path("/var/lib/katalyst/resource-plugins").mkdir(parents=True)
    for number, (page, word) in enumerate(readme.DROP_INS):
        text = readme.drop_in(page.read_text(), word)
        (drop_ins / f"{number}-{page.stem}.conf").write_text(text)
    steps = readme.steps(readme.README.read_text())
    done = []
    for command in (command for step in (2, 3) for command in steps[step]):
        done.append(node.run(command))
        if done[-1]["exit"]:
            raise RuntimeError(f"{command}: {done[-1]['output']}")
    return done


def units() -> dict[str, Any]:
    node.until("koordlet in the proxy's list", node.koordlet_is_asked)
    return {name: node.unit(name) for name in (node.PROXY, node.PROXY_SOCKET, node.KOORDLET)}


def status() -> dict[str, Any]:
    return node.run("/opt/pykoord/bin/koordctl status")


def doctor() -> dict[str, Any]:
    return node.run("/opt/pykoord/bin/koordctl doctor node --json")


def pods() -> dict[str, Any]:
    """One of each row: as it is made, after systemd has written its view, and the kubelet its."""
    slices.make_tree()
    ids = {case.name: kubelet.start(case) for case in expectations.PODS}
    seen = {case.name: _settled(ids[case.name], case) for case in expectations.PODS}
    node.run("systemctl daemon-reload")
    for case in expectations.PODS:
        seen[case.name]["reloaded"] = _settled(ids[case.name], case)
        kubelet.update(ids[case.name], case)
        seen[case.name]["updated"] = _settled(ids[case.name], case)
    return seen


def restarts() -> dict[str, Any]:
    """Pods are started while the proxy is restarted again and again."""
    done: list[dict[str, Any]] = []

    def restart() -> None:
        for _ in range(RESTARTS):
            done.append(node.run("systemctl restart koord-runtime-proxy"))
            time.sleep(2)

    restarting = threading.Thread(target=restart)
    restarting.start()
    started: list[str] = []
    while restarting.is_alive() or len(started) < RESTARTS:
        started.append(kubelet.start(BE))
    seen = [_seen(container_id) for container_id in started]
    return {"restarts": done, "pods": seen, "retries": kubelet.retries}


def hang() -> dict[str, Any]:
    """koordlet hangs, until systemd's watchdog ends that; meanwhile the proxy is killed.

    A pod starts without koordlet, which comes back with what it had measured, and with every
    plugin: its settings are read as it starts.
    """
    _ask_for_every_plugin()
    [one, *_] = burning
    before, at = node.unit(node.KOORDLET), time.time()
    os.kill(int(before["MainPID"]), signal.SIGSTOP)
    meanwhile = _seen(kubelet.start(BE))
    proxy = _kill_proxy()

    def again() -> bool:
        now = node.unit(node.KOORDLET)
        return now["ActiveState"] == "active" and now["MainPID"] != before["MainPID"]

    def measures() -> bool:
        return any(second > at + 1 for second in observing.seconds_measured(one, 300))

    try:
        node.until("koordlet, started by the watchdog", again)
    finally:
        # If that fails, the steps to come need a koordlet all the same.
        node.run("systemctl kill --signal=CONT koordlet")
    node.until("koordlet, asked by the proxy again", node.koordlet_is_asked)
    node.until("koordlet, measuring again", measures)
    measured = observing.seconds_measured(one, 300)
    for each in burning:
        each.signal(signal.SIGKILL)
    journal = f"journalctl --unit={node.KOORDLET} --output=cat --grep=watchdog"
    return {
        "before": before,
        "after": node.unit(node.KOORDLET),
        "journal": node.run(journal)["output"],
        "meanwhile": meanwhile,
        "proxy": proxy,
        "measured before": [at - second for second in measured if second < at],
        "measured after": [second - at for second in measured if second >= at],
    }


def _ask_for_every_plugin() -> None:
    """All plugins, with a NodeSLO that asks for what the kernel of this node can do."""
    Path("/etc/koordlet").mkdir(exist_ok=True)
    Path("/etc/koordlet/node.yaml").write_text(expectations.NODE_RULES)
    flags = "--hook-plugins=all --nodeslo-file=/etc/koordlet/node.yaml --idle-besteffort"
    node.run(f"echo 'KOORDLET_FLAGS={flags}' >> /etc/default/koordlet")


def _kill_proxy() -> dict[str, Any]:
    """The proxy is killed: it comes back with its records."""
    unit, records = node.unit(node.PROXY), node.pods()
    node.run("systemctl kill --signal=KILL koord-runtime-proxy")

    def again() -> bool:
        return node.unit(node.PROXY)["MainPID"] != unit["MainPID"] and node.proxy_is_up()

    node.until("the proxy, started again", again)
    return {"units": [unit, node.unit(node.PROXY)], "records": [records, node.pods()]}


def use() -> dict[str, Any]:
    """Pods burn CPU and memory, and koordlet says how much."""
    burning.extend(observing.start(kubelet, direct, one) for one in expectations.BURNERS)
    # A first look says nothing of what grows.
    time.sleep(2)
    for _ in range(MEASUREMENTS):
        measured = observing.measure(burning, MEASURED_SECONDS)
        if all(expectations.agree(*figure) for _, *figure in expectations.figures(measured)):
            break
    # One thread emulates all processors: what burns on takes them from the steps to come.
    for one in burning:
        one.signal(signal.SIGSTOP)
    return measured


def machine() -> dict[str, Any]:
    return observing.machine()


def people() -> list[dict[str, Any]]:
    """Somebody who is not root looks, as the README says."""
    nobody = "setpriv --reuid=65534 --regid=65534 --clear-groups"
    commands = readme.steps(readme.README.read_text())[5]
    return [node.run(f"{nobody} {command}") for command in commands]


def reach() -> dict[str, Any]:
    """What koordlet's unit lets it reach: a kubelet at the node's own address."""
    node.run("busybox ip address add 192.0.2.1/32 dev lo")
    group = "/sys/fs/cgroup/system.slice/koordlet.service"
    connect = f"echo $$ > {group}/cgroup.procs; exec busybox nc -w 1 192.0.2.1 10250"
    before = node.run(connect)
    node.run("systemctl set-property --runtime koordlet IPAddressAllow=192.0.2.1")
    return {"before": before, "after": node.run(connect)}


def every_plugin() -> dict[str, Any]:
    """A pod starts with all plugins."""
    container_id = kubelet.start(expectations.SCORED)
    besteffort = slices.CGROUP / "kubepods.slice/kubepods-besteffort.slice"
    return {
        "pod": _settled(container_id, expectations.SCORED),
        "score": oom_score_adj(container_pid(direct, container_id)),
        "besteffort": {name: (besteffort / name).read_text().strip() for name in ("cpu.idle",)},
    }


def way_back() -> dict[str, Any]:
    """koordlet is stopped, and what it found is put back."""
    journal = Path("/var/lib/koordlet/journal.jsonl").read_text().splitlines()
    refused = node.run("/opt/pykoord/bin/koordctl restore")
    node.run("systemctl stop koordlet")
    besteffort = slices.CGROUP / "kubepods.slice/kubepods-besteffort.slice"
    return {
        "journal": [json.loads(line) for line in journal],
        "refused": refused,
        "restored": node.run("/opt/pykoord/bin/koordctl restore --json"),
        "besteffort": (besteffort / "cpu.idle").read_text().strip(),
    }


def without_the_first_part() -> dict[str, Any]:
    """Prepare for the other parts what the first one leaves behind."""
    slices.make_tree()
    kubelet.start(expectations.LSE)
    return node.run("systemctl stop koordlet")


def kernel_rules() -> dict[str, Any]:
    """The rules that the tests' fake cgroupfs enforces, tried on this kernel."""
    return node.run("/opt/pykoord/bin/python -m tests.support.kernel_rules 2 /sys/fs/cgroup")


def interrupts() -> dict[str, Any]:
    """Interrupts of the node's network cards are spread, and left as they were found."""
    return network_cards.tune()


def complaints() -> dict[str, Any]:
    """What systemd and our programs have to complain of in the end."""
    journal = f"journalctl --output=cat --unit={node.PROXY} --unit={node.KOORDLET}"
    return {
        "failed": node.run("systemctl list-units --failed --plain --no-legend")["output"],
        "errors": node.run(f"{journal} | grep -e ^ERROR -e Traceback")["output"],
    }


def collectors() -> list[dict[str, str]]:
    return observing.journal()


def _settled(container_id: str, case: expectations.PodCase) -> dict[str, Any]:
    return settled(lambda: _seen(container_id), case)


def _seen(container_id: str) -> dict[str, Any]:
    """What the kernel and the proxy hold for a container."""
    record = node.container(container_id)
    pid = container_pid(direct, container_id)
    return {"id": container_id, **groups(pid), "record": record}


SETUP: tuple[Callable[[], Any], ...] = (versions, images, installation, units, status, doctor)
PARTS: dict[str, tuple[Callable[[], Any], ...]] = {
    "vm": (
        pods,
        restarts,
        use,
        machine,
        people,
        reach,
        hang,
        every_plugin,
        way_back,
        kernel_rules,
        interrupts,
    ),
    "qos_manager": Managing(kubelet, direct).steps(),
    "docker": Docking().steps(),
}
END: tuple[Callable[[], Any], ...] = (complaints, collectors)


def main() -> None:
    if all(_take(step) for step in SETUP):
        for step in _events():
            _take(step)


def _events() -> tuple[Callable[[], Any], ...]:
    """Those of the parts, or of the module, that the machine was booted for."""
    words = dict(word.partition("=")[::2] for word in Path("/proc/cmdline").read_text().split())
    if recipe.SCENARIO_WORD in words:
        found: tuple[Callable[[], Any], ...]
        found = importlib.import_module(words[recipe.SCENARIO_WORD]).STEPS
        return found
    parts = words[recipe.PARTS_WORD].split(",")
    beginning = () if "vm" in parts else (without_the_first_part,)
    return (*beginning, *(step for part in parts for step in PARTS[part]), *END)


def _take(step: Callable[[], Any]) -> bool:
    begin = time.monotonic()
    line: dict[str, Any] = {"step": step.__name__}
    try:
        line["outcome"] = step()
    except Exception:
        line["error"] = f"{traceback.format_exc()}{node.testimony()}"
    line["seconds"] = round(time.monotonic() - begin, 1)
    print(json.dumps(line), flush=True)
    # For whoever reads the console.
    print(f"{step.__name__}: {line['seconds']} s", file=sys.stderr, flush=True)
    return "outcome" in line


if __name__ == "__main__":
    main()
