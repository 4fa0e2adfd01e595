import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from koord_model.extended_resources import Amount, BatchResources, batch_resources, init_resources
from koord_model.keys import ANNOTATION_EXTENDED_RESOURCE_SPEC, BATCH_CPU, BATCH_MEMORY
from koord_model.pod import Pod


def pod(text: str) -> Pod:
    return Pod("job-1", "batch", "uid", annotations={ANNOTATION_EXTENDED_RESOURCE_SPEC: text})


@pytest.mark.parametrize(
    "text", ["{}", "null", '{"containers": null}', '{"containers": {}}', '{"other": 1}']
)
def test_a_pod_that_names_no_container_has_none(text: str) -> None:
    assert batch_resources(pod(text)) is None
    assert batch_resources(Pod("p", "n", "u")) is None


@pytest.mark.parametrize(
    ("limits", "problem"),
    [
        ({BATCH_CPU: "half"}, f'"main" limits {BATCH_CPU}: "half" is not a valid quantity'),
        ({BATCH_CPU: "-1"}, f'"main" limits {BATCH_CPU}: "-1" is out of range; expected 0 to'),
        ({BATCH_CPU: 10**12}, '"1000000000000" is out of range; expected 0 to 65536000'),
        ({BATCH_MEMORY: "1e99"}, f'limits {BATCH_MEMORY}: "1e99" is out of range'),
        ({BATCH_MEMORY: 10**40}, "out of range"),
        ({BATCH_MEMORY: "1e9999999"}, "is not a valid quantity"),
        ({BATCH_MEMORY: True}, "true is not a valid quantity"),
        ({BATCH_MEMORY: ["1Gi"]}, "a list is not a valid quantity"),
    ],
)
def test_an_amount_that_cannot_be_costs_only_itself(
    limits: dict[str, object], problem: str
) -> None:
    main = {"requests": {BATCH_CPU: 500}, "limits": {BATCH_CPU: 7, BATCH_MEMORY: 7} | limits}
    text = json.dumps({"containers": {"main": main, "other": {"requests": {BATCH_CPU: 1}}}})
    read = batch_resources(pod(text))
    assert read is not None
    [line] = read["main"].ignored
    assert line.startswith(f"pod batch/job-1: annotation {ANNOTATION_EXTENDED_RESOURCE_SPEC}: ")
    assert problem in line
    assert "\n" not in line
    assert read["main"].cpu_request == Amount(500, "500")
    [bad] = read["main"].unusable
    assert getattr(read["main"], bad) is None
    assert read["other"] == BatchResources(Amount(1, "1"))


@pytest.mark.parametrize("given", [{"limits": "1Gi"}, "1Gi", 3, []])
def test_a_container_of_another_shape_costs_only_itself(given: object) -> None:
    text = json.dumps({"containers": {"main": given, "other": {}}})
    read = batch_resources(pod(text))
    assert read is not None
    assert {"cpu_limit", "memory_limit"} <= read["main"].unusable
    assert all("is not an object (left out)" in line for line in read["main"].ignored)
    assert read["other"] == BatchResources()


@pytest.mark.parametrize("text", ["{", '{"containers": []}', "3", '{"containers": {"a": '])
def test_what_names_no_containers_is_one_line(text: str) -> None:
    with pytest.raises(ValueError, match=r"^pod batch/job-1: annotation node.koord") as caught:
        batch_resources(pod(text))
    assert "\n" not in str(caught.value)


@given(st.text() | st.recursive(st.none() | st.integers() | st.text(), st.lists).map(json.dumps))
def test_garbage_is_a_clear_error(text: str) -> None:
    problem = ""
    try:
        batch_resources(pod(text))
    except ValueError as error:
        problem = str(error)
    assert problem == "" or problem.startswith("pod batch/job-1: annotation ")
    assert "\n" not in problem


def test_init_containers_are_read_apart() -> None:
    text = json.dumps(
        {
            "containers": {"main": {"requests": {BATCH_CPU: "1"}}},
            "initContainers": {"first": {"requests": {BATCH_CPU: "2"}, "limits": 3}},
        }
    )
    assert set(batch_resources(pod(text)) or {}) == {"main"}
    first = init_resources(pod(text))["first"]
    assert first.cpu_request == Amount(2, "2")
    assert first.unusable == {"cpu_limit", "memory_limit"}
    assert first.ignored[0].startswith("pod batch/job-1: annotation node.koordinator.sh/extended")
    assert init_resources(pod('{"containers": {}}')) == {}
    assert init_resources(Pod("p", "n", "u")) == {}
