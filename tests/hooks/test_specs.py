import inspect

import pytest
from koord_hooks.specs import HookSpecs
from koord_model.node import NodeView
from koord_model.pod import Container, Pod

HOOKS = [name for name in vars(HookSpecs) if name.startswith(("pre_", "post_"))]


@pytest.mark.parametrize("name", HOOKS)
def test_a_hook_is_given_its_subject_and_the_node(name: str) -> None:
    parameters = list(inspect.signature(getattr(HookSpecs, name)).parameters)
    assert parameters == ["self", "pod" if name.endswith("sandbox") else "container", "view"]


@pytest.mark.parametrize("name", HOOKS)
def test_a_specification_itself_wants_nothing(name: str) -> None:
    pod = Pod("p", "n", "u")
    subject = pod if name.endswith("sandbox") else Container(pod, "main")
    assert getattr(HookSpecs(), name)(subject, NodeView()) is None
