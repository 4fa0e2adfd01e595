"""The programs that deploy/ runs in pods, with the settings that they have there."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import koord_descheduler.program.settings
import koord_devices.config
import koord_manager.program.config
import koord_scheduler.program.settings
import koordlet.agent.config
from koord_service.settings import parse

from tests.deploy.manifests import containers, environ, installed

OBJECTS = installed("scheduler", "descheduler", "device-daemon", "device-daemon-tools")
MANAGER = koord_manager.program.config.Settings()
SCHEDULER = koord_scheduler.program.settings.SchedulerSettings()
PROGRAMS: Mapping[str, tuple[str, Any]] = {
    "manager": ("koord-manager", koord_manager.program.config.Settings),
    "koordlet": ("koordlet", koordlet.agent.config.KoordletSettings),
    "scheduler": ("koord-scheduler", koord_scheduler.program.settings.SchedulerSettings),
    "descheduler": ("koord-descheduler", koord_descheduler.program.settings.DeschedulerSettings),
    "koord-device-daemon": ("kdd", koord_devices.config.DeviceDaemonSettings),
    "koord-device-daemon-tools": ("kdd", koord_devices.config.DeviceDaemonSettings),
}
"""Programs and their settings by the names of their containers."""
PODS = {container["name"]: (spec, container) for spec, container in containers(OBJECTS)}


def settings_of(name: str) -> Any:
    """The settings that a container's program has there."""
    program, settings = PROGRAMS[name]
    container = PODS[name][1]
    argv = [*container.get("command", ())[1:], *container["args"]]
    return parse(settings, prog=program, description="", argv=argv, environ=environ(container))
