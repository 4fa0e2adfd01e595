"""koordlet's settings, named as Koordinator's flags where it has them.

Paths are those of a process on the host, ours being no container by default:
the socket is where the registration says it is. Where koordlet does run in a
container, ``--runtime-hooks-addr`` and ``--runtime-hooks-config-path`` are the
mounted paths (``mounted`` has those of Koordinator's DaemonSet) and
``--runtime-hooks-host-endpoint`` stays as it is.
"""

from __future__ import annotations

import re
import socket
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace

from koord_hooks.stages import Stage
from koord_model.service_account_token import MANAGER_AUDIENCE
from koord_service.settings import option
from koord_service.status import is_local
from koord_service.tracing import check_tracing, endpoint_option, rate_option

from koordlet.resource_plugins.core.hints import ALIGNED, TopologyPolicy

PLUGIN_DIRECTORY = "/var/lib/katalyst/plugin-socks"
"""Katalyst's."""
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
    "delay_collector_interval",
    "tcp_collector_interval",
    "coldpage_collector_interval",
    "resctrl_collector_interval",
    "nics_collector_interval",
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
class KoordletSettings:
    """One run's settings.

    Raises:
        ValueError: a path is not absolute, a stage is unknown, a time negative.
    """

    runtime_hooks_network: str = option("unix", "network of the hook server", choices=("unix",))
    runtime_hooks_addr: str = option(_SOCKET, "unix socket the hook server listens on")
    runtime_hooks_host_endpoint: str = option(
        _SOCKET, "path of that socket as the proxy sees it, written to the registration file"
    )
    runtime_hooks_config_path: str = option(
        "/etc/runtime/hookserver.d", "directory in which hook servers register with the proxy"
    )
    runtime_hooks_failure_policy: str = option(
        "Ignore",
        "what the proxy does with a call when this hook server fails or is unreachable",
        choices=_POLICIES,
    )
    runtime_hooks_plugin_failure_policy: str = option(
        "Ignore",
        "what koordlet answers when a plugin fails: the other plugins' changes, or an error",
        choices=_POLICIES,
    )
    runtime_hooks_disable_stages: tuple[str, ...] = option(
        (), "hook types that koordlet does not register for, such as PreRunPodSandbox"
    )
    runtime_hooks_reconcile_interval: float = option(
        10.0, "seconds between two reconciliations of the node"
    )
    hook_plugins: tuple[str, ...] = option(
        _PLUGINS,
        'hook plugins to run; "all" runs every one',
    )
    feature_gates: tuple[str, ...] = option(
        (),
        "enable or disable plugins, collectors and reports by Koordinator's names: "
        "CoreSched=true,PSICollector=true",
    )
    hook_timeout: float = option(
        0.0, "seconds that the proxy waits for an answer; 0 uses the proxy's own timeout"
    )
    disable_unset_cpu_quota: bool = option(False, "keep the CPU quota of pods with exclusive CPUs")
    pod_list_source: str = option(
        "",
        "URL (http://127.0.0.1:10255/pods) or file of the kubelet's list of pods; "
        "empty: the cluster's kubelet, or else hook calls and NRI",
        aliases=("--pods",),
    )
    kubelet_sync_interval: float = option(10.0, "seconds between two reads of the list of pods")
    default_runtime_type: str = option(
        "containerd",
        "container runtime that the hook calls come from",
        choices=("containerd", "docker", "cri-o"),
    )
    nodeslo_file: str = option(
        "",
        "YAML file with NodeSLO, Node and NodeResourceTopology documents, if there is no cluster",
    )
    enable_nri_runtime_hook: bool = option(
        True, "register as an NRI plugin if the runtime supports NRI; never with docker"
    )
    runtime_hooks_nri_socket_path: str = option("/var/run/nri/nri.sock", "the runtime's NRI socket")
    runtime_hooks_nri_plugin_name: str = option("koordlet_nri", "name to register as an NRI plugin")
    runtime_hooks_nri_plugin_index: str = option("00", "index among NRI plugins, two digits")
    read_only: bool = option(
        False,
        "only observe the node: change nothing, answer no hook calls, report nothing",
        negated_aliases=("--node-writes",),
    )
    dry_run: bool = option(
        False,
        "read and decide everything, and write and report nothing: log what would be written",
    )
    cgroup_root_dir: str = option("/sys/fs/cgroup", "where cgroups are mounted")
    cgroup_version: str = option("auto", "cgroup version", choices=("auto", "1", "2"))
    cgroup_driver: str = option(
        "auto", "cgroup driver of the kubelet", choices=("auto", "systemd", "cgroupfs")
    )
    idle_besteffort: bool = option(
        False,
        "make the besteffort cgroup idle for group identity -1; the kubelet cannot start meanwhile",
    )
    sys_root_dir: str = option("/sys", "where sysfs is mounted")
    var_lib_kubelet_dir: str = option("/var/lib/kubelet", "the kubelet's directory")
    proc_root_dir: str = option("/proc", "where procfs is mounted")
    sys_fs_root_dir: str = option("/sys/fs", "directory below which resctrl is mounted")
    resource_force_update_seconds: float = option(
        60.0, "seconds after which an unchanged kernel file is read again"
    )
    state_dir: str = option(
        "/var/lib/koordlet", "directory of the journal and of all state that survives a restart"
    )
    restore_on_stop: bool = option(False, "restore the original values of kernel files on shutdown")
    collect_res_used_interval: float = option(
        1.0, "seconds between two samples of the usage of node, pods and containers"
    )
    collect_sys_metric_outdated_interval: float = option(
        10.0, "seconds after which a value is too old to use"
    )
    collect_node_cpu_info_interval: float = option(
        60.0, "seconds between two reads of the machine's CPU and memory layout"
    )
    collect_node_storage_info_interval: float = option(
        60.0, "seconds between two reads of the machine's disks (gate BlkIOReconcile)"
    )
    cpi_collector_interval: float = option(
        60.0, "seconds between two measurements of cycles and instructions (gate CPICollector)"
    )
    collect_cpi_timewindow: float = option(10.0, "seconds that each of these measurements lasts")
    psi_collector_interval: float = option(
        10.0,
        "seconds between two reads of pressure stall information, of waits for CPUs, and of "
        "memory reclaim (gates PSICollector, SchedStatCollector, MemoryStatCollector)",
    )
    delay_collector_interval: float = option(
        5.0, "seconds between two reads of what tasks waited for (gate TaskDelayCollector)"
    )
    tcp_collector_interval: float = option(
        6.0, "seconds between two reads of TCP connections (gate TCPCollector)"
    )
    coldpage_collector_interval: float = option(
        5.0, "seconds between two reads of cold memory (gate ColdPageCollector)"
    )
    resctrl_collector_interval: float = option(
        10.0, "seconds between two reads of cache occupancy and memory bandwidth"
    )
    nics_collector_interval: float = option(
        5.0, "seconds between two reads of network cards' interrupts (gate IrqAffinity)"
    )
    enable_pagecache_collector: bool = option(False, "also measure memory with page cache")
    enable_resctrl_collector: bool = option(
        False, "measure cache occupancy and memory bandwidth (also needs gate ResctrlCollector)"
    )
    xpu_device_infos_dir: str = option(
        "/var/run/koordlet/xpu-device-infos",
        "directory in which device plugins describe accelerators (gate Accelerators)",
    )
    image_fs_dir: str = option(
        "",
        "directory on the file system of images (gate ThresholdEvict); "
        "empty: the usual one of --default-runtime-type",
    )
    tsdb_path: str = option(
        "", 'directory of the metric cache; empty: "metrics" in --state-dir, "none": memory only'
    )
    tsdb_max_bytes: int = option(100 << 20, "maximum size of the metric cache on disk, in bytes")
    standalone: bool = option(False, "do not use the Kubernetes API, even if there is one")
    kubeconfig: str = option(
        "", "kubeconfig file for the Kubernetes API; empty: the in-cluster configuration"
    )
    node_name: str = option("", "this node's name in the cluster; empty: $NODE_NAME, or hostname")
    kube_api_qps: float = option(20.0, "maximum requests per second to the Kubernetes API")
    kube_api_burst: int = option(30, "maximum burst of requests to the Kubernetes API")
    kubelet_preferred_address_type: str = option(
        "InternalIP",
        "type of the Node's address at which koordlet queries the kubelet",
        choices=("InternalIP", "ExternalIP", "Hostname", "InternalDNS", "ExternalDNS"),
    )
    kubelet_sync_timeout: float = option(3.0, "timeout of a request to the kubelet, in seconds")
    kubelet_insecure_tls: bool = option(
        False, "query the kubelet's read-only port over HTTP, without a token"
    )
    kubelet_read_only_port: int = option(10255, "the kubelet's read-only port")
    kubelet_ca_file: str = option(
        "", "CA of the kubelet's certificate; empty: the service account's CA"
    )
    disable_query_kubelet_config: bool = option(
        False, "do not query the kubelet's configuration (for NodeResourceTopology)"
    )
    node_topology_sync_interval: float = option(
        3.0, "seconds between two comparisons of NodeResourceTopology and Device with the node"
    )
    enable_node_metric_report: bool = option(True, "report the node's usage to the cluster")
    node_metric_report_address: str = option(
        "",
        "HOST:PORT of managers that accept reports directly; empty: only the API server",
    )
    node_metric_report_ca_file: str = option(
        "", "CA of the managers' certificates; empty: the service account's CA"
    )
    node_metric_report_token_file: str = option(
        "/etc/koordlet/manager/token",
        f"token for {MANAGER_AUDIENCE}; without one, reports go through the API server",
    )
    prediction_checkpoint_filepath: str = option(
        "", 'directory of prediction checkpoints; empty: "predictions" in --state-dir'
    )
    prediction_cold_start_duration: float = option(
        86400.0, "seconds of observation before the usage of a pod is predicted"
    )
    prediction_safety_margin_percent: int = option(10, "percentage added to predicted peaks")
    prediction_percentile_cpu: float = option(
        95.0, "percentile of CPU usage that counts as the peak"
    )
    prediction_percentile_memory: float = option(
        98.0, "percentile of memory usage that counts as the peak"
    )
    prediction_cpu_histogram_decay_halflife: float = option(
        43200.0, "half-life of a CPU sample, in seconds"
    )
    prediction_memory_histogram_decay_halflife: float = option(
        86400.0, "half-life of a memory sample, in seconds"
    )
    prediction_training_interval: float = option(60.0, "seconds between two training samples")
    prediction_model_expiration_duration: float = option(
        1800.0, "seconds after which the model of a deleted pod expires"
    )
    prediction_model_checkpoint_interval: float = option(
        600.0, "seconds between two checkpoints of a model"
    )
    prediction_model_checkpoint_max_per_step: int = option(
        12, "maximum number of models written in one step"
    )
    reconcile_interval_seconds: float = option(
        1.0, "seconds between two runs of strategies without an interval of their own"
    )
    cpu_suppress_interval_seconds: float = option(
        1.0, "seconds between two runs of CPU suppression (gate BECPUSuppress)"
    )
    cpu_evict_interval_seconds: float = option(1.0, "seconds between two runs of CPU eviction")
    memory_evict_interval_seconds: float = option(
        1.0, "seconds between two runs of memory eviction"
    )
    cpu_evict_cool_time_seconds: float = option(
        20.0, "minimum seconds between two evictions for CPU, and after startup"
    )
    memory_evict_cool_time_seconds: float = option(
        4.0, "minimum seconds between two evictions for memory, and after startup"
    )
    evictions_per_minute: int = option(
        10, "maximum number of pods evicted per minute, for any reason"
    )
    evict_dry_run: bool = option(False, "only log which pods would be evicted")
    only_evict_by_api: bool = option(
        False, "evict pods only through the Kubernetes API; never stop containers"
    )
    evict_by_stop: bool = option(
        False, "stop containers even if the Kubernetes API could evict the pod"
    )
    plugin_registration_dir: str = option(
        PLUGIN_DIRECTORY, "directory in which plugins of others register by their sockets"
    )
    resource_plugins_socket: str = option(
        "/var/lib/katalyst/resource-plugins/kubelet.sock",
        "unix socket at which resource plugins register themselves (gate ResourcePlugins)",
    )
    resource_plugins_topology_policy: str = option(
        "none", "how NUMA hints of resource plugins are merged", choices=tuple(TopologyPolicy)
    )
    resource_plugins_topology_scope: str = option(
        "container",
        "what their hints are merged for, each container or the whole pod",
        choices=("container", "pod"),
    )
    resource_plugins_aligned: tuple[str, ...] = option(
        ALIGNED, "resources to which the policy numeric gives equal NUMA nodes"
    )
    resource_plugins_failure_policy: str = option(
        "Ignore",
        "whether pods of dedicated_cores bound to NUMA nodes start without their allocation",
        choices=_POLICIES,
    )
    container_runtime_endpoint: str = option(
        "unix:///run/containerd/containerd.sock",
        "CRI endpoint that stops containers when pods are evicted without the Kubernetes API",
        aliases=("--containerd-endpoint",),
    )
    status_address: str = option(
        "",
        "unix socket or loopback port that serves koordctl and the web page; "
        'empty: status.sock beside --runtime-hooks-addr, "none": none',
    )
    metrics_address: str = option(
        "",
        "address that serves /metrics: 127.0.0.1:9316, :9316 for all addresses, or a unix socket; "
        "empty: none",
        aliases=("--addr",),
    )
    metrics_tls_cert_file: str = option(
        "", "PEM file of the certificate for --metrics-address; empty: plain HTTP"
    )
    metrics_tls_private_key_file: str = option("", "PEM file of the key of that certificate")
    metrics_token_review: bool = option(
        False, "serve other machines only if their bearer token is authorized to get the page"
    )
    malachite_addr: str = option(
        "",
        "loopback port (127.0.0.1:9002) or unix socket that serves this node's metrics as "
        "Malachite does, to Katalyst's agent; empty: none",
    )
    log_format: str = option("human", "format of log lines", choices=("human", "json"))
    log_level: str = option("info", "lowest level that is logged", choices=_LEVELS)
    tracing_endpoint: str = endpoint_option()
    tracing_sampling_rate_per_million: int = rate_option()

    @property
    def mode(self) -> str:
        """Name of a way of running that is not the usual one, else ""."""
        if self.dry_run:
            return "dry run"
        return "read-only" if self.read_only else ""

    @property
    def only_observes(self) -> bool:
        """True if nothing leaves koordlet: no kernel file, hook answer, report or eviction."""
        return self.read_only or self.dry_run

    def __post_init__(self) -> None:
        check_tracing(self)
        for name in ("addr", "host_endpoint", "config_path"):
            path = getattr(self, f"runtime_hooks_{name}")
            if not path.startswith("/"):
                flag = f"--runtime-hooks-{name.replace('_', '-')}"
                raise ValueError(f'{flag} is "{path}"; expected an absolute path')
        for name in ("plugin_registration_dir", "resource_plugins_socket"):
            if not (path := getattr(self, name)).startswith("/"):
                flag = f"--{name.replace('_', '-')}"
                raise ValueError(f'{flag} is "{path}"; expected an absolute path')
        source = self.pod_list_source
        if source and not source.startswith(("http://", "https://", "/")):
            raise ValueError(
                f'--pod-list-source is "{source}"; expected an http(s) URL or an absolute path'
            )
        for stage in self.runtime_hooks_disable_stages:
            if stage not in list(Stage):
                known = ", ".join(Stage)
                raise ValueError(
                    f'--runtime-hooks-disable-stages: "{stage}" is not a hook type; '
                    f"expected one of: {known}"
                )
        if not re.fullmatch("[0-9]{2}", self.runtime_hooks_nri_plugin_index):
            index = self.runtime_hooks_nri_plugin_index
            raise ValueError(
                f'--runtime-hooks-nri-plugin-index is "{index}"; expected two digits, like 00'
            )
        if self.container_runtime_endpoint.startswith("/"):
            # Koordinator's --containerd-endpoint is a path.
            endpoint = f"unix://{self.container_runtime_endpoint}"
            object.__setattr__(self, "container_runtime_endpoint", endpoint)
        if not self.runtime_hooks_nri_socket_path.startswith("/"):
            # Koordinator's is "nri/nri.sock".
            path = f"/var/run/{self.runtime_hooks_nri_socket_path}"
            object.__setattr__(self, "runtime_hooks_nri_socket_path", path)
        _check_numbers(self)
        _check_metrics(self)
        _check_malachite(self.malachite_addr)


def _check_metrics(settings: KoordletSettings) -> None:
    address = settings.metrics_address
    try:
        local = not address or is_local(address)
    except ValueError as error:
        raise ValueError(f"--metrics-address: {error}") from None
    files = (settings.metrics_tls_cert_file, settings.metrics_tls_private_key_file)
    if any(files) and not all(files):
        raise ValueError(
            "--metrics-tls-cert-file and --metrics-tls-private-key-file come together: "
            f'they are "{files[0]}" and "{files[1]}"'
        )
    if local and (any(files) or settings.metrics_token_review):
        raise ValueError(
            "--metrics-tls-… and --metrics-token-review are for the network, and "
            f'--metrics-address is "{address}"; expected an address like :9316'
        )
    if settings.metrics_token_review and not any(files):
        raise ValueError(
            "--metrics-token-review needs --metrics-tls-cert-file: tokens would cross the network "
            f'in clear text to "{address}"'
        )


def _check_malachite(address: str) -> None:
    try:
        local = not address or is_local(address)
    except ValueError as error:
        raise ValueError(f"--malachite-addr: {error}") from None
    if not local:
        raise ValueError(
            f'--malachite-addr is "{address}"; its client has no credentials, so expected a '
            "loopback address (127.0.0.1:9002) or a unix socket"
        )


def _check_numbers(settings: KoordletSettings) -> None:
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


def _given(settings: KoordletSettings, name: str) -> str:
    """A number as it was given, with its flag."""
    return f"--{name.replace('_', '-')} is {getattr(settings, name):.15g}"


def in_directory(settings: KoordletSettings, directory: str) -> KoordletSettings:
    """The settings with all state in one directory, nothing restored at the end, and no traces."""
    return replace(
        settings,
        state_dir=directory,
        tsdb_path="",
        prediction_checkpoint_filepath="",
        restore_on_stop=False,
        tracing_endpoint="",
    )


def node_name(settings: KoordletSettings, environ: Mapping[str, str]) -> str:
    """This node's name in the cluster."""
    # Kubelets register under the hostname in small letters.
    return settings.node_name or environ.get("NODE_NAME", "") or socket.gethostname().lower()


def select_plugins(
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
