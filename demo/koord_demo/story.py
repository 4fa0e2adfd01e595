"""`make demo`: a batch pod from the kubelet to its cgroup, shown in colour."""

from __future__ import annotations

import json
import statistics
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from koord_demo import cri_client_pb2 as pb
from koord_demo import plain_words
from koord_demo.cgroups import CgroupValues
from koord_demo.cri_client import Cri
from koord_demo.nodes import DemoNode
from koord_demo.pods import PodPlan, batch_pod_config, remove_pod, run_pod
from koord_demo.programs import DemoProgram, console_script, running


def show(console: Console, node: DemoNode, directory: Path) -> None:
    """Start proxy and koordlet in front of the node's runtime, and run the pod.

    Raises:
        DemoError: one of them does not come up.
    """
    console.rule("[bold]a batch pod, with and without pykoord", style="dim")
    console.print(
        f"kubelet [dim]──CRI──▶[/] [cyan]koord-runtime-proxy[/] [dim]──CRI──▶[/] {node.title}\n"
        "                            [dim]╰──hooks──▶[/] [magenta]koordlet[/]\n"
    )
    hooks, proxy_socket = directory / "hookserver.d", directory / "proxy.sock"
    with (
        running("koordlet", _koordlet_command(directory, hooks)) as koordlet,
        running("koordlet --read-only", _observer_command(directory)) as observer,
        Cri(node.address) as direct,
        Cri(proxy_socket) as proxied,
    ):
        koordlet.wait_until((hooks / "koordlet.json").exists)
        with running("koord-runtime-proxy", _proxy_command(node, directory, hooks)) as proxy:
            proxy.wait_until(proxy_socket.exists)
            proxied.wait_until_ready()
            Story(console, node, direct, proxied, koordlet, observer, directory).run()


def _koordlet_command(directory: Path, hooks: Path) -> list[str]:
    """It answers hooks, and finds no cgroups to manage: this machine's are left alone."""
    socket = str(directory / "koordlet.sock")
    return [
        *(console_script("koordlet"), "--log-format", "json", "--standalone"),
        *("--runtime-hooks-addr", socket, "--runtime-hooks-host-endpoint", socket),
        *("--runtime-hooks-config-path", str(hooks), "--status-address", "none"),
        *("--cgroup-root-dir", str(directory / "none")),
        *("--state-dir", str(directory / "koordlet")),
    ]


def _observer_command(directory: Path) -> list[str]:
    """It observes this machine, and changes nothing."""
    return [
        *(console_script("koordlet"), "--log-format", "json", "--read-only", "--standalone"),
        *("--feature-gates", "PSICollector=true"),
        *("--status-address", f"unix://{directory}/status.sock"),
        *("--state-dir", str(directory / "observer")),
        *("--nodeslo-file", str(_rules(directory))),
    ]


def _rules(directory: Path) -> Path:
    """A NodeSLO that suppresses batch pods."""
    path = directory / "nodeslo.yaml"
    path.write_text("kind: NodeSLO\nspec: {resourceUsedThresholdWithBE: {enable: true}}\n")
    return path


def _proxy_command(node: DemoNode, directory: Path, hooks: Path) -> list[str]:
    return [
        *(console_script("koord-runtime-proxy"), "--log-format", "json"),
        *("--koord-runtimeproxy-endpoint", str(directory / "proxy.sock")),
        *("--remote-runtime-service-endpoint", str(node.address)),
        *("--hook-config-path", str(hooks)),
        *("--state-path", str(directory / "state.db")),
        *("--metrics-address", f"unix://{directory}/metrics.sock"),
    ]


class Story:
    """The parts of the story, in order."""

    def __init__(
        self,
        console: Console,
        node: DemoNode,
        direct: Cri,
        proxied: Cri,
        koordlet: DemoProgram,
        observer: DemoProgram,
        directory: Path,
    ) -> None:
        """``direct`` leads to the runtime itself, ``proxied`` through the proxy.

        ``koordlet`` answers hooks, ``observer`` is read-only. Sockets are in ``directory``.
        """
        self._console = console
        self._node = node
        self._direct = direct
        self._proxied = proxied
        self._koordlet = koordlet
        self._observer = observer
        self._directory = directory

    def run(self) -> None:
        plan = batch_pod_config("reports", cgroup_root=self._node.cgroup_root)
        self._show_request(plan)
        before = self._run_without_pykoord()
        pod = run_pod(self._proxied, plan)
        self._show_hook_changes()
        self._show_cgroup_files(plan, pod.container_id, before)
        self._show_update(plan, pod.container_id)
        self._show_latency(pod.container_id)
        self._show_observation()
        self._show_decision()
        remove_pod(self._proxied, pod)
        self._heading("Done: the pod and everything that was started are gone.")

    def _show_request(self, plan: PodPlan) -> None:
        self._heading("1. The kubelet's request")
        annotations = plan.sandbox.annotations
        key = next(key for key in annotations if key.endswith("extended-resource-spec"))
        limits = json.loads(annotations[key])["containers"]["main"]["limits"]
        amounts = "  ".join(f"{name} [green]{value}[/]" for name, value in limits.items())
        linux = plan.container.linux.resources
        self._say(
            "A pod of QoS class [bold]BE[/]. The kubelet treats it as best-effort: "
            f"cpu_shares [red]{linux.cpu_shares}[/], no quota, no memory limit.\n"
            "Its real request (millicores, bytes) is in an annotation that the kubelet does not "
            "read:\n"
            f"    {amounts}"
        )

    def _run_without_pykoord(self) -> CgroupValues:
        """Run the same pod on the runtime alone; return its values."""
        plan = batch_pod_config("reports-alone", cgroup_root=self._node.cgroup_root)
        pod = run_pod(self._direct, plan)
        parent = plan.sandbox.linux.cgroup_parent
        values = self._node.values(self._direct, parent, pod.container_id)
        remove_pod(self._direct, pod)
        return values

    def _show_hook_changes(self) -> None:
        self._heading("2. Changes by the hooks, and why")
        # The line may reach us a moment after the call that it is about.
        self._koordlet.wait_until(lambda: len(self._reasons()) > 0)
        for stage, subject, why in self._reasons():
            self._say(f"[magenta]koordlet[/] at {stage} of {subject}:")
            for reason in why.split("; "):
                self._say(f"    {escape(reason)}")

    def _reasons(self) -> list[tuple[str, str, str]]:
        """Stage, container, and the arithmetic, from koordlet's log.

        What it says about whole pods is left out: CRI has no field for it.
        """
        return [
            (str(event["stage"]), f"{event['pod']}/{event['container']}", str(event["why"]))
            for event in self._koordlet.events()
            if event.get("why") and "container" in event
        ]

    def _show_cgroup_files(self, plan: PodPlan, container_id: str, before: CgroupValues) -> None:
        self._heading("3. The cgroup files now")
        parent = plan.sandbox.linux.cgroup_parent
        after = self._node.values(self._direct, parent, container_id)
        table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
        for title in ("", "runtime alone", "with pykoord", "the container"):
            table.add_column(title)
        pairs = zip(plain_words.rows(before), plain_words.rows(after), strict=True)
        for (name, old, _), (_, new, meaning) in pairs:
            colour = "green" if old != new else "dim"
            table.add_row(name, f"[dim]{old}[/]", f"[{colour}]{new}[/]", meaning)
        self._console.print(table)
        place = self._node.place(self._direct, parent, container_id)
        self._console.print(f"[dim]read from {place}[/]", soft_wrap=True)

    def _show_update(self, plan: PodPlan, container_id: str) -> None:
        self._heading("4. The kubelet updates the container")
        linux = plan.container.linux.resources
        self._proxied.update_container_resources(container_id, linux)
        parent = plan.sandbox.linux.cgroup_parent
        values = self._node.values(self._direct, parent, container_id)
        name, value, meaning = plain_words.rows(values)[0]
        self._say(
            f"The kubelet sends cpu_shares [red]{linux.cpu_shares}[/] again. The hook is called "
            f"again, and {name} is [green]{value}[/]: the container {meaning}."
        )

    def _show_latency(self, container_id: str) -> None:
        self._heading("5. Latency added to each call")
        linux = pb.LinuxContainerResources(cpu_shares=2)
        table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
        table.add_column("")
        for title in ("direct", "through the proxy", "added"):
            table.add_column(title, justify="right")
        calls: tuple[tuple[str, Callable[[Cri], object]], ...] = (
            ("Version (relayed)", lambda cri: cri.version()),
            (
                "UpdateContainerResources (hooked)",
                lambda cri: cri.update_container_resources(container_id, linux),
            ),
        )
        for title, call in calls:
            direct, proxied = _median_seconds(call, self._direct, self._proxied, self._node.rounds)
            added = plain_words.microseconds(proxied - direct)
            both = (plain_words.microseconds(direct), plain_words.microseconds(proxied))
            table.add_row(title, *both, f"[bold]{added}[/]")
        self._console.print(table)
        self._say(f"[dim]medians of {self._node.rounds} calls each, alternating[/]")

    def _show_observation(self) -> None:
        self._heading("6. This machine as a second, read-only koordlet sees it: koordctl top")
        # It knows no pods of this machine: it has no list of them.
        self._observer.wait_until((self._directory / "status.sock").exists)
        machine = self._koordctl("top", "--once").partition("\n\n")[0]
        self._console.print(machine, markup=False, highlight=False)

    def _show_decision(self) -> None:
        self._heading("7. What that koordlet would do if it were allowed: koordctl why suppress")
        self._say(
            "Batch pods get what the others leave of a share of the node, and never fewer than "
            "2 CPUs. The formula and its numbers:"
        )
        why = ("why", "suppress", "--history", "0")
        # The first decision takes a second or two of measurements.
        self._observer.wait_until(lambda: "known;" not in self._koordctl(*why))
        self._console.print(self._koordctl(*why), markup=False, highlight=False)

    def _koordctl(self, *words: str) -> str:
        """Run koordctl; return its output on either stream."""
        command = [console_script("koordctl"), *words]
        command += ["--address", f"unix://{self._directory}/status.sock"]
        answer = subprocess.run(command, capture_output=True, text=True, check=False)
        return answer.stdout or answer.stderr

    def _heading(self, text: str) -> None:
        self._console.print(f"\n[bold]{text}[/]")

    def _say(self, text: str) -> None:
        self._console.print(text)


def _median_seconds(
    call: Callable[[Cri], object], direct: Cri, proxied: Cri, rounds: int
) -> tuple[float, float]:
    """Median seconds of a call directly and through the proxy, measured alternately."""
    taken: tuple[list[float], list[float]] = ([], [])
    for number in range(rounds + 5):
        for cri, times in zip((direct, proxied), taken, strict=True):
            start = time.perf_counter()
            call(cri)
            if number >= 5:
                times.append(time.perf_counter() - start)
    return statistics.median(taken[0]), statistics.median(taken[1])
