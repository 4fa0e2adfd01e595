import dataclasses

import pytest
from koord_model.pod import Container, Pod
from koord_model.resources import LinuxResources


def test_what_is_not_said_is_unset() -> None:
    container = Container(Pod("web", "shop", "uid"), "main")
    assert container.resources == container.pod.resources == LinuxResources()
    assert container.id == container.pod.cgroup_parent == ""


def test_a_hook_cannot_change_what_it_is_asked_about() -> None:
    pod = Pod("web", "shop", "uid")
    with pytest.raises(dataclasses.FrozenInstanceError):
        pod.name = "other"  # type: ignore[misc]
