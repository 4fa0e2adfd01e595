"""The ``koordlet`` program: settings, plugins, hook server, registration."""

from __future__ import annotations

import asyncio
import signal
import sys
from contextlib import AsyncExitStack
from functools import partial
from typing import NoReturn

import uvloop
from koord_hooks.runner import load
from koord_service import logs, systemd
from koord_service.settings import parse_or_exit
from koord_service.status import StatusServer, metrics_page

from koordlet.config import Settings
from koordlet.hook_server import HookServer
from koordlet.metrics import HookMetrics
from koordlet.registration import Registration, registration_text

_GRACE_SECONDS = 2.0

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
        disabled = settings.runtime_hooks_disable_stages
        runner = load(settings.hook_plugins)
        metrics = HookMetrics()
        self._settings = settings
        self._plugins = runner.names
        self._stages = tuple(stage for stage in runner.stages() if stage not in disabled)
        self._server = HookServer(
            runner,
            self._stages,
            metrics,
            plugin_failure_fails=settings.runtime_hooks_plugin_failure_policy == "Fail",
        )
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
            pages = {"/metrics": partial(metrics_page, metrics.registry)}
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
            systemd.notify("READY=1")
            await _until(stop)
            systemd.notify("STOPPING=1")

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
        try:
            self._registration.remove()
        except OSError as error:
            _log.error("cannot deregister", reason=_reason(error))
        else:
            _log.info("stopping", registration=self._registration.path)


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
