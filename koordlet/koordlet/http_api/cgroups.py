"""Present values of a pod's cgroups, knob by knob, beside those that koordlet desires."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from koord_host.kernel_files.interface import FileReader
from koord_host.knobs.forms import Value
from koord_host.knobs.layout import Layout
from koord_host.knobs.table import KNOBS
from koord_host.planning.arbiter import ArbitratedValue
from koord_host.planning.desired_values import Target
from koord_host.resource_executor.writer import decoded

from koordlet.http_api.documents.node import Document
from koordlet.runtime_hooks.reconciler.desired_state import KNOB_OF
from koordlet.states_informer.state.cgroup_paths import container_group
from koordlet.states_informer.state.pod_inventory import PodRecord

Desired = Callable[[str], Sequence[tuple[str, ArbitratedValue]]]
"""Function that returns the desired values of a cgroup's knobs, by name."""


def cgroup_documents(
    record: PodRecord, layout: Layout, reader: FileReader, desired: Desired
) -> list[Document]:
    """The pod's own cgroup, and those of its containers; one that is not there has no knobs."""
    own = layout.group_of_parent(record.pod.cgroup_parent)
    groups = [(own, "")]
    groups += [
        (container_group(record, container, layout), container.name)
        for container in record.containers.values()
    ]
    return [
        {
            "pod": record.pod.full_name,
            "container": container,
            "group": group,
            "knobs": list(_knobs(group, layout, reader, dict(desired(group)))),
        }
        for group, container in groups
    ]


def _knobs(
    group: str, layout: Layout, reader: FileReader, desired: dict[str, ArbitratedValue]
) -> Iterator[Document]:
    """Describe the runtime's knobs that the kernel has, and the desired ones."""
    for knob in dict.fromkeys((*KNOB_OF.values(), *desired)):
        value, problem = _read(knob, group, layout, reader)
        wanted = desired.get(knob)
        if wanted is None and problem:
            continue
        yield {
            "knob": knob,
            "value": value,
            "problem": problem,
            "desired": wanted.value if wanted else None,
            "owner": wanted.owner if wanted else "",
            "why": wanted.why if wanted else "",
            "conflict": str(wanted.conflict) if wanted and wanted.conflict else "",
        }


def _read(knob: str, group: str, layout: Layout, reader: FileReader) -> tuple[Value | None, str]:
    """Read a knob's value, or the reason why it is not known."""
    path = layout.path(KNOBS[knob], group)
    if not path:
        return None, "no such knob in this version of cgroups"
    try:
        text = reader.read(path)
    except OSError as error:
        return None, error.strerror or str(error)
    value = decoded(layout, Target(group, knob), text)
    return value, "" if value is not None else "not understood"
