import json
from typing import Any

import pytest
from koord_model.keys import ANNOTATION_RESOURCE_STATUS, BATCH_CPU
from koord_model.pod import Pod
from koord_model.resource_status import ResourceStatus, parse, resource_status


def pod(text: str) -> Pod:
    return Pod("db-0", "shop", "uid", annotations={ANNOTATION_RESOURCE_STATUS: text})


def node(number: int, **resources: object) -> dict[str, Any]:
    return {"node": number, "resources": resources}


def test_cpus_of_its_own() -> None:
    assert resource_status(pod('{"cpuset": "8,0-3"}')) == ResourceStatus("0-3,8")


@pytest.mark.parametrize("text", ["{}", "null", '{"cpuset": "", "numaNodeResources": null}'])
def test_nothing_decided(text: str) -> None:
    assert parse(text) == ResourceStatus()


def test_no_annotation() -> None:
    assert resource_status(Pod("p", "n", "u")) == ResourceStatus()


def test_one_node_with_cpu_makes_all_listed_nodes_count() -> None:
    nodes = [node(0, cpu="500m"), node(1, memory="1Gi")]
    assert parse(json.dumps({"numaNodeResources": nodes})).numa_nodes == {0, 1}


def test_batch_cpu_counts_as_cpu() -> None:
    nodes = [{"node": 1, "resources": {BATCH_CPU: 500}}]
    assert parse(json.dumps({"numaNodeResources": nodes})).numa_nodes == {1}


@pytest.mark.parametrize("resources", [None, {}, {"memory": "1Gi"}, {"cpu": "0"}, {"cpu": None}])
def test_a_placement_that_is_not_about_cpu_does_not_count(resources: object) -> None:
    text = json.dumps({"numaNodeResources": [{"node": 0, "resources": resources}]})
    assert parse(text).numa_nodes == frozenset()


@pytest.mark.parametrize(
    ("status", "problem"),
    [
        ({"cpuset": "all"}, '"all" is no CPU list'),
        ({"cpuset": 3}, "Expected `str | null`"),
        ({"cpuset": "0-99999999"}, "is no range of CPUs"),
        ({"numaNodeResources": [node(0, cpu="many")]}, '"many" is no quantity'),
        ({"numaNodeResources": [node(0, cpu="1"), node(1, cpu="many")]}, '"many" is no quantity'),
        ({"numaNodeResources": [node(4, cpu="-1")]}, "NUMA node 4: less than no CPU"),
        ({"numaNodeResources": [{"node": "0"}]}, "Expected `int`"),
        ({"numaNodeResources": [{"node": -1}]}, ">= 0"),
        ({"numaNodeResources": [{"node": 1 << 40}]}, "`int`"),
        ([], "Expected `object | null`"),
    ],
)
def test_values_that_cannot_be_are_named(status: object, problem: str) -> None:
    with pytest.raises(ValueError, match=r"^pod shop/db-0: annotation scheduling.koo") as caught:
        resource_status(pod(json.dumps(status)))
    assert problem in str(caught.value)
    assert "\n" not in str(caught.value)
