"""Random Kubernetes clusters as plain JSON, for schedulers; see ``random_cluster``.

``selectors`` has labels and what selects them, ``resources`` containers, ``nodes`` and
``pods`` what their names say, ``volumes`` claims and disks, ``functions`` the inputs of
functions that plugins share, ``loads`` and ``requests`` what Koordinator's plugins read,
``workloads`` what pods belong to, ``preemption`` full clusters.
"""

from tests.support.clusters.cluster import random_cluster
from tests.support.clusters.functions import random_function_input
from tests.support.clusters.preemption import random_preemption
from tests.support.clusters.workloads import random_workloads

__all__ = ["random_cluster", "random_function_input", "random_preemption", "random_workloads"]
