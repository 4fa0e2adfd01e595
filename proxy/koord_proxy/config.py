"""The proxy's settings: the Go proxy's flags under their names, and what is new."""

from __future__ import annotations

from dataclasses import dataclass

from koord_service.settings import option
from koord_service.sockets import parse_mode

CONTAINERD, DOCKERD = "/var/run/containerd/containerd.sock", "/var/run/docker.sock"
"""Where the runtimes are found unless the settings say otherwise."""


@dataclass(frozen=True)
class Settings:
    """Each is a flag, a YAML key and an environment variable; times are in seconds."""

    koord_runtimeproxy_endpoint: str = option(
        "/var/run/koord-runtimeproxy/runtimeproxy.sock", "unix socket the kubelet talks to"
    )
    remote_runtime_service_endpoint: str = option(
        CONTAINERD, f"unix socket of the container runtime; for Docker {DOCKERD} if left alone"
    )
    backend_runtime_mode: str = option(
        "Containerd",
        "kind of the runtime: Docker stands for dockerd behind cri-dockerd or dockershim",
        choices=("Containerd", "Docker"),
    )
    runtime_hook_server_key: str = option(
        "runtimeproxy.koordinator.sh/skip-hookserver",
        "pods with this label or annotation, and the value below, are never hooked",
    )
    runtime_hook_server_val: str = option("true", "the value that goes with the key above")
    hook_config_path: str = option(
        "/etc/runtime/hookserver.d", "directory where hook servers register by JSON files"
    )
    hook_plugins: tuple[str, ...] = option(
        (), 'hook plugins to run in the proxy itself, by name ("all" for all there are)'
    )
    state_path: str = option(
        "/var/lib/koord-runtime-proxy/state.db",
        "database of the pods and containers seen; empty keeps them in memory only",
    )
    socket_mode: str = option("0660", "permissions of the socket the kubelet talks to")
    socket_owner: str = option("", "its owner, as user, user:group or :group")
    metrics_address: str = option(
        "127.0.0.1:9319",
        "where /metrics, /healthz and /pods are served: loopback address and port, "
        "unix:///path, or empty for nowhere",
    )
    drain_timeout: float = option(10.0, "seconds that calls under way get to end on SIGTERM")
    log_format: str = option("human", "log lines for people or as JSON", choices=("human", "json"))
    log_level: str = option(
        "info", "least important events to log", choices=("debug", "info", "warning", "error")
    )

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
        if self.drain_timeout < 0:
            raise ValueError(f"--drain-timeout is {self.drain_timeout:g}; expected 0 or more")

    @property
    def docker(self) -> bool:
        """Whether the runtime is dockerd."""
        return self.backend_runtime_mode == "Docker"
