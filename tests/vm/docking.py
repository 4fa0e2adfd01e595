"""The node's runtime is docker from here on, and a batch pod is started as cri-dockerd does it.

Each step leaves the node to the next.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from koord_hooks.stages import Stage

from tests.support.hook_server import HookServer, nothing
from tests.vm import node, observing, readme
from tests.vm.cri_dockerd import CriDockerd, Docked
from tests.vm.expectations import DOCKED, HOOK_TIMEOUT
from tests.vm.kubelet import groups, settled

DOCKERD = "/run/docker.sock"

_HOOKS = Path("/etc/runtime/hookserver.d")
_RUN, _CREATE = Stage.PRE_RUN_POD_SANDBOX, Stage.PRE_CREATE_CONTAINER
_PODS = "/opt/pykoord/bin/koordctl pods"


@dataclasses.dataclass
class Docking:
    """The steps, and what they know of each other."""

    through: CriDockerd = dataclasses.field(default_factory=lambda: CriDockerd(node.SOCKET))
    direct: CriDockerd = dataclasses.field(default_factory=lambda: CriDockerd(DOCKERD))
    """Past the proxy, to see what came of its work."""
    began: float = 0.0
    """Seconds since the epoch."""
    pods: list[Docked] = dataclasses.field(default_factory=list)

    # ---- steps

    def docker_start(self) -> dict[str, Any]:
        """dockerd and koordlet are started, and the proxy is informed of its new runtime."""
        self.began = time.time()
        settings = f"{HOOK_TIMEOUT}\nKOORDLET_DEFAULT_RUNTIME_TYPE=docker\n"
        Path("/etc/default/koordlet").write_text(settings)
        done = [
            node.run(command)
            for command in (
                # Not one after the other, which takes an emulated machine half a minute.
                "systemctl restart --no-block docker koordlet",
                *readme.steps(readme.DOCKER.read_text(), "Install")[1],
                "systemctl restart koord-runtime-proxy",
            )
        ]
        node.until("the proxy, in front of dockerd", node.proxy_is_up)
        self.through.import_image()
        info = self.through.ask("GET", "/info")
        node.until("koordlet in the proxy's list", node.koordlet_is_asked)
        names = ("ServerVersion", "CgroupDriver", "CgroupVersion")
        return {"commands": done, "info": {name: info[name] for name in names}}

    def docker_pod(self) -> dict[str, Any]:
        """A batch pod, and who knows what of it; another hook server than koordlet listens, too."""
        with HookServer(Path("/run"), "witness", nothing) as witness:
            # An emulated machine may be late: nobody's hook may be missed for that.
            file = witness.register(_HOOKS, stages=(_RUN, _CREATE), timeout=60)
            node.until("the witness in the proxy's list", lambda: "witness" in node.breakers())
            pod = self.through.start(DOCKED)
            file.rename(file.with_suffix(".removed"))
            node.until("the witness, forgotten", lambda: "witness" not in node.breakers())
        self.pods.append(pod)
        seen = settled(lambda: self.seen(pod), DOCKED)
        reported = [one.cgroup_parent for one in witness.requests(_RUN)]
        reported += [one.pod_cgroup_parent for one in witness.requests(_CREATE)]
        return {
            **seen,
            "reported": reported,
            "health": node.page("healthz"),
            "people": node.run(_PODS),
        }

    def docker_measured(self) -> list[dict[str, Any]]:
        """koordlet finds the group that docker made."""
        [pod] = self.pods
        query = f"kind=container_cpu_usage&container_id={pod.container_id}&window=60s"
        found: list[dict[str, Any]] = []

        def measured() -> bool:
            found[:] = observing.page(f"/v1/metrics/query?{query}&aggregation=avg")["series"]
            return bool(found)

        node.until("koordlet, measuring docker's container", measured)
        return found

    def docker_restart(self) -> dict[str, Any]:
        """The proxy is restarted; then a kubelet writes its view of the pod."""
        [pod] = self.pods
        records = node.pods()
        restarted = node.run("systemctl restart koord-runtime-proxy")
        node.until("the proxy, restarted", node.proxy_is_up)
        after = node.pods()
        node.until("koordlet in the proxy's list", node.koordlet_is_asked)
        self.through.update(pod.container_id)
        return {
            "restarted": restarted,
            "records": [records, after],
            "updated": settled(lambda: self.seen(pod), DOCKED),
        }

    def docker_end(self) -> dict[str, Any]:
        """The pod is deleted."""
        [pod] = self.pods
        self.through.end(pod)
        said = "journalctl --output=cat --unit={} --since=@{:.0f}"
        journal = {
            unit: node.run(said.format(unit, self.began))["output"].splitlines()
            for unit in (node.PROXY, node.KOORDLET)
        }
        return {"records": node.pods(), "journal": journal}

    def steps(self) -> tuple[Callable[[], Any], ...]:
        """In their order."""
        return (
            self.docker_start,
            self.docker_pod,
            self.docker_measured,
            self.docker_restart,
            self.docker_end,
        )

    # ---- how

    def seen(self, pod: Docked) -> dict[str, Any]:
        """What docker, the kernel and the proxy hold for a pod and its container."""
        inspected = map(self.direct.inspect, (pod.sandbox_id, pod.container_id))
        (sandbox, _), (container, state) = ((one["HostConfig"], one["State"]) for one in inspected)
        return {
            "name": pod.name,
            "slice": pod.slice,
            "id": pod.container_id,
            "parents": [one["CgroupParent"] for one in (sandbox, container)],
            "memory": [container[name] for name in ("Memory", "MemorySwap")],
            **groups(state["Pid"]),
            "record": node.container(pod.container_id),
        }
