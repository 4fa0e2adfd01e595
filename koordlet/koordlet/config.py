"""koordlet's settings, named as Koordinator's flags where it has them.

Paths are those of a process on the host, ours being no container by default:
the socket is where the registration says it is. Where koordlet does run in a
container, ``--runtime-hooks-addr`` and ``--runtime-hooks-config-path`` are the
mounted paths (Koordinator's image: ``/host-var-run-koordlet/koordlet.sock`` and
``/host-etc-hookserver/``) and ``--runtime-hooks-host-endpoint`` stays as it is.
"""

from __future__ import annotations

from dataclasses import dataclass

from koord_hooks.stages import Stage
from koord_service.settings import option

_SOCKET = "/var/run/koordlet/koordlet.sock"
_POLICIES = ("Ignore", "Fail")
_LEVELS = ("debug", "info", "warning", "error")


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
    hook_plugins: tuple[str, ...] = option(
        ("batchresource", "cpusetallocator"), 'hook plugins to run; "all" for all there are'
    )
    hook_timeout: float = option(
        0.0, "seconds the proxy is asked to wait for an answer; 0 leaves it to the proxy"
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
        for stage in self.runtime_hooks_disable_stages:
            if stage not in list(Stage):
                known = ", ".join(Stage)
                raise ValueError(
                    f'--runtime-hooks-disable-stages: "{stage}" is no hook type; there are: {known}'
                )
        if self.hook_timeout < 0:
            raise ValueError(f"--hook-timeout is {self.hook_timeout:g}; expected 0 or more seconds")
