import json
from typing import Any

import pytest
from koord_model.keys import (
    ANNOTATION_BE_CPU_SHARED_POOLS,
    ANNOTATION_CPU_BASIC_INFO,
    ANNOTATION_CPU_MANAGER_POLICY,
    ANNOTATION_CPU_NORMALIZATION_RATIO,
    ANNOTATION_CPU_SHARED_POOLS,
    ANNOTATION_SYSTEM_QOS_RESOURCE,
)
from koord_model.node import SharedPool, Topology
from koord_model.node_document import cpu_basic_info, normalization_ratio, topology


def annotated(**annotations: Any) -> dict[str, Any]:
    return {"kind": "x", "metadata": {"annotations": annotations}}


def ratio(given: Any) -> dict[str, Any]:
    return annotated(**{ANNOTATION_CPU_NORMALIZATION_RATIO: given})


@pytest.mark.parametrize("document", [{}, {"metadata": None}, annotated()])
def test_a_node_that_says_nothing(document: dict[str, Any]) -> None:
    assert normalization_ratio(document) == (1.0, ())
    assert topology(document) == (Topology(), ())
    assert topology(document, be_cpu_manager=True)[0].be_shared_pools == ()


@pytest.mark.parametrize("given", ["fast", "", "0", "-1", "nan", "inf", "1e9", 1.2, None, []])
def test_a_ratio_that_cannot_be_is_one_line(given: Any) -> None:
    value, lines = normalization_ratio(ratio(given))
    assert value == 1.0
    if given is not None:
        [line] = lines
        assert line.startswith("Node metadata.annotations.node.koordinator.sh/cpu-normalization")
        assert line.endswith("expected a number above 0, up to 100 (default 1 kept)")


def pools(*listed: Any) -> str:
    return json.dumps(list(listed))


FULL = annotated(
    **{
        ANNOTATION_CPU_SHARED_POOLS: pools(
            {"socket": 0, "node": 0, "cpuset": "0,1,2"}, {"socket": 1, "node": 1}
        ),
        ANNOTATION_BE_CPU_SHARED_POOLS: pools({"socket": 0, "node": 0, "cpuset": "3"}),
        ANNOTATION_SYSTEM_QOS_RESOURCE: json.dumps({"cpuset": "6-7", "cpusetExclusive": True}),
        ANNOTATION_CPU_MANAGER_POLICY: json.dumps({"policy": "static", "reservedCPUs": "0"}),
    }
)


def test_a_pool_that_cannot_be_used_is_left_out_and_the_others_stay() -> None:
    listed = pools(
        {"node": 0, "cpuset": "0-1"},
        {"node": 1, "cpuset": "8"},
        {"node": "one", "cpuset": "2"},
        {"node": 1, "cpuset": "two"},
        7,
    )
    found, lines = topology(annotated(**{ANNOTATION_CPU_SHARED_POOLS: listed}), "0-7")
    assert found.shared_pools == (SharedPool(0, "0-1"),)
    begin = f"NodeResourceTopology annotation {ANNOTATION_CPU_SHARED_POOLS}: pools"
    assert lines == (
        f'{begin}[1].cpuset is "8"; expected a list of this node\'s CPUs (0-7) (pool left out)',
        f'{begin}[2].node is "one"; expected a NUMA node (pool left out)',
        f'{begin}[3].cpuset is "two"; expected a list of this node\'s CPUs (0-7) (pool left out)',
        f"{begin}[4] is 7; expected an object (left out)",
    )


@pytest.mark.parametrize(
    ("key", "given"),
    [
        (ANNOTATION_CPU_SHARED_POOLS, "{"),
        (ANNOTATION_CPU_SHARED_POOLS, "{}"),
        (ANNOTATION_SYSTEM_QOS_RESOURCE, '{"cpuset": "all"}'),
        (ANNOTATION_SYSTEM_QOS_RESOURCE, "[]"),
        (ANNOTATION_CPU_MANAGER_POLICY, '{"policy": 3}'),
        (ANNOTATION_CPU_MANAGER_POLICY, "\ud800"),
    ],
)
def test_an_annotation_that_cannot_be_used_costs_only_itself(key: str, given: str) -> None:
    document = annotated(**{**FULL["metadata"]["annotations"], key: given})
    found, [line] = topology(document)
    assert key in line
    assert "\n" not in line
    whole, _ = topology(FULL)
    same = [
        found.shared_pools == whole.shared_pools,
        found.system_cpuset == whole.system_cpuset,
        found.kubelet_policy == whole.kubelet_policy,
    ]
    assert sorted(same) == [False, True, True]


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        (None, 0),
        ('{"turboEnabled": true}', 0),
        ("{", 1),
        ('{"cpuModel": 3}', 1),
        ('{"cpuModel": "x", "turboEnabled": 1}', 1),
    ],
)
def test_a_make_of_cpus_that_is_not_known(text: str | None, lines: int) -> None:
    document = annotated(**({ANNOTATION_CPU_BASIC_INFO: text} if text else {}))
    found, ignored = cpu_basic_info(document)
    assert (found, len(ignored)) == (None, lines)
    assert all(ANNOTATION_CPU_BASIC_INFO in line for line in ignored)
