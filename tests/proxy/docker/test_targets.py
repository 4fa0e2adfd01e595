"""Targets: what dockerd would do, and what it is counted under.

What dockerd 20.10 and 28 execute was looked up by asking them.
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from koord_proxy.docker.targets import CREATE, REMOVE, START, STOP, UPDATE, look

# ---- what is intercepted


@pytest.mark.parametrize("version", ["", "/v1.24", "/v1.46", "/v2", "/%76%31.41"])
@pytest.mark.parametrize(
    ("target", "call"),
    [
        ("POST {}/containers/create", CREATE),
        ("POST {}/containers/create?name=x", CREATE),
        ("POST {}/containers/x/start", START),
        ("POST {}/containers/x/start?detachKeys=", START),
        ("POST {}/containers/x/update", UPDATE),
        ("POST {}/containers/x/stop?t=10", STOP),
        ("DELETE {}/containers/x", REMOVE),
        ("DELETE {}/containers/x?force=1&v=1", REMOVE),
        # Of these names dockerd knows nothing special here.
        ("POST {}/containers/create/start", START),
        ("POST {}/containers/start/start", START),
        ("DELETE {}/containers/create", REMOVE),
        ("DELETE {}/containers/prune", REMOVE),
        ("POST {}/containers/v1.2/start", START),
        ("DELETE {}/containers/v1.2", REMOVE),
        # A name may hold slashes: that of one that is linked to does.
        ("POST {}/containers/x/y/start", START),
        ("POST {}/containers/x/start/stop", STOP),
        ("DELETE {}/containers/x/y", REMOVE),
        ("DELETE {}/containers/x/", REMOVE),
        # Decoded first, then looked at.
        ("POST {}/containers/%63reate", CREATE),
        ("POST {}/c%6fntainers/create", CREATE),
        ("POST {}/containers%2Fcreate", CREATE),
        ("POST {}/containers/x%2fstart", START),
        ("POST {}/containers/x/st%61rt", START),
        ("POST {}/containers/%78/start", START),
        ("DELETE {}/containers/%78?force=1", REMOVE),
        # Not, or not by these.
        ("POST {}/containers/create/", ""),
        ("POST {}/containers/create/x", ""),
        ("POST {}/containers/created", ""),
        ("POST {}/containers/x/start/", ""),
        ("POST {}/containers/x/start/y", ""),
        ("POST {}/containers/x/start;y", ""),
        ("POST {}/containers/x/start#y", ""),
        ("POST {}/containers/x/start%0A", ""),
        ("POST {}/containers/x/start%3Fy", ""),
        ("POST {}/containers/x%0A/start", ""),
        ("POST {}/containers/x/restart", ""),
        ("POST {}/containers/x/Start", ""),
        ("POST {}/containers/start", ""),
        ("POST {}/containers/x", ""),
        ("POST {}/containers", ""),
        ("POST {}/containers/prune", ""),
        ("POST {}/Containers/create", ""),
        ("POST {}/images/create", ""),
        ("POST {}/exec/x/start", ""),
        ("POST {}/services/x/update", ""),
        ("POST {}/x/containers/create", ""),
        ("DELETE {}/containers/", ""),
        ("DELETE {}/containers", ""),
        ("DELETE {}/images/x", ""),
        ("GET {}/containers/create", ""),
        ("GET {}/containers/x/start", ""),
        ("PUT {}/containers/create", ""),
        ("HEAD {}/containers/x/stop", ""),
        ("post {}/containers/create", ""),
        ("delete {}/containers/x", ""),
        ("DELETED {}/containers/x", ""),
        *(
            (f"POST {{}}/containers/x/{action}", "")
            for action in ("kill", "wait", "rename", "attach", "resize", "exec", "pause", "copy")
        ),
        # Redirected from.
        ("POST /{}/containers/create", ""),
        ("POST {}//containers/create", ""),
        ("POST {}/containers//create", ""),
        ("POST {}/./containers/create", ""),
        ("POST {}/containers/../containers/create", ""),
        ("POST {}/containers//x/start", ""),
        ("POST {}/containers/%2Fx/start", ""),
        ("POST {}/containers/x//start", ""),
        ("POST {}/containers/../start", ""),
        ("POST {}/containers/%2e/start", ""),
        ("DELETE {}/containers//x", ""),
        ("DELETE {}/containers/..", ""),
        ("DELETE {}/containers/x/.", ""),
    ],
)
def test_intercepted_is_what_dockerd_would_do(version: str, target: str, call: str) -> None:
    if target.startswith("POST /{}") and not version:
        target = "POST /{}/containers/create"
    assert look(target.format(version)).call == call


@pytest.mark.parametrize(
    ("target", "call"),
    [
        ("POST http://docker/v1.41/containers/create?name=x", CREATE),
        ("POST HTTP://docker:2375/containers/x/start", START),
        ("DELETE http:///containers/x", REMOVE),
        ("POST http://docker", ""),
        ("POST http://docker/containers//create", ""),
        ("POST http://docker?/containers/create", ""),
        ("POST /http://docker/containers/create", ""),
        ("POST /V1.41/containers/create", ""),
        ("POST /v/containers/create", ""),
        ("POST /v1.41x/containers/create", ""),
        ("POST /v1.41/v1.41/containers/create", ""),
        ("POST /v1.41", ""),
        ("POST /?/containers/create", ""),
        ("POST /", ""),
        ("OPTIONS *", ""),
        ("CONNECT docker:80", ""),
        ("POST", ""),
        ("", ""),
    ],
)
def test_targets_of_other_forms(target: str, call: str) -> None:
    assert look(target).call == call


# ---- what it is counted under


@pytest.mark.parametrize(
    ("target", "label"),
    [
        ("POST /v1.46/containers/create?name=x", "POST /containers/create"),
        ("POST /containers/x/start", "POST /containers/{id}/start"),
        ("POST /v1.46/containers/a/b/start", "POST /containers/{id}/start"),
        ("GET /containers/x/attach/ws", "GET /containers/{id}/ws"),
        ("GET /v1.46/containers/x/json?size=1", "GET /containers/{id}/json"),
        ("GET /containers/json?all=1", "GET /containers/json"),
        ("DELETE /v1.46/containers/x?force=1", "DELETE /containers/{id}"),
        ("POST /containers/x/anything", "POST /containers/{id}"),
        ("POST /containers/prune", "POST /containers/prune"),
        ("POST /exec/x/start", "POST /exec/{id}/start"),
        ("GET /exec/x/json", "GET /exec/{id}/json"),
        ("GET /containers", "GET /containers"),
        ("GET /v1.46/images/registry.k8s.io/pause:3.10/json", "GET /images"),
        ("POST /v1.46/images/create?fromImage=x", "POST /images"),
        ("HEAD /_ping", "HEAD /_ping"),
        ("GET /v1.46/events", "GET /events"),
        ("POST http://docker/v1.46/build", "POST /build"),
        ("GET /containers//json", "other"),
        ("GET /containers/../json", "other"),
        ("GET /nothing/of/that/kind", "other"),
        ("GET /containersx", "other"),
        ("BREW /containers/x/json", "other"),
        ("GET /", "other"),
        ("OPTIONS *", "other"),
        ("", "other"),
    ],
)
def test_label(target: str, label: str) -> None:
    assert look(target).label == label


COLLECTIONS, PLACES = ["containers", "exec", "images"], ["create", "json", "start", "stop", "ws"]
WORDS = [*COLLECTIONS, *PLACES, "v1.46", "v2", "x", "..", ".", "%2F", "{id}", "POST", "http:", "?"]


@given(
    st.sampled_from(["GET", "POST", "DELETE", "X"]),
    st.lists(st.sampled_from(WORDS) | st.text(max_size=5)),
)
def test_labels_are_few(method: str, words: list[str]) -> None:
    target = f"{method} /{'/'.join(words)}"
    label = look(target).label
    assert label == "other" or 2 <= len(label.replace("/", " ").split()) <= 4
    words_of_labels = {"GET", "POST", "DELETE", "other", "{id}", *COLLECTIONS, *PLACES}
    assert words_of_labels.issuperset(label.replace("/", " ").split())
    # Whatever is intercepted has a label of its own.
    if look(target).call:
        assert "/containers/" in label
