import pytest
from koord_manager.program.gates import DEFAULTS
from koord_manager.webhooks.cluster_view import ClusterView
from koord_manager.webhooks.table import TABLE
from koord_serving.admission.core.admission import ADMITTED, AdmissionOperation, AdmissionRequest
from koord_serving.admission.core.configurations import (
    FRAMEWORK,
    WebhookClientConfig,
    WebhookDefinition,
    configurations,
    served,
)

ALL = dict.fromkeys(DEFAULTS, True)
WHERE = WebhookClientConfig(namespace="koordinator-system")


def test_by_default_pods_are_looked_at_and_nothing_else() -> None:
    assert {row.path for row in served(TABLE, DEFAULTS)} == {"/mutate-pod", "/validate-pod"}
    assert {FRAMEWORK, *(row.gate for row in TABLE)} <= DEFAULTS.keys()
    assert len({row.name for row in TABLE}) == len(TABLE)
    handlers = {(row.path, row.handler) for row in TABLE}
    assert len(handlers) == len({path for path, _ in handlers}), "a path is one function"


def test_webhooks_as_koordinator_lists_them() -> None:
    listed = [
        (one["name"], one["failurePolicy"], *one["rules"][0]["operations"])
        for document in configurations(TABLE, ALL, WHERE)
        for one in document["webhooks"]
    ]
    assert listed == [
        ("mpod-create.koordinator.sh", "Fail", "CREATE"),
        ("mreservation-create.koordinator.sh", "Fail", "CREATE"),
        ("mnode-status.koordinator.sh", "Ignore", "UPDATE"),
        ("vpod.koordinator.sh", "Fail", "CREATE", "UPDATE"),
        ("vnode.koordinator.sh", "Ignore", "CREATE", "UPDATE"),
        ("vconfigmap.koordinator.sh", "Fail", "CREATE", "UPDATE", "DELETE"),
    ]
    _, validating = configurations(TABLE, ALL, WHERE)
    assert validating["webhooks"][0]["rules"][0]["resources"] == ["pods", "pods/resize"]


@pytest.mark.parametrize("row", TABLE, ids=lambda row: row.name)
def test_a_plain_object_is_admitted(row: WebhookDefinition) -> None:
    resource, _, subresource = row.resource.partition("/")
    spec = {"containers": [{"name": "main", "image": "x"}]}
    plain = {"metadata": {"name": "x", "namespace": "team"}, "spec": spec}
    for operation in row.operations:
        given = {} if operation is AdmissionOperation.DELETE else plain
        question = AdmissionRequest(
            "u", operation, resource, row.group, subresource, "team", "x", object=given, old=given
        )
        assert row.handler(question, ClusterView(gates=DEFAULTS)) == ADMITTED
