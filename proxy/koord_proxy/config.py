"""The proxy's settings: the Go proxy's flags under their names, and what is new."""

from __future__ import annotations

from dataclasses import dataclass

from koord_service.go_flags import go_flags
from koord_service.settings import option
from koord_service.sockets import parse_mode
from koord_service.tracing import check_tracing, endpoint_option, rate_option

CONTAINERD, DOCKERD = "/var/run/containerd/containerd.sock", "/var/run/docker.sock"
"""The runtimes' sockets unless the settings say otherwise."""

IGNORED = go_flags()
"""The Go proxy's flags that have no meaning here are klog's."""


@dataclass(frozen=True)
class ProxySettings:
    """Each is a flag, a YAML key and an environment variable; times are in seconds."""

    koord_runtimeproxy_endpoint: str = option(
        "/var/run/koord-runtimeproxy/runtimeproxy.sock", "unix socket the kubelet talks to"
    )
    remote_runtime_service_endpoint: str = option(
        CONTAINERD, f"unix socket of the container runtime; the default for Docker is {DOCKERD}"
    )
    backend_runtime_mode: str = option(
        "Containerd",
        "Containerd for any CRI runtime, Docker for dockerd behind cri-dockerd or dockershim",
        choices=("Containerd", "Docker"),
    )
    runtime_hook_server_key: str = option(
        "runtimeproxy.koordinator.sh/skip-hookserver",
        "label or annotation of pods that are not hooked, with --runtime-hook-server-val",
    )
    runtime_hook_server_val: str = option("true", "value of --runtime-hook-server-key")
    hook_config_path: str = option(
        "/etc/runtime/hookserver.d", "directory of the JSON files by which hook servers register"
    )
    hook_plugins: tuple[str, ...] = option(
        (), 'hook plugins to run in the proxy itself, by name; "all" for every plugin'
    )
    report_requested_limits: bool = option(
        False,
        "report to the kubelet the limits that it requested, not those of hooks, which kubelets "
        "since 1.33 count as requests of pods",
    )
    state_path: str = option(
        "/var/lib/koord-runtime-proxy/state.db",
        "database of known pods and containers; empty keeps them in memory only",
    )
    socket_mode: str = option("0660", "permissions of the proxy's socket")
    socket_owner: str = option("", "owner of the proxy's socket: user, user:group or :group")
    metrics_address: str = option(
        "127.0.0.1:9319",
        "address of /metrics, /healthz and /pods: loopback address and port, or "
        "unix:///path; empty for none",
    )
    drain_timeout: float = option(
        10.0, "seconds that calls in progress may take to finish on SIGTERM"
    )
    log_format: str = option("human", "format of log lines", choices=("human", "json"))
    log_level: str = option(
        "info", "lowest level of events to log", choices=("debug", "info", "warning", "error")
    )
    tracing_endpoint: str = endpoint_option()
    tracing_sampling_rate_per_million: int = rate_option()

    def __post_init__(self) -> None:
        """Settings that contradict each other.

        Raises:
            ValueError: one line naming the flag, its value and what was expected.
        """
        for flag in ("koord_runtimeproxy_endpoint", "remote_runtime_service_endpoint"):
            path = getattr(self, flag)
            if not path.removeprefix("unix://").startswith("/"):
                name = flag.replace("_", "-")
                raise ValueError(f'--{name} is "{path}"; expected the absolute path of a socket')
            object.__setattr__(self, flag, path.removeprefix("unix://"))
        if self.docker and self.remote_runtime_service_endpoint == CONTAINERD:
            # What is not containerd cannot be meant by its socket.
            object.__setattr__(self, "remote_runtime_service_endpoint", DOCKERD)
        if self.koord_runtimeproxy_endpoint == self.remote_runtime_service_endpoint:
            raise ValueError(
                f'--koord-runtimeproxy-endpoint is "{self.koord_runtimeproxy_endpoint}", the same '
                "as --remote-runtime-service-endpoint; the proxy cannot stand in front of itself"
            )
        parse_mode(self.socket_mode)
        check_tracing(self)
        if self.drain_timeout < 0:
            raise ValueError(f"--drain-timeout is {self.drain_timeout:g}; expected 0 or more")

    @property
    def docker(self) -> bool:
        """True if the runtime is dockerd."""
        return self.backend_runtime_mode == "Docker"
