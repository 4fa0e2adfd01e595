from koord_hooks.specs import HookSpecs
from koord_hooks.stages import POD_STAGES, Stage, rpc_path
from koord_proto import hook_pb2 as pb


def test_every_stage_is_a_call_of_the_service() -> None:
    service = pb.DESCRIPTOR.services_by_name["RuntimeHookService"]
    paths = {f"/{service.full_name}/{method.name}" for method in service.methods}
    assert {rpc_path(stage) for stage in Stage} == paths


def test_pod_stages_are_those_asked_about_a_pod() -> None:
    service = pb.DESCRIPTOR.services_by_name["RuntimeHookService"]
    asked = {method.name: method.input_type.name for method in service.methods}
    about_pods = {stage for stage in Stage if asked[f"{stage}Hook"] == "PodSandboxHookRequest"}
    assert about_pods == POD_STAGES


def test_every_stage_has_a_hook() -> None:
    hooks = [name for name in vars(HookSpecs) if name.startswith(("pre_", "post_"))]
    assert len(hooks) == len(Stage)
