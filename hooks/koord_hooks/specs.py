"""The hook functions a plugin may have, all of them optional.

A hook is given frozen values and returns a ``Patch``, or ``None`` for "nothing
to change". It must not do IO, and what it returns must follow from its
arguments alone: the same plugin is asked by the CRI proxy, by NRI and by the
reconciler, and has to answer them all alike. The reconciler updates a pod that runs
with ``pre_run_pod_sandbox``, and its containers with ``pre_create_container``.

Input that cannot be used costs the field it is about: what remains is returned,
with a line in ``Patch.ignored``. Where nothing remains, raise ``ValueError`` with
the line.
"""

from __future__ import annotations

import pluggy
from koord_model.node import NodeView
from koord_model.node_slo import HostApplication
from koord_model.patch import NodePatch, Patch
from koord_model.pod import Container, Pod
from koord_model.qos import KubeQoS

PROJECT = "pykoord.hooks"

hookspec = pluggy.HookspecMarker(PROJECT)
hookimpl = pluggy.HookimplMarker(PROJECT)


class HookSpecs:
    """One function a stage or subject; ``koord_hooks.stages`` says when each is called."""

    @hookspec
    def pre_run_pod_sandbox(self, pod: Pod, view: NodeView) -> Patch | None:
        """Before the sandbox of a pod is made."""

    @hookspec
    def post_stop_pod_sandbox(self, pod: Pod, view: NodeView) -> Patch | None:
        """After the sandbox was asked to stop; what is returned changes nothing."""

    @hookspec
    def pre_remove_pod_sandbox(self, pod: Pod, view: NodeView) -> Patch | None:
        """Before a stopped sandbox is removed; what is returned changes nothing."""

    @hookspec
    def pre_create_container(self, container: Container, view: NodeView) -> Patch | None:
        """Before a container is made in its sandbox."""

    @hookspec
    def pre_start_container(self, container: Container, view: NodeView) -> Patch | None:
        """Before a made container starts; changes only what later hooks see."""

    @hookspec
    def post_start_container(self, container: Container, view: NodeView) -> Patch | None:
        """After a container was asked to start; what is returned changes nothing."""

    @hookspec
    def pre_update_container_resources(self, container: Container, view: NodeView) -> Patch | None:
        """Before the limits of a container change."""

    @hookspec
    def post_stop_container(self, container: Container, view: NodeView) -> Patch | None:
        """After a container was asked to stop; what is returned changes nothing."""

    @hookspec
    def reconcile_kube_qos(self, kube_qos: KubeQoS, view: NodeView) -> Patch | None:
        """Return the desired values of the cgroup above all pods of one of Kubernetes' classes."""

    @hookspec
    def reconcile_host_application(
        self, application: HostApplication, view: NodeView
    ) -> Patch | None:
        """Return the desired values of the cgroup of an application outside Kubernetes."""

    @hookspec
    def reconcile_node(self, pods: tuple[Pod, ...], view: NodeView) -> NodePatch | None:
        """Return the desired state of the node: sysctls, traffic classes, other agents' files."""
