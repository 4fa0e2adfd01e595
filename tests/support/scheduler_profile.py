"""The plugins of the default profile, with their weights."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from koord_scheduler.config.scheduler_config import scheduler_config
from koord_scheduler.framework.profile import EnabledPlugin

TYPE = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}


def default_plugins(args: Mapping[str, Any] | None = None) -> tuple[EnabledPlugin, ...]:
    """Those of the default profile; some with these arguments, by their names."""
    given = [{"name": name, "args": one} for name, one in (args or {}).items()]
    config = scheduler_config({**TYPE, "profiles": [{"pluginConfig": given}]})
    return config.profiles[0].profile.plugins
