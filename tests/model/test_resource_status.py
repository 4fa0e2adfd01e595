import json
from typing import Any

import pytest
from koord_model.keys import ANNOTATION_RESOURCE_STATUS
from koord_model.pod import Pod
from koord_model.resource_status import ResourceStatus, parse, resource_status


def pod(text: str) -> Pod:
    return Pod("db-0", "shop", "uid", annotations={ANNOTATION_RESOURCE_STATUS: text})


def node(number: int, **resources: object) -> dict[str, Any]:
    return {"node": number, "resources": resources}


@pytest.mark.parametrize("text", ["{}", "null", '{"cpuset": "", "numaNodeResources": null}'])
def test_nothing_decided(text: str) -> None:
    assert parse(text) == ResourceStatus()


@pytest.mark.parametrize(
    ("status", "problem"),
    [
        ({"cpuset": "all"}, '"all" is not a valid CPU list'),
        ({"cpuset": 3}, "Expected `str | null`"),
        ({"cpuset": "0-99999999"}, "is not a valid range of CPUs"),
        ({"numaNodeResources": [node(0, cpu="many")]}, '"many" is not a valid quantity'),
        (
            {"numaNodeResources": [node(0, cpu="1"), node(1, cpu="many")]},
            '"many" is not a valid quantity',
        ),
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
