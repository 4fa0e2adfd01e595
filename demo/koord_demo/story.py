"""`make demo`: a batch pod on its way from the kubelet to its cgroup, told in colour."""

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
from koord_demo.nodes import Node
from koord_demo.pods import PodPlan, batch_pod_config, remove_pod, run_pod
from koord_demo.programs import Program, console_script, running


def tell(console: Console, node: Node, directory: Path) -> None:
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
        Cri(node.address) as direct,
        Cri(proxy_socket) as proxied,
    ):
        koordlet.wait_until((hooks / "koordlet.json").exists)
        with running("koord-runtime-proxy", _proxy_command(node, directory, hooks)) as proxy:
            proxy.wait_until(proxy_socket.exists)
            proxied.wait_until_ready()
            Story(console, node, direct, proxied, koordlet, directory).run()


def _koordlet_command(directory: Path, hooks: Path) -> list[str]:
    socket = str(directory / "koordlet.sock")
    return [
        *(console_script("koordlet"), "--log-format", "json"),
        *("--runtime-hooks-addr", socket, "--runtime-hooks-host-endpoint", socket),
        *("--runtime-hooks-config-path", str(hooks)),
        # The story is about the hooks; and this machine may be no node.
        *("--node-writes=false", "--standalone", "--feature-gates", "PSICollector=true"),
        *("--state-dir", str(directory / "koordlet")),
        *("--nodeslo-file", str(_rules(directory))),
    ]


def _rules(directory: Path) -> Path:
    """What a cluster's NodeSLO says where batch pods are to be held down."""
    path = directory / "nodeslo.yaml"
    path.write_text("kind: NodeSLO\nspec: {resourceUsedThresholdWithBE: {enable: true}}\n")
    return path


def _proxy_command(node: Node, directory: Path, hooks: Path) -> list[str]:
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
        node: Node,
        direct: Cri,
        proxied: Cri,
        koordlet: Program,
        directory: Path,
    ) -> None:
        """``direct`` leads to the runtime itself, ``proxied`` through the proxy.

        koordlet's sockets are in ``directory``.
        """
        self._console = console
        self._node = node
        self._direct = direct
        self._proxied = proxied
        self._koordlet = koordlet
        self._directory = directory

    def run(self) -> None:
        plan = batch_pod_config("reports", cgroup_root=self._node.cgroup_root)
        self._what_is_asked(plan)
        before = self._without_pykoord()
        pod = run_pod(self._proxied, plan)
        self._what_the_hooks_did()
        self._what_the_kernel_holds(plan, pod.container_id, before)
        self._what_an_update_does(plan, pod.container_id)
        self._what_it_costs(pod.container_id)
        self._what_koordlet_sees()
        self._what_it_would_do()
        remove_pod(self._proxied, pod)
        self._heading("The pod is gone again, and so is everything that was started.")

    def _what_is_asked(self, plan: PodPlan) -> None:
        self._heading("1. What the kubelet asks for")
        annotations = plan.sandbox.annotations
        key = next(key for key in annotations if key.endswith("extended-resource-spec"))
        limits = json.loads(annotations[key])["containers"]["main"]["limits"]
        wishes = "  ".join(f"{name} [green]{value}[/]" for name, value in limits.items())
        linux = plan.container.linux.resources
        self._say(
            "A pod of class [bold]BE[/]. To the kubelet that is best effort: "
            f"cpu_shares [red]{linux.cpu_shares}[/], no quota, no memory limit.\n"
            "What the pod really wants is in an annotation that the kubelet does not read:\n"
            f"    {wishes}"
        )

    def _without_pykoord(self) -> CgroupValues:
        """What the same pod gets from the runtime alone."""
        plan = batch_pod_config("reports-alone", cgroup_root=self._node.cgroup_root)
        pod = run_pod(self._direct, plan)
        parent = plan.sandbox.linux.cgroup_parent
        values = self._node.values(self._direct, parent, pod.container_id)
        remove_pod(self._direct, pod)
        return values

    def _what_the_hooks_did(self) -> None:
        self._heading("2. What the hooks changed on the way, and why")
        # The line may reach us a moment after the call that it is about.
        self._koordlet.wait_until(lambda: len(self._reasons()) > 0)
        for stage, subject, why in self._reasons():
            self._say(f"[magenta]koordlet[/], asked at {stage} of {subject}:")
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

    def _what_the_kernel_holds(
        self, plan: PodPlan, container_id: str, before: CgroupValues
    ) -> None:
        self._heading("3. What the cgroup files hold now")
        parent = plan.sandbox.linux.cgroup_parent
        after = self._node.values(self._direct, parent, container_id)
        table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
        for title in ("", "runtime alone", "with pykoord", "so the container"):
            table.add_column(title)
        pairs = zip(plain_words.rows(before), plain_words.rows(after), strict=True)
        for (name, old, _), (_, new, meaning) in pairs:
            colour = "green" if old != new else "dim"
            table.add_row(name, f"[dim]{old}[/]", f"[{colour}]{new}[/]", meaning)
        self._console.print(table)
        place = self._node.place(self._direct, parent, container_id)
        self._console.print(f"[dim]read from {place}[/]", soft_wrap=True)

    def _what_an_update_does(self, plan: PodPlan, container_id: str) -> None:
        self._heading("4. The kubelet updates the container, in its own view again")
        linux = plan.container.linux.resources
        self._proxied.update_container_resources(container_id, linux)
        parent = plan.sandbox.linux.cgroup_parent
        values = self._node.values(self._direct, parent, container_id)
        name, value, meaning = plain_words.rows(values)[0]
        self._say(
            f"It sends cpu_shares [red]{linux.cpu_shares}[/]; the hook is asked again, "
            f"and {name} is [green]{value}[/]: {meaning}."
        )

    def _what_it_costs(self, container_id: str) -> None:
        self._heading("5. What it costs, by call")
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
            direct, proxied = _in_turns(call, self._direct, self._proxied, self._node.rounds)
            added = plain_words.microseconds(proxied - direct)
            both = (plain_words.microseconds(direct), plain_words.microseconds(proxied))
            table.add_row(title, *both, f"[bold]{added}[/]")
        self._console.print(table)
        self._say(f"[dim]medians of {self._node.rounds} calls each, taken in turns[/]")

    def _what_koordlet_sees(self) -> None:
        self._heading("6. What koordlet sees meanwhile: koordctl top, of this machine")
        # Of classes and pods it knows only on a node that it keeps.
        machine = self._koordctl("top", "--once").partition("\n\n")[0]
        self._console.print(machine, markup=False, highlight=False)

    def _what_it_would_do(self) -> None:
        self._heading("7. What it would do about it: koordctl why suppress (nothing is done here)")
        why = ("why", "suppress", "--history", "0")
        # It measures for a second or two before it says anything.
        self._koordlet.wait_until(lambda: "known;" not in self._koordctl(*why))
        self._console.print(self._koordctl(*why), markup=False, highlight=False)

    def _koordctl(self, *words: str) -> str:
        """What koordctl answers, or why it does not."""
        command = [console_script("koordctl"), *words]
        command += ["--address", f"unix://{self._directory}/status.sock"]
        answer = subprocess.run(command, capture_output=True, text=True, check=False)
        return answer.stdout or answer.stderr

    def _heading(self, text: str) -> None:
        self._console.print(f"\n[bold]{text}[/]")

    def _say(self, text: str) -> None:
        self._console.print(text)


def _in_turns(
    call: Callable[[Cri], object], direct: Cri, proxied: Cri, rounds: int
) -> tuple[float, float]:
    """Median seconds of a call on both ways, one call here and one there."""
    taken: tuple[list[float], list[float]] = ([], [])
    for number in range(rounds + 5):
        for cri, times in zip((direct, proxied), taken, strict=True):
            start = time.perf_counter()
            call(cri)
            if number >= 5:
                times.append(time.perf_counter() - start)
    return statistics.median(taken[0]), statistics.median(taken[1])
