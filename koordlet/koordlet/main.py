"""The ``koordlet`` program: settings, plugins, hook server, registration."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from contextlib import AsyncExitStack
from pathlib import Path
from typing import NoReturn

import uvloop
from koord_hooks.runner import HookRunner, available_plugins, load
from koord_hooks.stages import Stage
from koord_host.detect import DetectError
from koord_host.kernel import Kernel
from koord_host.originals import InUseError
from koord_service import logs, systemd
from koord_service.settings import parse_or_exit
from koord_service.status import StatusServer, metrics_page

from koordlet.config import Settings, plugins_of
from koordlet.hook_server import HookServer
from koordlet.keeper import OBSERVED
from koordlet.metrics import HookMetrics, NodeMetrics, NriMetrics
from koordlet.node import Node, open_node
from koordlet.nri.client import Client
from koordlet.nri_hooks import HookHandler
from koordlet.registration import Registration, registration_text
from koordlet.telling import Told

_GRACE_SECONDS = 2.0
_SWITCH_SECONDS = 0.0005

_log = logs.get_log("koordlet")


def main() -> None:
    """Serve until SIGTERM; exit 2 on settings that cannot be, 1 on a node that refuses."""
    settings = parse_or_exit(
        Settings,
        prog="koordlet",
        description="Koordinator's node agent: answers the CRI proxy's hooks.",
    )
    logs.configure(settings.log_format, settings.log_level)
    try:
        # A round must not keep a hook call waiting: Python's own 5 ms are many a call's turns.
        sys.setswitchinterval(_SWITCH_SECONDS)
        agent = Agent(settings)
        uvloop.run(agent.serve())
    except ValueError as error:
        _leave(2, str(error))
    except OSError as error:
        _leave(1, _reason(error))


class Agent:
    """The parts of one run, wired together.

    Raises:
        ValueError: a plugin that there is not, an address that cannot be.
    """

    def __init__(self, settings: Settings) -> None:
        disabled = {Stage(name) for name in settings.runtime_hooks_disable_stages}
        runner = _runner(settings)
        metrics = HookMetrics()
        told = Told()
        self._settings = settings
        self._plugins = runner.names
        self._node = _node(settings, runner, told, metrics)
        observed = OBSERVED if self._node is not None else ()
        asked = [stage for stage in runner.stages() if stage not in disabled]
        self._stages = tuple(
            stage
            for stage in Stage
            if stage in asked or (stage in observed and stage not in disabled)
        )
        self._server = HookServer(
            runner,
            asked,
            metrics,
            node=None if self._node is None else self._node.keeper,
            told=told,
            plugin_failure_fails=settings.runtime_hooks_plugin_failure_policy == "Fail",
        )
        self._nri = None
        if self._node is not None and settings.enable_nri_runtime_hook:
            handler = HookHandler(runner, self._node.keeper, metrics, told, disabled)
            name = settings.runtime_hooks_nri_plugin_name
            index = settings.runtime_hooks_nri_plugin_index
            directory = Path(settings.runtime_hooks_addr).parent
            self._nri = Client(
                handler,
                name=name,
                index=index,
                socket=settings.runtime_hooks_nri_socket_path,
                # Beside our own socket: the runtime's directory may be read-only to us.
                lock=str(directory / f"nri-{index}-{name}.lock"),
            )
            NriMetrics(metrics.registry, self._nri)
        self._registration = Registration(
            settings.runtime_hooks_config_path,
            registration_text(
                settings.runtime_hooks_host_endpoint,
                settings.runtime_hooks_failure_policy,
                self._stages,
                settings.hook_timeout,
            ),
        )
        self._status: StatusServer | None = None
        if settings.metrics_address:
            pages = {"/metrics": lambda _: metrics_page(metrics.registry)}
            self._status = StatusServer(settings.metrics_address, pages)

    async def serve(self) -> None:
        """Answer hooks until SIGTERM or SIGINT, then deregister and drain.

        Raises:
            OSError: a socket or the registration directory cannot be used.
            ValueError: a socket's path is too long.
        """
        stop = asyncio.Event()
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGTERM, stop.set)
        loop.add_signal_handler(signal.SIGINT, stop.set)
        loop.add_signal_handler(signal.SIGHUP, self._register_again)
        async with AsyncExitStack() as at_exit:
            if self._status is not None:
                self._status.start()
                at_exit.callback(self._status.stop)
            await self._server.start(self._settings.runtime_hooks_addr)
            at_exit.push_async_callback(self._server.stop, _GRACE_SECONDS)
            self._registration.write()
            at_exit.callback(self._deregister)
            self._announce()
            if self._node is not None:
                at_exit.push_async_callback(self._node.keeper.finish, self._node.let_go)
            systemd.notify("READY=1")
            await self._work(stop)
            systemd.notify("STOPPING=1")
            # Before anything is put back: nobody may be given our values any more.
            self._deregister()

    async def _work(self, stop: asyncio.Event) -> None:
        """Keep the node, and be an NRI plugin, until told to stop."""
        async with asyncio.TaskGroup() as group:
            tasks = []
            if self._node is not None:
                tasks.append(group.create_task(self._node.keeper.pods.run()))
                tasks.append(group.create_task(self._node.keeper.run()))
            if self._nri is not None:
                tasks.append(group.create_task(self._nri.run()))
            await _until(stop)
            for task in tasks:
                task.cancel()

    def _announce(self) -> None:
        _log.info(
            "serving",
            socket=self._settings.runtime_hooks_addr,
            registration=self._registration.path,
            plugins=",".join(self._plugins),
            stages=",".join(self._stages),
            metrics=None if self._status is None else self._status.address,
        )

    def _register_again(self) -> None:
        if not self._registration.in_place:
            # Not serving yet, or stopping: the proxy must not find us.
            return
        try:
            self._registration.write()
        except OSError as error:
            _log.error("stays as it was registered", reason=_reason(error))
        else:
            _log.info("registered again", registration=self._registration.path)

    def _deregister(self) -> None:
        if not self._registration.in_place:
            return
        try:
            self._registration.remove()
        except OSError as error:
            _log.error("cannot deregister", reason=_reason(error))
        else:
            _log.info("stopping", registration=self._registration.path)


def _runner(settings: Settings) -> HookRunner:
    known = available_plugins()
    names, others = plugins_of(settings.hook_plugins, settings.feature_gates, known)
    if others:
        _log.info("feature gates passed over", gates=",".join(others))
    return load(names)


def _node(settings: Settings, runner: HookRunner, told: Told, metrics: HookMetrics) -> Node | None:
    """The node to keep; ``None`` where it cannot be, which leaves hooks to be answered."""
    if not settings.node_writes:
        return None
    try:
        if os.geteuid() != 0:
            raise DetectError("only root may write kernel files")
        # Wherever a container has them mounted: these are written in place.
        mounted = (settings.cgroup_root_dir, settings.proc_root_dir, settings.sys_fs_root_dir)
        kernel = Kernel(("/proc", "/sys", *mounted))
        return open_node(settings, runner, told, kernel, NodeMetrics(metrics.registry))
    except (DetectError, InUseError) as error:
        _log.warning("kernel files are left alone, hooks are answered", reason=str(error))
        return None


async def _until(stop: asyncio.Event) -> None:
    """Wait for the event, and show systemd in the meantime that the loop turns."""
    interval = systemd.watchdog_interval()
    while not stop.is_set():
        try:
            async with asyncio.timeout(interval):
                await stop.wait()
        except TimeoutError:
            systemd.notify("WATCHDOG=1")


def _reason(error: OSError) -> str:
    return f"{error.filename}: {error.strerror}" if error.filename else str(error)


def _leave(code: int, message: str) -> NoReturn:
    sys.stderr.write(f"koordlet: {' '.join(message.split())}\n")
    raise SystemExit(code)
