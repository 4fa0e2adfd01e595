"""Names of plugins that are none, and files that are no configuration, are said how to mend."""

from __future__ import annotations

import pytest
from koord_scheduler.arguments.problems import SchedulerConfigError
from koord_scheduler.config.known_plugins import EXTENSION_POINTS
from koord_scheduler.config.scheduler_config import read_scheduler_config


def refusal(text: str) -> str:
    with pytest.raises(SchedulerConfigError) as found:
        read_scheduler_config(text)
    return str(found.value)


def configured(name: str) -> str:
    return f"""
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles: [{{plugins: {{score: {{enabled: [{{name: {name}}}]}}}}}}]
"""


@pytest.mark.parametrize(
    ("name", "near"),
    [("LoadAware", "LoadAwareScheduling"), ("deviceshare", "DeviceShare")],
)
def test_the_nearest_plugin_is_named(name: str, near: str) -> None:
    assert refusal(configured(name)).endswith(f"did you mean {near}?")


def test_of_a_name_that_is_like_none_all_are_listed() -> None:
    said = refusal(configured("zzz"))
    assert all(name in said for name in EXTENSION_POINTS)


def test_a_config_map_is_no_configuration() -> None:
    said = refusal("apiVersion: v1\nkind: ConfigMap\ndata: {scheduler.yaml: 'a: b'}\n")
    assert 'put the text under "scheduler.yaml" of its data into a file of its own' in said
