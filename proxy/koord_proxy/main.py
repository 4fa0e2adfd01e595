"""koord-runtime-proxy: the parts put together, and the life of the process."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import NamedTuple

from koord_hooks.runner import HookRunner, load
from koord_model.node import NodeView
from koord_service import logs, memory, systemd
from koord_service.log_deduplicator import LogDeduplicator
from koord_service.program_end import on_signals, run_program
from koord_service.settings import SettingsError, parse, parse_or_exit
from koord_service.sockets import listen_unix, parse_mode
from koord_service.status import StatusServer, metrics_page
from koord_service.tracing import SpanRecorder, open_tracing

from koord_proxy.call_traces import CallTraces
from koord_proxy.config import IGNORED, ProxySettings
from koord_proxy.contract.events import RelaySession, Route
from koord_proxy.contract.runtime_api import RuntimeApi
from koord_proxy.contract.runtime_client import RuntimeClient
from koord_proxy.cri.calls import CriApi
from koord_proxy.cri.session import CriSession
from koord_proxy.dispatcher import Dispatcher
from koord_proxy.docker.calls import DockerApi
from koord_proxy.docker.session import DockerSession
from koord_proxy.health import Health
from koord_proxy.hook_directory import HookDirectory
from koord_proxy.hook_targets import HookServerTarget, HookTarget, InProcessTarget
from koord_proxy.interceptor import Interceptor, SkipRule
from koord_proxy.metrics import Gauges, Metrics
from koord_proxy.reconciler import RecordReconciler
from koord_proxy.repairer import Repairer, missed_when_made
from koord_proxy.rules.records import MissedHookCall, RuntimeRecord
from koord_proxy.rules.registration import HookServerRegistration
from koord_proxy.runtime_clients.cri import CriRuntimeClient
from koord_proxy.runtime_clients.docker import DockerRuntimeClient
from koord_proxy.server import Relay
from koord_proxy.store import RecordStore

PROGRAM = "koord-runtime-proxy"
DESCRIPTION = (
    "Stands between the kubelet and its container runtime: passes every call on, "
    "and asks hook servers about the calls they registered for."
)
CHECKPOINT_SECONDS = 30.0
STATUS_SECONDS = 1.0
"""Between two attempts to serve status pages, while another process has their address."""
GIVE_BACK_SECONDS = 5.0
MANY_CONNECTIONS = 32
"""That have ended in the meantime: what they needed is given back to the system."""

log = logs.get_log("koord_proxy")


class _Stop(Exception):  # noqa: N818 - no error, but the way out of a task group
    """The process was asked to end."""


class RuntimeMode(NamedTuple):
    """Parts that differ between the runtimes that the proxy can stand in front of."""

    session: Callable[[Callable[[str], Route]], RelaySession]
    api: RuntimeApi
    runtime: Callable[[], RuntimeClient]


class Proxy:
    """One proxy: its parts, and what happens to them over its life."""

    def __init__(
        self,
        settings: ProxySettings,
        plugins: HookRunner | None,
        tasks: asyncio.TaskGroup,
        tracing: SpanRecorder | None = None,
    ) -> None:
        self.settings = settings
        self.tasks = tasks
        self.metrics = Metrics()
        if tracing is not None:
            tracing.register(self.metrics.registry)
        self.store = RecordStore(settings.state_path)
        self.dispatcher = Dispatcher(self.metrics, tasks)
        backend = settings.remote_runtime_service_endpoint
        mode = _runtime_mode(settings, self.store)
        self.reconciler = RecordReconciler(self.store, mode.runtime, self._missed_when_made)
        self.interceptor = Interceptor(
            api=mode.api,
            store=self.store,
            dispatcher=self.dispatcher,
            metrics=self.metrics,
            tasks=tasks,
            skip=_skip_rule(settings),
            reports_requested=settings.report_requested_limits,
            adopt=self.reconciler.adopt,
            refresh=self.reconciler.refresh,
            met=self.reconciler.wake,
            traces=None if tracing is None else CallTraces(tracing),
        )
        self.repairer = Repairer(
            api=mode.api,
            store=self.store,
            dispatcher=self.dispatcher,
            connect=mode.runtime,
            refresh=self.reconciler.refresh,
        )
        self.relay = Relay(
            backend_path=backend, session=mode.session, interceptor=self.interceptor, tasks=tasks
        )
        # What has ended or changed meanwhile, unasked, is known to nobody else.
        self.relay.backend_returned = self.reconciler.runtime_returned
        self.directory = HookDirectory(
            settings.hook_config_path, self._use, self.dispatcher.probe_now, self.store
        )
        self.health = Health(
            relay=self.relay,
            store=self.store,
            dispatcher=self.dispatcher,
            reconciler=self.reconciler,
            connect=mode.runtime,
            registrations=self.directory.errors,
        )
        self._plugins: list[HookTarget] = [InProcessTarget(plugins, NodeView())] if plugins else []
        self.dispatcher.replace(self._plugins)
        self._status = self._make_status()
        self._status_errors = LogDeduplicator()
        self.metrics.gauges = Gauges(
            connections=lambda: len(self.relay.connections),
            records=self.health.records,
            unmanaged=self.health.unmanaged,
            breakers=self.dispatcher.breakers,
            database=lambda: self.store.durable,
            registrations=lambda: len(self.directory.errors),
        )

    async def run(self) -> None:
        """Serve until asked to stop.

        Raises:
            OSError, ValueError: the socket cannot be had.
        """
        settings, stop = self.settings, asyncio.Event()
        on_signals(stop.set, self.reread, asyncio.get_running_loop())
        sockets = systemd.listen_sockets() or [
            listen_unix(
                settings.koord_runtimeproxy_endpoint,
                mode=parse_mode(settings.socket_mode),
                owner=settings.socket_owner,
            )
        ]
        self.directory.read()
        await self.relay.listen(sockets)
        if not self._serve_status():
            self.tasks.create_task(self._serve_status_later())
        for forever in (
            self.directory.watch(),
            self.dispatcher.probe_forever(),
            self.reconciler.run_forever(),
            self.repairer.run(),
            self._checkpoint_forever(),
            self._give_back_forever(),
            systemd.feed_watchdog(),
        ):
            self.tasks.create_task(forever)
        memory.freeze_startup()
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
            settings = parse(ProxySettings, prog=PROGRAM, description=DESCRIPTION, ignored=IGNORED)
        except (SettingsError, SystemExit) as error:
            log.error("cannot reload settings", error=str(error))
        else:
            logs.configure(settings.log_format, settings.log_level)
            self.interceptor.skip = _skip_rule(settings)
            log.info("settings reloaded")
        systemd.notify("READY=1")

    def _missed_when_made(self, record: RuntimeRecord) -> list[MissedHookCall]:
        return missed_when_made(self.dispatcher, self.interceptor.skip, record)

    def _use(self, registrations: list[HookServerRegistration]) -> None:
        """Ask these servers from now on; those that stay as they were keep their connections."""
        known = {
            target.registration: target
            for target in self.dispatcher.targets
            if isinstance(target, HookServerTarget)
        }
        servers: list[HookTarget] = [
            known.get(registration) or HookServerTarget(registration)
            for registration in registrations
        ]
        self.dispatcher.replace([*self._plugins, *servers])

    def _make_status(self) -> StatusServer | None:
        """The status pages.

        Raises:
            ValueError: the pages may not be served on that address.
        """
        if not self.settings.metrics_address:
            return None
        pages = {
            "/metrics": lambda _: metrics_page(self.metrics.registry, PROGRAM),
            "/healthz": self.health.healthz,
            "/pods": self.health.pods,
        }
        return StatusServer(self.settings.metrics_address, pages)

    def _serve_status(self) -> bool:
        """Without status pages calls are relayed all the same; whether nothing is to be done."""
        try:
            if self._status is not None:
                self._status.start()
        except OSError as error:
            if self._status_errors.is_new(str(error)):
                address = self.settings.metrics_address
                log.error("cannot serve status pages", address=address, error=str(error))
            return False
        return True

    async def _serve_status_later(self) -> None:
        """The address may be that of the proxy before, which has yet to end."""
        served = False
        while not served:
            await asyncio.sleep(STATUS_SECONDS)
            served = self._serve_status()
        log.info("serving status pages", address=self.settings.metrics_address)

    async def _give_back_forever(self) -> None:
        ended = 0
        while True:
            await asyncio.sleep(GIVE_BACK_SECONDS)
            if self.relay.ended - ended >= MANY_CONNECTIONS:
                ended = self.relay.ended
                memory.release_unused()

    async def _checkpoint_forever(self) -> None:
        while True:
            await asyncio.sleep(CHECKPOINT_SECONDS)
            await asyncio.to_thread(self.store.checkpoint)


def _runtime_mode(settings: ProxySettings, store: RecordStore) -> RuntimeMode:
    backend = settings.remote_runtime_service_endpoint
    if settings.docker:
        return RuntimeMode(DockerSession, DockerApi(store), lambda: DockerRuntimeClient(backend))
    return RuntimeMode(CriSession, CriApi(), lambda: CriRuntimeClient(backend))


def _skip_rule(settings: ProxySettings) -> SkipRule:
    return SkipRule(settings.runtime_hook_server_key, settings.runtime_hook_server_val)


async def _run(settings: ProxySettings) -> None:
    plugins = load(settings.hook_plugins) if settings.hook_plugins else None
    try:
        with open_tracing(PROGRAM, settings) as tracing:
            async with asyncio.TaskGroup() as tasks:
                await Proxy(settings, plugins, tasks, tracing).run()
                raise _Stop
    except* _Stop:
        pass


def main(argv: Sequence[str] | None = None) -> None:
    """The console script; exits with 2 on settings that cannot be used, 1 on any other error."""
    settings = parse_or_exit(
        ProxySettings,
        prog=PROGRAM,
        description=DESCRIPTION,
        argv=argv,
        ignored=IGNORED,
        examples=(
            "koord-runtime-proxy --remote-runtime-service-endpoint=/run/containerd/containerd.sock",
        ),
    )
    logs.configure(settings.log_format, settings.log_level)
    IGNORED.report(log, argv)
    run_program(PROGRAM, _run(settings), log)


if __name__ == "__main__":
    main()
