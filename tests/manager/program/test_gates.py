from koord_manager.program.gates import DEFAULTS, gates_of


def test_gates_are_the_managers() -> None:
    gates, others = gates_of(("NodeMutatingWebhook=true", "PodMutatingWebhook=False", "Other=true"))
    assert gates == {**DEFAULTS, "NodeMutatingWebhook": True, "PodMutatingWebhook": False}
    assert others == ("Other=true",)
