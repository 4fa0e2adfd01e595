"""The contract of plugins. No IO.

Kubernetes asks a plugin about one pod and one node. Here it is asked once about a class of
pods, and answers with functions of rows: of thousands of nodes at once, or the few that changed.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Protocol, TypeVar

import numpy as np

from koord_scheduler.extension_points.kept_room import NO_ROOM, KeptRoom, Lacks
from koord_scheduler.extension_points.topology_hints import Mask as NUMAMask
from koord_scheduler.extension_points.topology_hints import TopologyHintProvider
from koord_scheduler.state.arrays import Amounts, Mask, Rows
from koord_scheduler.state.cluster_state import ClusterState
from koord_scheduler.state.pod_class import PodClass
from koord_scheduler.state.pod_usage import PodUsage
from koord_scheduler.state.resource_scores import MAX_SCORE as MAX_SCORE
from koord_scheduler.state.resources import Request
from koord_scheduler.state.usage_table import CountOf

if TYPE_CHECKING:
    from prometheus_client.registry import Collector

    from koord_scheduler.extension_points.api_services import ApiServices, Controller, PreBinding
    from koord_scheduler.framework.gang_planner import GangPlanner
    from koord_scheduler.state.placed_pods import PlacedPods

T = TypeVar("T")


Service = Callable[[Mapping[str, str]], Any]
"""A document, as plain data, for the parameters of a request: parts of its path and its query.

It is called between decisions, which wait for it. It raises LookupErrors with a line where there
is no such thing.
"""


class LookUp(Protocol):
    """A way to call a function between decisions, from any thread."""

    def __call__(self, find: Callable[[], T], /) -> T:
        """Call it, and return what it returns."""
        ...


Filter = Callable[[Rows], Mask]
"""Of each of these rows, whether a pod of the class can run there."""
Score = Callable[[Rows], Amounts]
"""Of each of these rows, how good it is: a whole number, 0 to 100 once it is normalized."""
RowFilter = Callable[[int], bool]
RowScore = Callable[[int], float]
"""The same of one row, in plain numbers: ten times as fast where only a few rows changed."""
Dependence = Callable[[], Hashable]
"""A value that becomes another when answers about rows do that did not change."""


class Shortage(NamedTuple):
    """Shortage of a resource on nodes, and their amounts, by row, as ``ResourceColumns``."""

    resource: str
    lacking: Amounts
    allocatable: Amounts


class Reason(NamedTuple):
    """A plugin's reason for rejecting nodes, in kube-scheduler's words.

    ``rows`` says of each row that the plugin was asked about whether the reason holds there. It is
    ``resolvable`` where it may hold no longer once other pods leave the node. ``note`` says why in
    numbers, for the place of one of the rows.
    """

    text: str
    rows: Mask
    resolvable: bool = True
    shortage: Shortage | None = None
    note: Callable[[int], str] | None = None


class PreFilterResult(NamedTuple):
    """A plugin's answer about a class before it looks at nodes.

    ``rejection`` says why the class can run nowhere. Otherwise only the nodes with the names
    ``nodes`` come into question, whatever becomes of these, or all where that is ``None``. The
    first of the ``preferred`` nodes that can have a pod gets it, whatever others score. ``cure``
    says what alone would end the rejection, where it is not what the plugin usually waits for.
    """

    rejection: str = ""
    resolvable: bool = False
    nodes: frozenset[str] | None = None
    preferred: tuple[str, ...] = ()
    cure: str = ""


ANOTHER_POD = "the pod made anew without what is wrong in it"
"""The ``cure`` where the pod itself is wrong."""


class CannotReserve(Exception):  # noqa: N818 - an outcome, not an error
    """A node cannot have a pod, which is seen only when it is to get it; says why."""


class Limit(NamedTuple):
    """A part of a filter, as a sum over the pods of a node that may not grow beyond some limit.

    ``room`` is, for some rows, how much more there may be; the filter lets through those where no
    room is negative. A pod that leaves a row gives ``of`` it back to the room of this row. It is
    -inf where that cannot help, inf where nothing can hurt.
    """

    of: CountOf
    room: Amounts


class VictimRules(NamedTuple):
    """Pods that a class may replace for a plugin, and the limits that must hold then.

    ``may_be`` says of what pods use whether they may be victims. ``limits`` are, for some rows,
    conditions beside those of filters, which victims may help to meet.
    """

    may_be: Callable[[PodUsage], bool]
    limits: Callable[[Rows], Sequence[Limit]]


class HeldRoom(Protocol):
    """Room that pods of a class may use though others hold it.

    Plugins are asked about the class as if these holders were not there.
    """

    def held(self, rows: Rows | None = None) -> Sequence[tuple[str, PodUsage]]:
        """The room with its nodes: of ``rows``, or of all."""
        ...

    def holders_on(self, node: str) -> Collection[str]:
        """The uids of the holders on a node."""
        ...

    def have_room(self, rows: Rows) -> Mask:
        """Return True for each of these rows that has such room."""
        ...

    def enough_candidates(self, nodes: int) -> float:
        """The number of rows with such room, of so many nodes, that preemption looks at."""
        ...


class AcrossNodes(Protocol):
    """A plugin's answer about a class that depends on all nodes; nothing of it is kept.

    One that keeps much itself, as counters of pods, has a ``size`` in bytes (``HasSize``).
    """

    def filter(self, rows: Rows) -> Mask | None:
        """Of each of these rows, whether a pod can run there; ``None`` if it can on all."""
        ...

    def reasons(self, rows: Rows) -> list[Reason]:
        """As ``Plugin.reasons``, for what ``filter`` rejects."""
        ...

    def score(self, rows: Rows) -> Amounts | None:
        """Scores from 0 to 100 of all nodes that are left; ``None`` if all are equally good."""
        ...


class Plugin:
    """One concern of placing pods; what a plugin does not override does not concern it.

    A filter and a score may depend on what ``ClusterState`` has of the row that they are asked
    about, and on nothing else, unless ``depends_on`` says so: rows that did not change are not
    asked about again.
    """

    name: ClassVar[str]
    normalizes: ClassVar[bool] = False
    """True if ``normalize`` does anything."""
    reason: ClassVar[str] = ""
    """Reason of ``filter``, of a plugin that has one reason for all rejections."""
    resolvable: ClassVar[bool] = True
    """``Reason.resolvable`` of that reason."""
    reads_labels: ClassVar[bool] = True
    """True if it looks at labels of waiting pods other than those that selectors name."""
    helped_by: ClassVar[str] = "what it waits for"
    """Changes that may end its rejections, for people: "nodes that are uncordoned"."""
    helped_by_nodes: ClassVar[str] = ""
    """The same where no pod that ends can help; "" if there is nothing else to say."""
    across_pods: ClassVar[bool] = True
    """True if ``across`` depends on pods' labels, or on their terms about each other."""
    serves_stand_ins: ClassVar[bool] = False
    """True if ``reserve`` is asked for objects, too, that wait as if they were pods."""

    def prepare(self, nodes: ClusterState) -> None:
        """Ask for the states that it needs (``nodes.use``), before there are nodes and pods."""

    def join(self, plugins: Sequence[Plugin]) -> None:
        """Find those it works with among all plugins of the profile, after ``prepare``."""

    def pre_filter(self, pod: PodClass, nodes: ClusterState) -> PreFilterResult:
        """Answer before nodes are looked at; ``filter`` rejects the same nodes.

        It changes how the rejection is worded and counted, as in kube-scheduler.
        """
        return PreFilterResult()

    def admit(self, pods: Sequence[PodClass], nodes: ClusterState) -> str:
        """Return why pods of these classes get no nodes at present, one each, on any nodes.

        "": they may get some. It is asked for each decision, as it may change with each pod, and
        apart from ``filter``, whose answers are kept. ``pre_filter`` has to say the same of a pod.
        """
        return ""

    def victims(self, pod: PodClass, nodes: ClusterState) -> VictimRules | None:
        """The pods whose place others of a class may take before any other pods; ``None``: none.

        It is asked of plugins that a profile enables at postFilter.
        """
        return None

    def filter(self, pod: PodClass, nodes: ClusterState) -> Filter | None:
        """Return the filter of nodes for pods of a class; ``None`` if there is none."""
        return None

    def least_room(self, pod: PodClass, nodes: ClusterState) -> Request:
        """Amounts of which ``filter`` rejects every node that has less of one free.

        What is held counts as free, and "" is a resource that no node has. It holds until
        ``nodes.backing.classes`` or ``nodes.resources.version`` are others. (): nothing can be
        said.
        """
        return ()

    def reasons(self, pod: PodClass, nodes: ClusterState, rows: Rows) -> list[Reason]:
        """Return the reasons of ``filter`` for the ``rows`` that it rejects, one or more each."""
        can_run = self.filter(pod, nodes)
        if can_run is None:
            return []
        text = self.reason or f"node(s) didn't satisfy plugin {self.name}"
        return [Reason(text, ~can_run(rows), self.resolvable)]

    def limits(
        self, pod: PodClass, nodes: ClusterState, rows: Rows, nominated: Sequence[PodUsage] = ()
    ) -> Sequence[Limit] | None:
        """The whole filter as limits; none of them: it does not depend on pods of the rows.

        They are also those that the filter has when ``nominated`` pods are on rows.
        ``None``: it cannot be said so; preemption then asks the filter again and again, while it
        takes pods off a row.
        """
        return None if self.resolvable else ()

    def score(self, pod: PodClass, nodes: ClusterState) -> Score | None:
        """Return the score function of a class; ``None`` if all nodes are equally good."""
        return None

    def filter_row(self, pod: PodClass, nodes: ClusterState) -> RowFilter | None:
        """``filter`` in plain numbers, for one row; ``None``: it is asked for that, too."""
        return None

    def score_row(self, pod: PodClass, nodes: ClusterState) -> RowScore | None:
        """``score`` in plain numbers, for one row; ``None``: it is asked for that, too."""
        return None

    def normalize(self, scores: Amounts) -> Amounts:
        """Scores from 0 to 100 of all nodes that are left, where they depend on each other."""
        return scores

    def across(self, pod: PodClass, nodes: ClusterState) -> AcrossNodes | None:
        """Return the part that depends on pods of other nodes, too; ``None`` if there is none."""
        return None

    def held_room(self, pod: PodClass, nodes: ClusterState) -> HeldRoom | None:
        """Room that others hold and pods of a class may use; ``None``: there never is any."""
        return None

    def topology_hints(self, pod: PodClass, nodes: ClusterState) -> TopologyHintProvider | None:
        """A provider of what a class gets of NUMA nodes beside amounts; ``None``: nothing."""
        return None

    def topology_affinity(self, pod: PodClass, nodes: ClusterState, row: int) -> NUMAMask | None:
        """The NUMA nodes of a row's node that are to provide for a pod; ``None``: any."""
        return None

    def kept_room(self, pod: PodClass, nodes: ClusterState, row: int) -> KeptRoom:
        """The room that is kept on a row's node for a pod that is to get it."""
        return NO_ROOM

    def kept_room_check(
        self, pod: PodClass, nodes: ClusterState, row: int, kept: Sequence[KeptRoom]
    ) -> Lacks | None:
        """A check of what else than amounts a row's node lacks with any of this; ``None``: nothing.

        ``nodes.lacks_pods`` says whether the columns are without all of it at present.
        """
        return None

    def post_filter(
        self,
        pod: PodClass,
        nodes: ClusterState,
        rows: Callable[[], Rows],
        waiting: Iterable[str],
    ) -> object | None:
        """Return the remedy to be written for a class that fits nowhere; ``None``: nothing.

        ``rows`` are those that no other plugin rejects, ``waiting`` the uids of the class's pods.
        """
        return None

    def reserve(self, pod: PodClass, nodes: ClusterState, row: int) -> object | None:
        """Take what a pod that gets this row's node needs of more than the node.

        It may have to be written before the pod is bound. ``None`` where there is nothing.

        Raises:
            CannotReserve: the node cannot have the pod, though ``filter`` lets it pass.
        """
        return None

    def usage(self, reservation: Any, pod: PodUsage) -> PodUsage:
        """Return a pod's usage of its node's columns with the result of ``reserve``."""
        return pod

    def unreserve(self, reservation: Any, nodes: ClusterState) -> None:
        """Give back what ``reserve`` returned: the pod did not get the node. It must not fail."""

    def group_planner(self, placed: PlacedPods) -> GangPlanner | None:
        """A planner of the parts of the cluster in which gangs are tried; ``None``: it plans none.

        That of the first profile counts; without any, gangs are tried everywhere.
        """
        return None

    def pre_binding(self, nodes: ClusterState, api: ApiServices) -> PreBinding | None:
        """The writes that what it reserves needs before a pod is bound; ``None``: none.

        What is reserved may have ``annotations``, pairs of key and text: they become the pod's.
        """
        return None

    def controllers(self, api: ApiServices) -> Iterable[Controller]:
        """Controllers of its objects in the API while this scheduler leads; by one profile."""
        return ()

    def collectors(self, nodes: ClusterState, look_up: LookUp) -> Iterable[Collector]:
        """Metrics of Prometheus; ``look_up`` calls a function between decisions."""
        return ()

    def services(self, nodes: ClusterState) -> Mapping[str, Service]:
        """Documents below ``/apis/v1/plugins/NAME``, by path; of the first profile alone.

        A part of a path that begins with ":" is a parameter: "/nodes/:node".
        """
        return {}

    def explain(self, pod: PodClass, nodes: ClusterState) -> Mapping[str, Any] | None:
        """Plain data about why ``admit`` keeps a class off all nodes; ``None``: it does not."""
        return None

    def sign(self, pod: PodClass) -> Hashable:
        """Return the parts of a class that ``filter`` and ``score`` read, if not pods or amounts.

        Classes for which that is equal share the answers, which are kept though pods come and go.
        A plugin that overrides it does so for all classes.
        """
        return None

    def depends_on(self, pod: PodClass, nodes: ClusterState) -> Dependence | None:
        """Return what else than its own row the answers about a row depend on; ``None``: nothing.

        It is asked once about a class, and what it returns before each look.
        """
        return None


def normalized(scores: Amounts, *, reverse: bool = False) -> Amounts:
    """The highest score becomes 100, the others in proportion; the other way round in ``reverse``.

    As Kubernetes' ``DefaultNormalizeScore``.
    """
    most = scores.max(initial=0.0)
    if most == 0:
        return np.full(len(scores), MAX_SCORE) if reverse else scores
    found: Amounts = np.floor(MAX_SCORE * scores / most)
    return MAX_SCORE - found if reverse else found


def first_reasons(reasons: Iterable[Reason]) -> list[Reason]:
    """For plugins that stop at the first reason: each row keeps only the first of its reasons."""
    found: list[Reason] = []
    explained: Mask | None = None
    for reason in reasons:
        explained = np.zeros(len(reason.rows), np.bool_) if explained is None else explained
        found.append(reason._replace(rows=reason.rows & ~explained))
        explained = explained | reason.rows
    return found


def without_reason(reasons: Iterable[Reason], rows: Rows) -> Mask:
    """Of each of these rows, whether none of the reasons holds there."""
    found = np.ones(len(rows), np.bool_)
    for reason in reasons:
        found &= ~reason.rows
    return found


def filter_by_reasons(plugin: Plugin, pod: PodClass, nodes: ClusterState) -> Filter:
    """The filter of a plugin whose ``reasons`` say all: it rejects where one of them holds."""

    def can_run(rows: Rows) -> Mask:
        return without_reason(plugin.reasons(pod, nodes, rows), rows)

    return can_run
