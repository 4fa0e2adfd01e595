"""koordlet's settings, named as Koordinator's flags where it has them.

Paths are those of a process on the host, ours being no container by default:
the socket is where the registration says it is. Where koordlet does run in a
container, ``--runtime-hooks-addr`` and ``--runtime-hooks-config-path`` are the
mounted paths (Koordinator's image: ``/host-var-run-koordlet/koordlet.sock`` and
``/host-etc-hookserver/``) and ``--runtime-hooks-host-endpoint`` stays as it is.
"""

from __future__ import annotations

import re
import socket
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from koord_hooks.stages import Stage
from koord_service.settings import option

_SOCKET = "/var/run/koordlet/koordlet.sock"
_POLICIES = ("Ignore", "Fail")
_LEVELS = ("debug", "info", "warning", "error")
_PLUGINS = ("batchresource", "cpusetallocator", "groupidentity")
_GRADES = {
    "AllBeta": frozenset(_PLUGINS),
    "AllAlpha": frozenset(
        {
            "coresched",
            "cpunormalization",
            "gpuenvinject",
            "oomscoreadj",
            "rdmadeviceinject",
            "resctrl",
            "tcnetworkqos",
            "terwayqos",
        }
    ),
}
"""Koordinator's gates of plugins by their maturity; what is beta is on."""


_POSITIVE = (
    "reconcile_interval_seconds",
    "cpu_suppress_interval_seconds",
    "cpu_evict_interval_seconds",
    "memory_evict_interval_seconds",
    "runtime_hooks_reconcile_interval",
    "kubelet_sync_interval",
    "kubelet_sync_timeout",
    "collect_sys_metric_outdated_interval",
    "collect_node_cpu_info_interval",
    "collect_node_storage_info_interval",
    "cpi_collector_interval",
    "collect_cpi_timewindow",
    "psi_collector_interval",
    "coldpage_collector_interval",
    "resctrl_collector_interval",
    "node_topology_sync_interval",
    "kube_api_qps",
    "prediction_training_interval",
    "prediction_cpu_histogram_decay_halflife",
    "prediction_memory_histogram_decay_halflife",
    "prediction_model_expiration_duration",
    "prediction_model_checkpoint_interval",
)
_LEAST = {
    "cpu_evict_cool_time_seconds": 0,
    "memory_evict_cool_time_seconds": 0,
    "evictions_per_minute": 0,
    "hook_timeout": 0,
    "collect_res_used_interval": 0,
    "resource_force_update_seconds": 0,
    "prediction_cold_start_duration": 0,
    "prediction_safety_margin_percent": 0,
    "prediction_model_checkpoint_max_per_step": 1,
    "kube_api_burst": 1,
    "kubelet_read_only_port": 1,
    "tsdb_max_bytes": 1 << 20,
}


@dataclass(frozen=True, slots=True)
class Settings:
    """One run's settings.

    Raises:
        ValueError: a path is not absolute, a stage is unknown, a time negative.
    """

    runtime_hooks_network: str = option("unix", "network of the hook server", choices=("unix",))
    runtime_hooks_addr: str = option(_SOCKET, "unix socket the hook server listens on")
    runtime_hooks_host_endpoint: str = option(
        _SOCKET, "the same socket as the proxy sees it; this goes into the registration"
    )
    runtime_hooks_config_path: str = option(
        "/etc/runtime/hookserver.d", "directory in which hook servers register with the proxy"
    )
    runtime_hooks_failure_policy: str = option(
        "Ignore",
        "what the proxy does with a pod's call when this hook server fails or is away",
        choices=_POLICIES,
    )
    runtime_hooks_plugin_failure_policy: str = option(
        "Ignore",
        "what is answered when one plugin fails: the others' changes, or an error",
        choices=_POLICIES,
    )
    runtime_hooks_disable_stages: tuple[str, ...] = option(
        (), "hook types not to register for, such as PreRunPodSandbox"
    )
    runtime_hooks_reconcile_interval: float = option(
        10.0, "seconds between two rounds that level the node"
    )
    hook_plugins: tuple[str, ...] = option(
        _PLUGINS,
        'hook plugins to run; "all" for all there are',
    )
    feature_gates: tuple[str, ...] = option(
        (),
        "plugins, collectors and reports on or off by Koordinator's names: "
        "CoreSched=true,PSICollector=true",
    )
    hook_timeout: float = option(
        0.0, "seconds the proxy is asked to wait for an answer; 0 leaves it to the proxy"
    )
    disable_unset_cpu_quota: bool = option(
        False, "let pods with CPUs of their own keep their CPU quota"
    )
    pods: str = option(
        "",
        "the kubelet's list of pods: URL (http://127.0.0.1:10255/pods) or file; "
        "empty: the cluster's kubelet, or what hook calls and NRI tell",
    )
    kubelet_sync_interval: float = option(10.0, "seconds between two looks at the list of pods")
    default_runtime_type: str = option(
        "containerd", "runtime whose hook calls come in", choices=("containerd", "docker", "cri-o")
    )
    nodeslo_file: str = option(
        "",
        "YAML with NodeSLO, Node and NodeResourceTopology documents, where no cluster gives them",
    )
    enable_nri_runtime_hook: bool = option(
        True, "be an NRI plugin where the runtime has NRI; never with docker"
    )
    runtime_hooks_nri_socket_path: str = option("/var/run/nri/nri.sock", "the runtime's NRI socket")
    runtime_hooks_nri_plugin_name: str = option("koordlet_nri", "our name as an NRI plugin")
    runtime_hooks_nri_plugin_index: str = option("00", "our place among NRI plugins, two digits")
    node_writes: bool = option(
        True, "write kernel files; false: only answer the proxy, and observe"
    )
    cgroup_root_dir: str = option("/sys/fs/cgroup", "where cgroups are mounted")
    cgroup_version: str = option("auto", "cgroup version", choices=("auto", "1", "2"))
    cgroup_driver: str = option(
        "auto", "the kubelet's cgroup driver", choices=("auto", "systemd", "cgroupfs")
    )
    idle_besteffort: bool = option(
        False,
        "group identity -1 makes the besteffort group idle; a kubelet cannot start meanwhile",
    )
    sys_root_dir: str = option("/sys", "where sysfs is mounted")
    var_lib_kubelet_dir: str = option("/var/lib/kubelet", "the kubelet's directory")
    proc_root_dir: str = option("/proc", "where procfs is mounted")
    sys_fs_root_dir: str = option("/sys/fs", "where resctrl is mounted below")
    resource_force_update_seconds: float = option(
        60.0, "seconds after which a kernel file is read again, though nothing has changed"
    )
    state_dir: str = option(
        "/var/lib/koordlet", "directory of all that is kept over a restart, and of the journal"
    )
    restore_on_stop: bool = option(
        False, "when stopped, put back what was found before the first change"
    )
    collect_res_used_interval: float = option(
        1.0, "seconds between two looks at what node, pods and containers use"
    )
    collect_sys_metric_outdated_interval: float = option(
        10.0, "seconds after which a value is too old to be reckoned with"
    )
    collect_node_cpu_info_interval: float = option(
        60.0, "seconds between two looks at the machine's CPUs and memory"
    )
    collect_node_storage_info_interval: float = option(
        60.0, "seconds between two looks at the machine's disks (gate BlkIOReconcile)"
    )
    cpi_collector_interval: float = option(
        60.0, "seconds between two measurements of cycles and instructions (gate CPICollector)"
    )
    collect_cpi_timewindow: float = option(10.0, "seconds that such a measurement takes")
    psi_collector_interval: float = option(
        10.0, "seconds between two looks at pressure (gate PSICollector)"
    )
    coldpage_collector_interval: float = option(
        5.0, "seconds between two looks at cold memory (gate ColdPageCollector)"
    )
    resctrl_collector_interval: float = option(
        10.0, "seconds between two looks at cache use and memory bandwidth"
    )
    enable_pagecache_collector: bool = option(False, "measure memory with page cache too")
    enable_resctrl_collector: bool = option(
        False, "measure cache use and memory bandwidth (with gate ResctrlCollector)"
    )
    xpu_device_infos_dir: str = option(
        "/var/run/koordlet/xpu-device-infos",
        "directory in which device plugins describe accelerators (gate Accelerators)",
    )
    tsdb_path: str = option(
        "", 'directory of the metric cache; empty: "metrics" in --state-dir, "none": memory only'
    )
    tsdb_max_bytes: int = option(100 << 20, "bytes that the metric cache may take on disk")
    standalone: bool = option(False, "use no Kubernetes API, even where there is one")
    kubeconfig: str = option(
        "", "file that says how to reach the Kubernetes API; empty: as a pod is told"
    )
    node_name: str = option("", "this node's name in the cluster; empty: $NODE_NAME, or hostname")
    kube_api_qps: float = option(20.0, "requests a second to the Kubernetes API")
    kube_api_burst: int = option(30, "requests to the Kubernetes API at once")
    kubelet_preferred_address_type: str = option(
        "InternalIP",
        "the Node's address at which its kubelet is asked",
        choices=("InternalIP", "ExternalIP", "Hostname", "InternalDNS", "ExternalDNS"),
    )
    kubelet_sync_timeout: float = option(3.0, "seconds the kubelet has to answer")
    kubelet_insecure_tls: bool = option(
        False, "ask the kubelet's read-only port over HTTP, without a token"
    )
    kubelet_read_only_port: int = option(10255, "that port")
    kubelet_ca_file: str = option(
        "", "who signed the kubelet's certificate; empty: the service account's CA"
    )
    disable_query_kubelet_config: bool = option(
        False, "do not ask the kubelet for its policies (for NodeResourceTopology)"
    )
    node_topology_sync_interval: float = option(
        3.0, "seconds between two looks whether NodeResourceTopology and Device are up to date"
    )
    enable_node_metric_report: bool = option(True, "report the node's use to the cluster")
    node_metric_report_address: str = option(
        "",
        "HOST:PORT of managers that take reports directly; empty: the API server alone",
    )
    node_metric_report_ca_file: str = option(
        "", "who signed the managers' certificates; empty: the service account's CA"
    )
    prediction_checkpoint_filepath: str = option(
        "", 'directory of what prediction has learnt; empty: "predictions" in --state-dir'
    )
    prediction_cold_start_duration: float = option(
        86400.0, "seconds that a pod is watched before its use is predicted"
    )
    prediction_safety_margin_percent: int = option(10, "percent added to predicted peaks")
    prediction_percentile_cpu: float = option(
        95.0, "percentile of the use of CPU that is taken for its peak"
    )
    prediction_percentile_memory: float = option(
        98.0, "percentile of the use of memory that is taken for its peak"
    )
    prediction_cpu_histogram_decay_halflife: float = option(
        43200.0, "seconds after which a sample of CPU counts half"
    )
    prediction_memory_histogram_decay_halflife: float = option(
        86400.0, "seconds after which a sample of memory counts half"
    )
    prediction_training_interval: float = option(60.0, "seconds between two samples")
    prediction_model_expiration_duration: float = option(
        1800.0, "seconds after which what is known of a vanished pod is forgotten"
    )
    prediction_model_checkpoint_interval: float = option(
        600.0, "seconds between two checkpoints of a model"
    )
    prediction_model_checkpoint_max_per_step: int = option(12, "models written at most in one step")
    reconcile_interval_seconds: float = option(
        1.0, "seconds between two rounds of the strategies that have no interval of their own"
    )
    cpu_suppress_interval_seconds: float = option(
        1.0, "seconds between two rounds of CPU suppression (gate BECPUSuppress)"
    )
    cpu_evict_interval_seconds: float = option(
        1.0, "seconds between two looks whether pods are to be evicted for CPU"
    )
    memory_evict_interval_seconds: float = option(
        1.0, "seconds between two looks whether pods are to be evicted for memory"
    )
    cpu_evict_cool_time_seconds: float = option(
        20.0, "seconds after an eviction for CPU, and after the start, without another"
    )
    memory_evict_cool_time_seconds: float = option(
        4.0, "seconds after an eviction for memory, and after the start, without another"
    )
    evictions_per_minute: int = option(10, "pods that may be evicted in a minute, for any reason")
    evict_dry_run: bool = option(False, "say which pods would be evicted, and evict none")
    only_evict_by_api: bool = option(
        False, "evict through the Kubernetes API or not at all: never stop containers"
    )
    evict_by_stop: bool = option(
        False, "stop containers also where there is a Kubernetes API that could evict the pod"
    )
    container_runtime_endpoint: str = option(
        "unix:///run/containerd/containerd.sock",
        "the runtime that is asked to stop containers, where pods are evicted so",
    )
    status_address: str = option(
        "",
        "unix socket or loopback port for koordctl and the web page; "
        'empty: status.sock beside --runtime-hooks-addr, "none": none',
    )
    metrics_address: str = option(
        "", "loopback port (127.0.0.1:9316) or unix socket for /metrics; empty for none"
    )
    log_format: str = option("human", "how log lines are written", choices=("human", "json"))
    log_level: str = option("info", "least level that is logged", choices=_LEVELS)

    def __post_init__(self) -> None:
        for name in ("addr", "host_endpoint", "config_path"):
            path = getattr(self, f"runtime_hooks_{name}")
            if not path.startswith("/"):
                flag = f"--runtime-hooks-{name.replace('_', '-')}"
                raise ValueError(f'{flag} is "{path}"; expected an absolute path')
        if self.pods and not self.pods.startswith(("http://", "https://", "/")):
            raise ValueError(f'--pods is "{self.pods}"; expected an http(s) URL or absolute path')
        for stage in self.runtime_hooks_disable_stages:
            if stage not in list(Stage):
                known = ", ".join(Stage)
                raise ValueError(
                    f'--runtime-hooks-disable-stages: "{stage}" is no hook type; there are: {known}'
                )
        if not re.fullmatch("[0-9]{2}", self.runtime_hooks_nri_plugin_index):
            index = self.runtime_hooks_nri_plugin_index
            raise ValueError(
                f'--runtime-hooks-nri-plugin-index is "{index}"; expected two digits, like 00'
            )
        _check_numbers(self)


def _check_numbers(settings: Settings) -> None:
    for name in _POSITIVE:
        if getattr(settings, name) <= 0:
            raise ValueError(f"{_given(settings, name)}; expected more than 0")
    for name, least in _LEAST.items():
        if getattr(settings, name) < least:
            raise ValueError(f"{_given(settings, name)}; expected {least} or more")
    for name in ("prediction_percentile_cpu", "prediction_percentile_memory"):
        if not 0 < getattr(settings, name) <= 100:
            raise ValueError(f"{_given(settings, name)}; expected above 0, up to 100")
    if settings.kubelet_read_only_port >= 1 << 16:
        raise ValueError(f"{_given(settings, 'kubelet_read_only_port')}; expected 1 to 65535")


def _given(settings: Settings, name: str) -> str:
    """A number as it was given, with its flag."""
    return f"--{name.replace('_', '-')} is {getattr(settings, name):.15g}"


def node_name(settings: Settings, environ: Mapping[str, str]) -> str:
    """This node's name in the cluster."""
    # Kubelets register under the hostname in small letters.
    return settings.node_name or environ.get("NODE_NAME", "") or socket.gethostname().lower()


def plugins_of(
    names: Iterable[str], gates: Iterable[str], known: Collection[str]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The plugins to run, and the gates that are about none of the ``known`` ones.

    A gate is a plugin's name in Koordinator's spelling, with "=true" or "=false";
    AllAlpha and AllBeta are about all plugins of that grade that are not named.

    Raises:
        ValueError: a gate is not spelled so.
    """
    wanted = list(dict.fromkeys(names))
    if "all" in wanted:
        wanted = sorted(known)
    graded: dict[str, bool] = {}
    named: dict[str, bool] = {}
    others = []
    for gate in gates:
        name, _, word = gate.partition("=")
        if word.lower() not in ("true", "false"):
            raise ValueError(f'--feature-gates: "{gate}"; expected NAME=true or NAME=false')
        on = word.lower() == "true"
        if name.lower() in known:
            named[name.lower()] = on
        elif name in _GRADES:
            graded |= dict.fromkeys(sorted(_GRADES[name].intersection(known)), on)
        else:
            others.append(gate)
    switched = graded | named
    kept = [plugin for plugin in wanted if switched.pop(plugin, True)]
    return (*kept, *(plugin for plugin, on in switched.items() if on)), tuple(others)
