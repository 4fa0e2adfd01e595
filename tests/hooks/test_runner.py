from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from koord_hooks import runner as runner_module
from koord_hooks.runner import HookRunner, PluginError, UnknownPluginError, load
from koord_hooks.specs import hookimpl
from koord_hooks.stages import POD_STAGES, Stage
from koord_model.node import NodeView
from koord_model.patch import Patch
from koord_model.pod import Container, Pod
from koord_model.resources import LinuxResources

POD = Pod("web-1", "shop", "uid")
CONTAINER = Container(POD, "main")
VIEW = NodeView()


def quota(value: int) -> Patch:
    return Patch(resources=LinuxResources(cpu_quota=value), why=f"quota {value}")


def plugin(**hooks: Callable[..., Any]) -> SimpleNamespace:
    return SimpleNamespace(**{name: hookimpl(hook) for name, hook in hooks.items()})


class Wants:
    """A plugin with one hook, which wants a quota."""

    def __init__(self, value: int) -> None:
        self.value = value

    @hookimpl
    def pre_create_container(self, container: Container, view: NodeView) -> Patch:
        assert (container, view) == (CONTAINER, VIEW)
        return quota(self.value)


def create(*plugins: tuple[str, object]) -> Any:
    return HookRunner(plugins).run(Stage.PRE_CREATE_CONTAINER, CONTAINER, VIEW)


def test_a_patch_is_applied_and_its_plugin_named() -> None:
    outcome = create(("a", Wants(7)))
    assert outcome.patch == Patch(resources=LinuxResources(cpu_quota=7), why="a: quota 7")
    assert outcome.contributors == ("a",)
    assert outcome.conflicts == outcome.failures == ()


def raising(error: Exception) -> SimpleNamespace:
    def hook() -> Patch:
        raise error

    return plugin(pre_create_container=hook)


def test_a_plugin_that_raises_does_not_end_the_round() -> None:
    error = KeyError("no such CPU")
    outcome = create(("a", raising(error)), ("b", Wants(7)), ("c", raising(error)))
    assert outcome.patch.resources.cpu_quota == 7
    assert outcome.failures == (("a", error), ("c", error))
    # Input that cannot be used is reported once, and is no failure.
    cannot_use = ValueError("annotation x: no number")
    outcome = create(("a", raising(cannot_use)), ("b", Wants(7)), ("c", raising(cannot_use)))
    assert outcome.patch.ignored == ("annotation x: no number",)
    assert outcome.patch.resources.cpu_quota == 7
    assert outcome.failures == ()


def test_two_values_for_one_field_are_a_conflict_and_neither_wins() -> None:
    outcome = create(("b", Wants(2)), ("a", Wants(1)))
    assert outcome.patch.resources.cpu_quota is None
    assert [str(conflict) for conflict in outcome.conflicts] == [
        "resources[cpu_quota]: a wants 1, b wants 2"
    ]


def test_a_hook_may_leave_arguments_out() -> None:
    seen: list[object] = []
    outcome = create(
        ("none", plugin(pre_create_container=lambda: seen.append("none"))),
        ("view", plugin(pre_create_container=lambda view: seen.append(view))),
        ("container", plugin(pre_create_container=lambda container: seen.append(container))),
    )
    assert seen == [CONTAINER, "none", VIEW]
    assert (outcome.patch, outcome.contributors, outcome.failures) == (Patch(), (), ())


@pytest.mark.parametrize(
    ("returned", "reason"),
    [
        ({"cpu_quota": 1}, "returned dict; expected a Patch or None"),
        (quota(1 << 70), r"resources[cpu_quota] is 1180591620717411303424; expected a 64-bit"),
        (Patch(labels=None), "has no attribute 'items'"),  # type: ignore[arg-type]
    ],
)
def test_what_is_no_patch_is_a_failure_of_its_plugin_alone(returned: object, reason: str) -> None:
    outcome = create(("a", plugin(pre_create_container=lambda: returned)), ("b", Wants(7)))
    assert outcome.patch.resources.cpu_quota == 7
    assert outcome.contributors == ("b",)
    [(name, error)] = outcome.failures
    assert name == "a"
    assert reason in str(error)


@pytest.mark.parametrize("stage", list(Stage))
def test_each_stage_asks_its_own_hook(stage: Stage) -> None:
    name = runner_module._FUNCTIONS[stage]
    subject: Pod | Container = POD if stage in POD_STAGES else CONTAINER
    asked = HookRunner([("a", plugin(**{name: lambda: Patch(env={"stage": stage})}))])
    assert asked.stages() == (stage,)
    assert asked.run(stage, subject, VIEW).patch.env == {"stage": stage}
    others = [other for other in Stage if other is not stage]
    assert all(asked.run(other, subject, VIEW).patch == Patch() for other in others)


@pytest.mark.parametrize(
    ("hooks", "said"),
    [
        ({"pre_lunch": lambda: None}, "unknown hook 'pre_lunch'"),
        ({"pre_create_container": lambda node: None}, "node"),
    ],
)
def test_a_plugin_that_does_not_fit_is_refused_in_one_line(
    hooks: dict[str, Callable[..., Any]], said: str
) -> None:
    with pytest.raises(PluginError, match=said) as caught:
        HookRunner([("a", plugin(**hooks))])
    assert "\n" not in str(caught.value)


class TestLoading:
    def test_by_name(self) -> None:
        names = ("batchresource", "cpusetallocator")
        assert load(["cpusetallocator", "batchresource", "batchresource"]).names == names
        assert load([]).stages() == ()
        assert set(load(["all"]).names) >= set(names)
        there = r'^hook plugin "batch" does not exist; there are: batchresource, coresched, '
        with pytest.raises(UnknownPluginError, match=there):
            load(["batch"])

    def test_a_plugin_of_another_distribution_unless_we_have_the_name(
        self, others: dict[str, object]
    ) -> None:
        others |= {"theirs": Wants(3), "batchresource": Wants(3)}
        loaded = load(["theirs", "batchresource"])
        assert loaded.names == ("batchresource", "theirs")
        assert loaded.run(Stage.PRE_CREATE_CONTAINER, CONTAINER, VIEW).contributors == ("theirs",)

    def test_a_broken_one_disturbs_only_those_who_want_it(self, others: dict[str, object]) -> None:
        others["broken"] = ImportError("no module named theirs")
        assert load(["batchresource"]).names == ("batchresource",)
        with pytest.raises(PluginError, match='"broken" cannot be loaded: ImportError: no module'):
            load(["all"])

    @pytest.fixture
    def others(self, monkeypatch: pytest.MonkeyPatch) -> dict[str, object]:
        """What the entry points of other distributions load, by name; errors are raised."""
        plugins: dict[str, object] = {}

        def entry_points(*, group: str) -> list[SimpleNamespace]:
            assert group == "pykoord.hooks"
            return [SimpleNamespace(name=name, load=lambda n=name: get(n)) for name in plugins]

        def get(name: str) -> object:
            if isinstance(plugins[name], Exception):
                raise plugins[name]  # type: ignore[misc]
            return plugins[name]

        monkeypatch.setattr("importlib.metadata.entry_points", entry_points)
        return plugins
