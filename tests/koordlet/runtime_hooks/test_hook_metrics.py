from koord_hooks.runner import HookResult
from koord_hooks.stages import Stage
from koord_model.patch import Conflict, Patch
from koordlet.runtime_hooks.hook_metrics import HookMetrics


def test_calls_and_what_plugins_did_are_counted() -> None:
    metrics = HookMetrics()
    seconds = "koordlet_runtime_hook_seconds_count"
    shown = [metrics.registry.get_sample_value(seconds, {"stage": stage}) for stage in Stage]
    assert shown == [0] * len(Stage), "each from the start"
    conflict = Conflict("env[A]", (("a", "1"), ("b", "2")))
    failures = (("c", ValueError("no")),)
    outcome = HookResult(Patch(), ("a", "b"), (conflict, conflict), failures)
    metrics.count(Stage.PRE_CREATE_CONTAINER, outcome, 0.002)
    metrics.count(Stage.PRE_CREATE_CONTAINER, HookResult(Patch()), 0.001)

    def value(name: str, **labels: str) -> float | None:
        return metrics.registry.get_sample_value(name, {"stage": "PreCreateContainer", **labels})

    assert value(seconds) == 2
    assert value("koordlet_runtime_hook_seconds_sum") == 0.003
    assert value("koordlet_runtime_hook_conflicts_total") == 2
    for plugin, outcome_label in (("a", "patch"), ("b", "patch"), ("c", "failed")):
        name = "koordlet_runtime_hook_plugin_total"
        assert value(name, plugin=plugin, outcome=outcome_label) == 1
