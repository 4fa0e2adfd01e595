"""Finding plugins, and asking them all about one stage or subject of reconciliation."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Generic, TypeVar

import pluggy
from koord_model.node import NodeView
from koord_model.node_slo import HostApplication
from koord_model.patch import AnyPatch, Conflict, NodePatch, Patch, checked, merge
from koord_model.pod import Container, Pod
from koord_model.qos import KubeQoS, unknown_word

from koord_hooks import builtin
from koord_hooks.specs import PROJECT, HookSpecs
from koord_hooks.stages import ReconcileSubject, Stage

_FUNCTIONS = {
    Stage.PRE_RUN_POD_SANDBOX: "pre_run_pod_sandbox",
    Stage.POST_STOP_POD_SANDBOX: "post_stop_pod_sandbox",
    Stage.PRE_REMOVE_POD_SANDBOX: "pre_remove_pod_sandbox",
    Stage.PRE_CREATE_CONTAINER: "pre_create_container",
    Stage.PRE_START_CONTAINER: "pre_start_container",
    Stage.POST_START_CONTAINER: "post_start_container",
    Stage.PRE_UPDATE_CONTAINER_RESOURCES: "pre_update_container_resources",
    Stage.POST_STOP_CONTAINER: "post_stop_container",
    ReconcileSubject.KUBE_QOS: "reconcile_kube_qos",
    ReconcileSubject.HOST_APPLICATION: "reconcile_host_application",
    ReconcileSubject.NODE: "reconcile_node",
}

Hook = Callable[..., object]
_AnyPatch = TypeVar("_AnyPatch", Patch, NodePatch, covariant=True)


@dataclass(frozen=True, slots=True)
class HookResult(Generic[_AnyPatch]):
    """Combined result of the plugins for one stage or subject of reconciliation.

    ``contributors`` are the plugins that returned a patch, ``patches`` those patches, in
    the same order. ``failures`` are those that
    raised or did not return a patch, with the reason; the patches of the
    others are in ``patch`` all the same. A plugin that raises ``ValueError`` has not
    failed: it cannot use its input, which is a line in ``patch.ignored``.
    """

    patch: _AnyPatch
    contributors: tuple[str, ...] = ()
    conflicts: tuple[Conflict, ...] = ()
    failures: tuple[tuple[str, Exception], ...] = ()
    patches: tuple[_AnyPatch, ...] = ()


class PluginError(ValueError):
    """A plugin cannot be used; the message is one line for people."""


class UnknownPluginError(PluginError):
    """A plugin was asked for by a name that none has."""


class HookRunner:
    """The plugins in use, by name, and what they say about a stage.

    Raises:
        PluginError: a hook that no stage has, or with arguments that do not exist.
    """

    def __init__(self, plugins: Iterable[tuple[str, object]]) -> None:
        manager = pluggy.PluginManager(PROJECT)
        manager.add_hookspecs(HookSpecs)
        try:
            for name, plugin in plugins:
                manager.register(plugin, name)
            manager.check_pending()
        except pluggy.PluginValidationError as error:
            raise PluginError(" ".join(str(error).split())) from error
        self.names = tuple(sorted(name for name, _ in manager.list_name_plugin()))
        self._hooks = {
            moment: _implementations(manager, function) for moment, function in _FUNCTIONS.items()
        }

    def stages(self) -> tuple[Stage, ...]:
        """The stages at least one plugin has a hook for, in the order of ``Stage``."""
        return tuple(stage for stage in Stage if self._hooks[stage])

    def run(self, stage: Stage, subject: Pod | Container, view: NodeView) -> HookResult[Patch]:
        """Ask every plugin about a pod (pod stages) or a container (the others)."""
        if isinstance(subject, Pod):
            return self._ask(stage, Patch, {"pod": subject, "view": view}, of_pod=subject)
        arguments = {"container": subject, "view": view}
        return self._ask(stage, Patch, arguments, of_pod=subject.pod)

    def reconcile_kube_qos(self, kube_qos: KubeQoS, view: NodeView) -> HookResult[Patch]:
        """Ask every plugin about the cgroup of one of Kubernetes' own classes."""
        return self._ask(ReconcileSubject.KUBE_QOS, Patch, {"kube_qos": kube_qos, "view": view})

    def reconcile_host_application(
        self, application: HostApplication, view: NodeView
    ) -> HookResult[Patch]:
        """Ask every plugin about the cgroup of an application outside Kubernetes."""
        arguments = {"application": application, "view": view}
        return self._ask(ReconcileSubject.HOST_APPLICATION, Patch, arguments)

    def reconcile_node(self, pods: tuple[Pod, ...], view: NodeView) -> HookResult[NodePatch]:
        """Ask every plugin about the node itself, with the pods it runs."""
        return self._ask(ReconcileSubject.NODE, NodePatch, {"pods": pods, "view": view})

    def _ask(
        self,
        moment: Stage | ReconcileSubject,
        kind: type[AnyPatch],
        arguments: Mapping[str, object],
        of_pod: Pod | None = None,
    ) -> HookResult[AnyPatch]:
        returned: list[tuple[str, AnyPatch]] = []
        ignored: list[str] = [] if of_pod is None else _about_labels(of_pod)
        failures: list[tuple[str, Exception]] = []
        for name, hook in self._hooks[moment]:
            try:
                patch = hook(**arguments)
            except ValueError as error:
                ignored.append(" ".join(str(error).split()))
                continue
            except Exception as error:
                failures.append((name, error))
                continue
            try:
                if patch is not None:
                    returned.append((name, checked(patch, kind)))
            except Exception as error:
                failures.append((name, error))
        merged: AnyPatch
        merged, conflicts = merge(returned, kind)
        # Several plugins may read one annotation; its defect is reported once.
        lines = tuple(sorted({*ignored, *merged.ignored}))
        merged = replace(merged, ignored=lines) if ignored else merged
        names, patches = tuple(name for name, _ in returned), tuple(patch for _, patch in returned)
        return HookResult(merged, names, conflicts, tuple(failures), patches)


def _about_labels(pod: Pod) -> list[str]:
    """Every plugin reads the class, so an unknown one is reported here."""
    wrong = unknown_word(pod.labels)
    return [f"pod {pod.full_name}: {wrong}"] if wrong else []


def _implementations(manager: pluggy.PluginManager, function: str) -> tuple[tuple[str, Hook], ...]:
    """Each plugin's own function, so that one that raises does not end the round.

    pluggy's combined call stops at the first exception; it still does the work
    of validating signatures against the specification.
    """
    implementations = getattr(manager.hook, function).get_hookimpls()
    found = [(impl.plugin_name, _with_accepted(impl)) for impl in implementations]
    return tuple(sorted(found, key=lambda pair: pair[0]))


def _with_accepted(implementation: pluggy.HookImpl) -> Hook:
    """The function, called with the arguments it declares: it may leave some out."""
    function, accepted = implementation.function, implementation.argnames

    def hook(**arguments: object) -> object:
        return function(*[arguments[name] for name in accepted])

    return hook


def available_plugins() -> dict[str, Callable[[], object]]:
    """Return the loader of each available plugin by name.

    Our own are the modules in ``koord_hooks.builtin``; other distributions name
    theirs as entry points. Ours win a name. None is loaded before it is asked
    for: a broken one disturbs only those who want it.
    """
    # Here, because it costs megabytes, which a program without plugins saves.
    from importlib.metadata import entry_points

    others = {point.name: point.load for point in entry_points(group=PROJECT)}
    ours = {
        module.name: partial(importlib.import_module, f"{builtin.__name__}.{module.name}")
        for module in pkgutil.iter_modules(builtin.__path__)
    }
    return {**others, **ours}


def load(names: Iterable[str]) -> HookRunner:
    """A runner with the named plugins; "all" stands for all there are.

    Raises:
        UnknownPluginError: an unknown name; the message lists those there are.
        PluginError: a plugin that cannot be loaded, or has hooks that do not fit.
    """
    there = available_plugins()
    wanted = list(dict.fromkeys(names))
    if "all" in wanted:
        wanted = list(there)
    for name in wanted:
        if name not in there:
            listed = ", ".join(sorted(there))
            raise UnknownPluginError(f'hook plugin "{name}" does not exist; there are: {listed}')
    return HookRunner((name, _loaded(name, there[name])) for name in wanted)


def _loaded(name: str, loader: Callable[[], object]) -> object:
    try:
        return loader()
    except Exception as error:
        shown = f"{type(error).__name__}: {error}"
        raise PluginError(f'hook plugin "{name}" cannot be loaded: {shown}') from error
