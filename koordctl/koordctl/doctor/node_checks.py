"""Checks of one node. No IO."""

from __future__ import annotations

from collections.abc import Iterator

from koord_model.version import VERSION

from koordctl.doctor.check_results import CheckResult, Level, some
from koordctl.doctor.node_survey import NodeSurvey
from koordctl.render import count

_PROXY = "unix:///run/koord-runtimeproxy/runtimeproxy.sock"
_PROXY_DIRECTORY = "koord-runtimeproxy"
_RESTARTS = 3
"""Restarts by systemd that are worth a line."""
_CACHE_FLAGS = frozenset({"cat_l3", "mba"})


def check_node(survey: NodeSurvey) -> Iterator[CheckResult]:
    """Everything about a node, in the order in which a pod meets it."""
    for check in (_cgroups, _kernel, _clock, _units, _kubelet, _proxy, _koordlet, _versions):
        yield from check(survey)


def _cgroups(survey: NodeSurvey) -> Iterator[CheckResult]:
    if survey.cgroup_error:
        yield CheckResult(Level.PROBLEM, "cgroups", survey.cgroup_error)
    elif survey.cgroup_version == 1:
        text = "version 1: memory protection and io latency are not to be had"
        way = "boot with systemd.unified_cgroup_hierarchy=1 for version 2"
        yield CheckResult(Level.NOTE, "cgroups", text, way)
    else:
        yield CheckResult(Level.OK, "cgroups", "version 2")


def _kernel(survey: NodeSurvey) -> Iterator[CheckResult]:
    missing = []
    if "psi" not in survey.features:
        text = "no pressure stall information: pressure and interference strategies see nothing"
        missing.append(CheckResult(Level.WARNING, "kernel", text, "boot with psi=1"))
    if "delayacct" not in survey.features:
        text = "delay accounting is off: delays of containers are not measured"
        way = "sysctl -w kernel.task_delayacct=1, and boot with delayacct to keep it"
        missing.append(CheckResult(Level.NOTE, "kernel", text, way))
    if survey.cpu_flags & _CACHE_FLAGS and "resctrl" not in survey.features:
        text = "the CPU can partition caches or bandwidth, and resctrl is not mounted"
        way = "mount -t resctrl resctrl /sys/fs/resctrl"
        missing.append(CheckResult(Level.NOTE, "kernel", text, way))
    yield from missing
    if not missing:
        yield CheckResult(Level.OK, "kernel", "has what the strategies read")


def _clock(survey: NodeSurvey) -> Iterator[CheckResult]:
    if survey.is_clock_synchronized is False:
        text = "the kernel does not hold its clock to be synchronized: reports may count as old"
        yield CheckResult(Level.WARNING, "clock", text, "run chrony or systemd-timesyncd")
    elif survey.is_clock_synchronized:
        yield CheckResult(Level.OK, "clock", "synchronized")


def _units(survey: NodeSurvey) -> Iterator[CheckResult]:
    for name, unit in survey.units.items():
        state = unit.get("ActiveState", "")
        restarts = int(unit.get("NRestarts") or 0)
        about = name.removesuffix(".service")
        way = f"journalctl -u {name} -n 50"
        if state == "failed":
            text = f"the unit has failed: {unit.get('Result', 'reason unknown')}"
            yield CheckResult(Level.PROBLEM, about, text, way)
        elif state != "active":
            text = f"the unit is installed and {state or 'in no known state'}"
            yield CheckResult(Level.WARNING, about, text, f"systemctl enable --now {name}")
        elif restarts >= _RESTARTS:
            text = f"systemd restarted the unit {restarts} times"
            yield CheckResult(Level.WARNING, about, text, way)


def _kubelet(survey: NodeSurvey) -> Iterator[CheckResult]:
    if not survey.is_kubelet_running:
        yield CheckResult(Level.NOTE, "kubelet", "none runs here")
        return
    through_proxy = _PROXY_DIRECTORY in survey.endpoint
    nri = survey.koordlet is not None and survey.koordlet.hooks.nri.connected
    if survey.endpoint_error:
        text = (
            f"its runtime endpoint {survey.endpoint} takes no connection: {survey.endpoint_error}"
        )
        unit = "koord-runtime-proxy" if through_proxy else "containerd"
        yield CheckResult(Level.PROBLEM, "kubelet", text, f"systemctl restart {unit}")
    elif through_proxy:
        yield CheckResult(Level.OK, "kubelet", f"calls the proxy at {survey.endpoint}")
    elif nri:
        yield CheckResult(Level.OK, "kubelet", f"calls {survey.endpoint}; hooks come through NRI")
    else:
        text = f"calls {survey.endpoint}, and koordlet is not connected to NRI: no hooks are called"
        way = (
            f"give the kubelet --container-runtime-endpoint={_PROXY}, or enable NRI in the runtime"
        )
        yield CheckResult(Level.PROBLEM, "kubelet", text, way)


def _proxy(survey: NodeSurvey) -> Iterator[CheckResult]:
    proxy, about = survey.proxy, "koord-runtime-proxy"
    if proxy is None:
        if _PROXY_DIRECTORY in survey.endpoint:
            yield CheckResult(
                Level.PROBLEM, about, survey.proxy_error, "systemctl restart " + about
            )
        return
    for what, state in (("runtime", proxy.backend), ("database", proxy.database)):
        if state != "ok":
            yield CheckResult(Level.PROBLEM, about, f"{what}: {state}")
    for name, problem in sorted(proxy.registrations.items()):
        yield CheckResult(Level.PROBLEM, about, f"registration {name}.json {problem}")
    open_ = [server for server in proxy.hook_servers if server.breaker == "open"]
    for server in open_:
        text = f"hook server {server.name} does not answer: its calls are not made"
        way = f"restart it, or koordctl hooks remove {server.name} if it will not come back"
        yield CheckResult(Level.PROBLEM, about, text, way)
    if not proxy.hook_servers:
        text, way = "no hook server is registered: all calls pass unchanged", "start koordlet"
        yield CheckResult(Level.WARNING, about, text, way)
    elif not open_:
        names = some(server.name for server in proxy.hook_servers)
        yield CheckResult(Level.OK, about, f"calls {names}")
    if proxy.unmanaged:
        text = f"{count(proxy.unmanaged, 'pod or container')} missed a hook"
        yield CheckResult(Level.NOTE, about, text, "koordctl pods --unmanaged says which and why")


def _koordlet(survey: NodeSurvey) -> Iterator[CheckResult]:
    status, node = survey.koordlet, survey.node
    if status is None:
        way = "start it; if it ends again: journalctl -u koordlet -n 50, or the log of its pod"
        yield CheckResult(Level.PROBLEM, "koordlet", survey.koordlet_error, way)
        return
    for reason in status.health.reasons:
        yield CheckResult(Level.PROBLEM, "koordlet", reason)
    if status.mode == "dry run":
        text = "DRY RUN: it decides everything, and writes and reports nothing"
        yield CheckResult(Level.NOTE, "koordlet", text, "start it without --dry-run")
    elif node is not None and node.read_only:
        text = "read-only: it changes nothing, answers no hook calls, reports nothing"
        yield CheckResult(Level.NOTE, "koordlet", text, "start it without --read-only")
    elif not status.health.reasons:
        yield CheckResult(Level.OK, "koordlet", f"{status.version}, {status.health.status}")
    collectors = node.collectors if node is not None else ()
    missing = {row.name: row.reason for row in collectors if row.state == "unavailable"}
    for reason in sorted(set(missing.values())):
        names = some(name for name, found in missing.items() if found == reason)
        yield CheckResult(Level.NOTE, "koordlet", f"cannot measure {names} here: {reason}")


def _versions(survey: NodeSurvey) -> Iterator[CheckResult]:
    running = survey.koordlet.version if survey.koordlet else VERSION
    if running != VERSION:
        text = f"koordlet runs {running}, and koordctl is {VERSION}"
        yield CheckResult(Level.WARNING, "versions", text, "systemctl restart koordlet")
