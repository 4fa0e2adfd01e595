from koord_model.pod import Container, Pod
from koord_model.resources import LinuxResources


def test_what_is_not_said_is_unset() -> None:
    container = Container(Pod("web", "shop", "uid"), "main")
    assert container.resources == container.pod.resources == LinuxResources()
    assert container.id == container.pod.cgroup_parent == ""
