"""koord-runtime-proxy: the parts put together, and the life of the process."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Callable, Sequence
from typing import NamedTuple, NoReturn

import uvloop
from koord_hooks.runner import HookRunner, PluginError, load
from koord_model.node import NodeView
from koord_service import logs, memory, systemd
from koord_service.settings import SettingsError, parse, parse_or_exit
from koord_service.sockets import listen_unix, parse_mode
from koord_service.status import StatusServer, metrics_page

from koord_proxy.config import Settings
from koord_proxy.cri.calls import CriCalls
from koord_proxy.cri.client import CriRuntime
from koord_proxy.cri.session import Session as CriSession
from koord_proxy.dispatch import Dispatcher
from koord_proxy.docker.calls import DockerCalls
from koord_proxy.docker.client import DockerRuntime
from koord_proxy.docker.session import Session as DockerSession
from koord_proxy.events import Route, Session
from koord_proxy.health import Health
from koord_proxy.hook_directory import HookDirectory
from koord_proxy.hook_targets import HookServer, HookTarget, InProcess
from koord_proxy.intercept import Interceptor, SkipRule
from koord_proxy.language import Language
from koord_proxy.metrics import Gauges, Metrics
from koord_proxy.reconcile import Reconciler
from koord_proxy.rules.registration import Registration
from koord_proxy.runtime import Runtime
from koord_proxy.server import Relay
from koord_proxy.store import Store

PROGRAM = "koord-runtime-proxy"
DESCRIPTION = (
    "Stands between the kubelet and its container runtime: passes every call on, "
    "and asks hook servers about the calls they registered for."
)
CHECKPOINT_SECONDS = 30.0

log = logs.get_log("koord_proxy")


class _Stop(Exception):  # noqa: N818 - no error, but the way out of a task group
    """The process was asked to end."""


class Api(NamedTuple):
    """What differs between the runtimes that the proxy can stand in front of."""

    session: Callable[[Callable[[str], Route]], Session]
    language: Language
    runtime: Callable[[], Runtime]


class Proxy:
    """One proxy: its parts, and what happens to them over its life."""

    def __init__(
        self, settings: Settings, plugins: HookRunner | None, tasks: asyncio.TaskGroup
    ) -> None:
        self.settings = settings
        self.tasks = tasks
        self.metrics = Metrics()
        self.store = Store(settings.state_path)
        self.dispatcher = Dispatcher(self.metrics, tasks)
        backend = settings.remote_runtime_service_endpoint
        api = _api(settings, self.store)
        self.reconciler = Reconciler(self.store, api.runtime)
        self.interceptor = Interceptor(
            language=api.language,
            store=self.store,
            dispatcher=self.dispatcher,
            metrics=self.metrics,
            tasks=tasks,
            skip=_skip_rule(settings),
            adopt=self.reconciler.adopt,
        )
        self.relay = Relay(
            backend_path=backend, session=api.session, interceptor=self.interceptor, tasks=tasks
        )
        self.directory = HookDirectory(
            settings.hook_config_path, self._use, self.dispatcher.probe_now
        )
        self.health = Health(
            relay=self.relay,
            store=self.store,
            dispatcher=self.dispatcher,
            reconciler=self.reconciler,
        )
        self._plugins: list[HookTarget] = [InProcess(plugins, NodeView())] if plugins else []
        self.dispatcher.replace(self._plugins)
        self._status = self._make_status()
        self.metrics.gauges = Gauges(
            connections=lambda: len(self.relay.connections),
            records=self.health.records,
            unmanaged=self.health.unmanaged,
            breakers=self.dispatcher.breakers,
            database=lambda: self.store.durable,
        )

    async def run(self) -> None:
        """Serve until asked to stop.

        Raises:
            OSError, ValueError: the socket cannot be had.
        """
        settings, stop = self.settings, asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, stop.set)
        loop.add_signal_handler(signal.SIGHUP, self.reread)
        sockets = systemd.listen_sockets() or [
            listen_unix(
                settings.koord_runtimeproxy_endpoint,
                mode=parse_mode(settings.socket_mode),
                owner=settings.socket_owner,
            )
        ]
        self.directory.read()
        await self.relay.listen(sockets)
        self._serve_status()
        for forever in (
            self.directory.watch(),
            self.dispatcher.probe_forever(),
            self.reconciler.run(),
            self._checkpoint_forever(),
            _feed_watchdog(),
        ):
            self.tasks.create_task(forever)
        memory.settle()
        systemd.notify("READY=1")
        log.info("serving", endpoint=settings.koord_runtimeproxy_endpoint)
        await stop.wait()
        systemd.notify("STOPPING=1")
        log.info("draining", connections=len(self.relay.connections))
        await self.relay.drain(settings.drain_timeout)
        if self._status is not None:
            self._status.stop()
        self.store.close()

    def reread(self) -> None:
        """SIGHUP: the registrations, and the settings that can change while running."""
        systemd.notify("RELOADING=1")
        self.directory.read()
        try:
            settings = parse(Settings, prog=PROGRAM, description=DESCRIPTION)
        except (SettingsError, SystemExit) as error:
            log.error("settings were not reread", error=str(error))
        else:
            logs.configure(settings.log_format, settings.log_level)
            self.interceptor.skip = _skip_rule(settings)
            log.info("settings were reread")
        systemd.notify("READY=1")

    def _use(self, registrations: list[Registration]) -> None:
        """Ask these servers from now on; those that stay as they were keep their connections."""
        known = {
            target.registration: target
            for target in self.dispatcher.targets
            if isinstance(target, HookServer)
        }
        servers: list[HookTarget] = [known.get(one) or HookServer(one) for one in registrations]
        self.dispatcher.replace([*self._plugins, *servers])

    def _make_status(self) -> StatusServer | None:
        """The status pages.

        Raises:
            ValueError: the address is none they may be served on.
        """
        if not self.settings.metrics_address:
            return None
        pages = {
            "/metrics": lambda _: metrics_page(self.metrics.registry),
            "/healthz": self.health.healthz,
            "/pods": self.health.pods,
        }
        return StatusServer(self.settings.metrics_address, pages)

    def _serve_status(self) -> None:
        """Without status pages calls are relayed all the same."""
        try:
            if self._status is not None:
                self._status.start()
        except OSError as error:
            log.error("no status pages", address=self.settings.metrics_address, error=str(error))
            self._status = None

    async def _checkpoint_forever(self) -> None:
        while True:
            await asyncio.sleep(CHECKPOINT_SECONDS)
            await asyncio.to_thread(self.store.checkpoint)


def _api(settings: Settings, store: Store) -> Api:
    backend = settings.remote_runtime_service_endpoint
    if settings.docker:
        return Api(DockerSession, DockerCalls(store), lambda: DockerRuntime(backend))
    return Api(CriSession, CriCalls(), lambda: CriRuntime(backend))


def _skip_rule(settings: Settings) -> SkipRule:
    return SkipRule(settings.runtime_hook_server_key, settings.runtime_hook_server_val)


async def _feed_watchdog() -> None:
    interval = systemd.watchdog_interval()
    while interval:
        systemd.notify("WATCHDOG=1")
        await asyncio.sleep(interval)


async def _run(settings: Settings, plugins: HookRunner | None) -> None:
    try:
        async with asyncio.TaskGroup() as tasks:
            await Proxy(settings, plugins, tasks).run()
            raise _Stop
    except* _Stop:
        pass


def main(argv: Sequence[str] | None = None) -> None:
    """The console script; exits with 2 on settings that cannot be used, 1 on other trouble."""
    settings = parse_or_exit(Settings, prog=PROGRAM, description=DESCRIPTION, argv=argv)
    try:
        plugins = load(settings.hook_plugins) if settings.hook_plugins else None
    except PluginError as error:
        _exit(2, error)
    logs.configure(settings.log_format, settings.log_level)
    try:
        uvloop.run(_run(settings, plugins))
    except ExceptionGroup as group:
        first = group.exceptions[0]
        if len(group.exceptions) > 1 or not isinstance(first, OSError | ValueError):
            raise
        _exit(1 if isinstance(first, OSError) else 2, first)


def _exit(code: int, error: Exception) -> NoReturn:
    sys.stderr.write(f"{PROGRAM}: {' '.join(str(error).split())}\n")
    raise SystemExit(code)


if __name__ == "__main__":
    main()
