"""Containers are killed sooner or later when memory runs out, as their pod asks.

The sandbox keeps its runtime's score: it must outlive its containers. A container
that runs already gets a changed score through the reconciler; what annotations no
longer ask for stays as it is until the container starts anew.
"""

from __future__ import annotations

from koord_model.oom_score import oom_score_adj
from koord_model.patch import Patch
from koord_model.pod import Container
from koord_model.resources import LinuxResources

from koord_hooks.specs import hookimpl


@hookimpl
def pre_create_container(container: Container) -> Patch | None:
    if not container.name:
        return None  # the sandbox
    score, key, ignored = oom_score_adj(container)
    if score is None:
        return Patch(ignored=ignored) if ignored else None
    return Patch(
        resources=LinuxResources(oom_score_adj=score),
        why=f"{key} → oom_score_adj {score}",
        ignored=ignored,
    )
