"""Stages are the calls of the hook protocol's service, and each has a hook."""

import inspect

import pytest
from koord_hooks.runner import _FUNCTIONS
from koord_hooks.specs import HookSpecs
from koord_hooks.stages import POD_STAGES, Stage, rpc_path
from koord_model.node import NodeView
from koord_model.pod import Container, Pod
from koord_proto import hook_pb2 as pb

SERVICE = pb.DESCRIPTOR.services_by_name["RuntimeHookService"]


def test_every_stage_is_a_call_of_the_service_and_has_a_hook() -> None:
    paths = {f"/{SERVICE.full_name}/{method.name}" for method in SERVICE.methods}
    assert {rpc_path(stage) for stage in Stage} == paths
    hooks = {name for name in vars(HookSpecs) if name.startswith(("pre_", "post_"))}
    assert hooks == {_FUNCTIONS[stage] for stage in Stage}


@pytest.mark.parametrize("stage", Stage)
def test_a_hook_is_given_its_subject_and_the_node(stage: Stage) -> None:
    of_pods = stage in POD_STAGES
    asked = SERVICE.methods_by_name[f"{stage}Hook"].input_type.name
    assert of_pods == (asked == "PodSandboxHookRequest")
    hook, pod = getattr(HookSpecs(), _FUNCTIONS[stage]), Pod("p", "n", "u")
    assert list(inspect.signature(hook).parameters) == ["pod" if of_pods else "container", "view"]
    assert hook(pod if of_pods else Container(pod, "main"), NodeView()) is None
