"""Names, labels and cgroup parents, as cri-dockerd makes them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from koord_proxy.docker.naming import (
    Name,
    docker_parent,
    expanded_parent,
    kind_of,
    parse_name,
    split_labels,
)
from koord_proxy.rules.records import RecordKind

SLICE = "kubepods-besteffort-pod1_2.slice"
PATH = f"/kubepods.slice/kubepods-besteffort.slice/{SLICE}"
CGROUPFS = "/kubepods/besteffort/pod1-2"


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("k8s_main_web_default_u-1_3", Name("main", "web", "default", "u-1", 3)),
        ("/k8s_POD_web_default_u-1_0", Name("POD", "web", "default", "u-1", 0)),
        ("k8s_main_web_default_u-1_3_0badcafe", Name("main", "web", "default", "u-1", 3)),
        # cri-dockerd reads what strconv.ParseUint does.
        ("k8s_a_b_c_d_4294967295", Name("a", "b", "c", "d", 4294967295)),
        ("k8s_a_b_c_d_007", Name("a", "b", "c", "d", 7)),
        ("k8s_a_b_c_d_" + "0" * 5000 + "1", Name("a", "b", "c", "d", 1)),
        # crictl's pods need have no uid.
        ("k8s_a_b_c__0", Name("a", "b", "c", "", 0)),
        ("k8s_a_b_c_d_4294967296", None),
        ("k8s_a_b_c_d_99999999999", None),
        ("k8s_a_b_c_d_" + "9" * 5000, None),
        ("k8s_a_b_c_d_-1", None),
        ("k8s_a_b_c_d_+1", None),
        ("k8s_a_b_c_d_1 ", None),
        ("k8s_a_b_c_d_1\n", None),
        ("k8s_a_b_c_d_²", None),
        ("k8s_a_b_c_d_", None),
        ("k8s_a_b_c_d", None),
        ("k8s_a_b_c_d_1_x_y", None),
        ("k8s_foo", None),
        ("k8s", None),
        ("K8S_a_b_c_d_1", None),
        ("my_a_b_c_d_1", None),
        ("//k8s_a_b_c_d_1", None),
        ("/link/k8s_a_b_c_d_1", None),
        ("", None),
    ],
)
def test_names(name: str, expected: Name | None) -> None:
    assert parse_name(name) == expected


WORD = st.text().filter(lambda word: "_" not in word)


@given(WORD, WORD, WORD, WORD, st.integers(0, 2**32 - 1), st.sampled_from(("", "_0badcafe")))
def test_any_name_is_read_back(
    container: str, pod: str, namespace: str, uid: str, attempt: int, suffix: str
) -> None:
    name = f"/k8s_{container}_{pod}_{namespace}_{uid}_{attempt}{suffix}"
    assert parse_name(name) == (container, pod, namespace, uid, attempt)


@pytest.mark.parametrize(
    ("labels", "kind"),
    [
        ({"io.kubernetes.docker.type": "podsandbox"}, RecordKind.POD),
        ({"io.kubernetes.docker.type": "container"}, RecordKind.CONTAINER),
        ({"io.kubernetes.docker.type": "Container"}, None),
        ({"io.kubernetes.docker.type": ""}, None),
        ({"io.kubernetes.sandbox.id": "s"}, None),
        ({}, None),
    ],
)
def test_kinds(labels: dict[str, str], kind: RecordKind | None) -> None:
    assert kind_of(labels) == kind


def test_labels_and_annotations() -> None:
    labels = {"annotation.a/b": "1", "annotation.annotation.c": "2", "annotationd": "3", "e": ""}
    assert split_labels(labels) == (
        {"annotationd": "3", "e": ""},
        {"a/b": "1", "annotation.c": "2"},
    )


@pytest.mark.parametrize(
    ("docker", "hooks"),
    [
        (SLICE, PATH),
        ("kubepods.slice", "/kubepods.slice"),
        ("-.slice", "/"),
        (CGROUPFS, CGROUPFS),
        ("kubepods", "kubepods"),
        ("", ""),
        # With a slash it is a path already, whatever its end.
        (PATH, PATH),
        ("/x-y.slice", "/x-y.slice"),
        # What systemd would not take is passed on as it is.
        (".slice", ".slice"),
        ("a--b.slice", "a--b.slice"),
        ("-a.slice", "-a.slice"),
        ("a-.slice", "a-.slice"),
    ],
)
def test_parents_as_hooks_see_them(docker: str, hooks: str) -> None:
    assert expanded_parent(docker) == hooks


@pytest.mark.parametrize(
    ("wanted", "given", "expected"),
    [
        ("/kubepods.slice/kubepods-x.slice", SLICE, "kubepods-x.slice"),
        ("kubepods-x.slice", SLICE, "kubepods-x.slice"),
        ("/kubepods.slice/", SLICE, "kubepods.slice"),
        ("/", SLICE, "-.slice"),
        # Docker refuses it and says why.
        ("/kubepods/x", SLICE, "x"),
        ("/kubepods/x", CGROUPFS, "/kubepods/x"),
        ("/a.slice/a-b.slice", CGROUPFS, "/a.slice/a-b.slice"),
        ("/kubepods/x", "", "/kubepods/x"),
        ("/a.slice/a-b.slice", "", "a-b.slice"),
    ],
)
def test_parents_as_docker_takes_them(wanted: str, given: str, expected: str) -> None:
    assert docker_parent(wanted, given) == expected


@given(st.lists(st.from_regex(r"[a-z0-9_]+", fullmatch=True), min_size=1).map("-".join))
def test_any_slice_goes_there_and_back(name: str) -> None:
    path = expanded_parent(f"{name}.slice")
    assert path.startswith("/")
    assert path.count("/") == name.count("-") + 1
    assert docker_parent(path, "any.slice") == f"{name}.slice"
