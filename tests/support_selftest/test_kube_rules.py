"""Rules of writes that our programs rely on, as the double has them and as a real server has them.

Whoever gives another ``ask`` holds another server to them.
"""

from __future__ import annotations

from typing import Any

import pytest
from koord_kube.protocol.resources import CONFIG_MAPS, LEASES, NODES, Resource

from tests.support.kube_asking import Asking
from tests.support_selftest.kube_clients import node
from tests.support_selftest.notes import NOTES, note

__all__ = ["TestDeletions", "TestRefusals", "TestWrites"]

ALL = NOTES.path()
ONE = NOTES.path("n1")
STATUS = NOTES.path("n1", subresource="status")
JSON_PATCH = "application/json-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
LEASE: Any = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "l"}}


class TestWrites:
    async def test_creating_what_is_there_is_a_conflict(self, ask: Asking) -> None:
        made = await ask("POST", ALL, note())
        assert (made.status, made.said["metadata"]["generation"]) == (201, 1)
        refused = await ask("POST", ALL, note())
        assert refused.refusal == (409, "AlreadyExists")
        assert refused.message == 'notes.example.org "n1" already exists'
        assert refused.said["details"] == {"name": "n1", "group": "example.org", "kind": "notes"}

    async def test_creating_makes_no_status(self, ask: Asking) -> None:
        made = await ask("POST", ALL, note(status={"b": 2}))
        assert "status" not in made.said

    @pytest.mark.parametrize("path", [ONE, STATUS])
    async def test_replacing_what_has_changed_since(self, ask: Asking, path: str) -> None:
        made = (await ask("POST", ALL, note(spec={"a": 1}))).said
        assert (await ask("PUT", path, made | {"spec": {"a": 2}, "status": {"b": 1}})).status == 200
        refused = await ask("PUT", path, made | {"spec": {"a": 3}, "status": {"b": 2}})
        assert refused.refusal == (409, "Conflict")
        assert refused.message == (
            'Operation cannot be fulfilled on notes.example.org "n1": the object has been '
            "modified; please apply your changes to the latest version and try again"
        )

    async def test_replacing_a_custom_object_needs_its_version(self, ask: Asking) -> None:
        await ask("POST", ALL, note())
        refused = await ask("PUT", ONE, note())
        assert (refused.refusal, refused.causes) == (
            (422, "Invalid"),
            ["metadata.resourceVersion"],
        )
        assert refused.message == (
            'notes.example.org "n1" is invalid: metadata.resourceVersion: Invalid value: 0: '
            "must be specified for an update"
        )

    async def test_replacing_another_one(self, ask: Asking) -> None:
        made = (await ask("POST", ALL, note())).said
        wrong = {**made, "metadata": made["metadata"] | {"uid": "other"}}
        refused = await ask("PUT", ONE, wrong)
        assert refused.refusal == (409, "Conflict")
        assert "Precondition failed: UID in precondition: other" in refused.message

    async def test_a_node_needs_none(self, ask: Asking) -> None:
        await ask("POST", NODES.path(), node("n1"))
        replaced = await ask("PUT", NODES.path("n1"), node("n1", a="b"))
        assert replaced.said["metadata"]["labels"] == {"a": "b"}

    async def test_a_lease_needs_one_and_is_made_by_none(self, ask: Asking) -> None:
        path = LEASES.path("l", "default")
        assert (await ask("POST", LEASES.path("", "default"), LEASE)).status == 201
        assert (await ask("PUT", path, LEASE)).refusal == (422, "Invalid")

    @pytest.mark.parametrize(
        ("path", "spec", "status", "generation"),
        [(ONE, {"a": 5}, {"b": 1}, 2), (STATUS, {"a": 1}, {"b": 6}, 1)],
    )
    async def test_the_status_is_a_thing_of_its_own(
        self, ask: Asking, path: str, spec: Any, status: Any, generation: int
    ) -> None:
        await ask.put(NOTES, note(spec={"a": 1}, status={"b": 1}))
        done = await ask("PATCH", path, {"spec": {"a": 5}, "status": {"b": 6}})
        kept = await ask.get(NOTES, "n1")
        assert (done.status, kept["spec"], kept["status"]) == (200, spec, status)
        assert kept["metadata"]["generation"] == generation

    @pytest.mark.parametrize(("path", "kept"), [(ONE, {"x": "y"}), (STATUS, None)])
    async def test_labels_of_a_custom_object_are_not_of_its_status(
        self, ask: Asking, path: str, kept: Any
    ) -> None:
        await ask("POST", ALL, note())
        await ask("PATCH", path, {"metadata": {"labels": {"x": "y"}}})
        assert (await ask.get(NOTES, "n1"))["metadata"].get("labels") == kept

    async def test_null_in_a_patch_removes(self, ask: Asking) -> None:
        await ask.put(NOTES, note(status={"b": 1, "c": {"d": 1, "e": 2}}))
        await ask("PATCH", STATUS, {"status": {"b": None, "c": {"d": None}}})
        assert (await ask.get(NOTES, "n1"))["status"] == {"c": {"e": 2}}

    async def test_what_changes_nothing_is_no_change(self, ask: Asking) -> None:
        before = await ask.put(NOTES, note(spec={"a": 1}))
        assert (await ask("PATCH", ONE, {"spec": {"a": 1}})).said == before
        assert (await ask("PUT", ONE, before)).said == before

    async def test_a_version_in_a_patch_is_a_condition(self, ask: Asking) -> None:
        old = (await ask("POST", ALL, note())).said["metadata"]["resourceVersion"]
        body = {"metadata": {"resourceVersion": old}, "spec": {"a": 1}}
        assert (await ask("PATCH", ONE, body)).status == 200
        assert (await ask("PATCH", ONE, body | {"spec": {"a": 2}})).refusal == (409, "Conflict")

    async def test_json_patches(self, ask: Asking) -> None:
        await ask("POST", ALL, note(spec={"a": 1}))
        good = [
            {"op": "test", "path": "/spec/a", "value": 1},
            {"op": "add", "path": "/spec/b", "value": 2},
        ]
        assert (await ask("PATCH", ONE, good, JSON_PATCH)).said["spec"] == {"a": 1, "b": 2}
        bad = [{"op": "test", "path": "/spec/a", "value": 2}]
        assert (await ask("PATCH", ONE, bad, JSON_PATCH)).refusal == (422, "Invalid")
        bad = [{"op": "remove", "path": "/spec/c"}]
        assert (await ask("PATCH", ONE, bad, JSON_PATCH)).refusal == (422, "Invalid")

    async def test_strategic_patches(self, ask: Asking) -> None:
        path = NODES.path("n1", subresource="status")
        made = node("n1") | {"status": {"conditions": [{"type": "Ready", "status": "True"}]}}
        await ask.put(NODES, made)
        for new in ({"type": "New", "status": "True"}, {"type": "Ready", "$patch": "delete"}):
            await ask("PATCH", path, {"status": {"conditions": [new]}}, STRATEGIC)
        found = (await ask.get(NODES, "n1"))["status"]["conditions"]
        assert [one["type"] for one in found] == ["New"]

    async def test_names_are_made(self, ask: Asking) -> None:
        body = note() | {"metadata": {"generateName": "web-"}}
        made = [(await ask("POST", ALL, body)).said["metadata"]["name"] for _ in range(2)]
        assert len({*made}) == 2
        assert all(one.startswith("web-") and len(one) == 9 for one in made)

    async def test_a_dry_run_keeps_nothing(self, ask: Asking) -> None:
        made = await ask("POST", ALL, note(), dryRun="All")
        assert made.status == 201
        assert made.said["metadata"]["uid"]
        assert (await ask("GET", ONE)).status == 404
        before = await ask.put(NOTES, note(spec={"a": 1}))
        changed = await ask("PATCH", ONE, {"spec": {"a": 2}}, dryRun="All")
        assert changed.said["spec"] == {"a": 2}
        assert (await ask("DELETE", ONE, dryRun="All")).status == 200
        assert await ask.get(NOTES, "n1") == before
        refused = await ask("DELETE", ONE, dryRun="Some")
        assert (refused.refusal, refused.causes) == ((422, "Invalid"), ["dryRun"])

    async def test_amounts_are_written_in_their_short_form(self, ask: Asking) -> None:
        path = NODES.path("n1", subresource="status")
        await ask("POST", NODES.path(), node("n1"))
        amounts = {"cpu": "4000m", "memory": "1024Mi", "kubernetes.io/batch-cpu": "2000"}
        await ask("PATCH", path, {"status": {"allocatable": amounts}})
        kept = (await ask.get(NODES, "n1"))["status"]["allocatable"]
        assert kept == {"cpu": "4", "memory": "1Gi", "kubernetes.io/batch-cpu": "2k"}
        name = "kubernetes.io/batch-cpu"
        for wrong, field in (("x", "patch"), ("-1", f"status.allocatable.{name}")):
            refused = await ask("PATCH", path, {"status": {"allocatable": {name: wrong}}})
            assert (refused.refusal, refused.causes) == ((422, "Invalid"), [field])
        unread = {"status": {"allocatable": {name: "x"}}}
        assert (await ask("POST", NODES.path(), node("n2") | unread)).status == 400


class TestDeletions:
    async def test_what_is_answered(self, ask: Asking) -> None:
        made = (await ask("POST", ALL, note())).said
        done = await ask("DELETE", ONE)
        about = {"name": "n1", "group": "example.org", "kind": "notes"}
        assert (done.status, done.said["status"]) == (200, "Success")
        assert done.said["details"] == about | {"uid": made["metadata"]["uid"]}
        again = await ask("DELETE", ONE)
        assert (again.refusal, again.said["details"]) == ((404, "NotFound"), about)

    @pytest.mark.parametrize(
        ("field", "word", "what"),
        [
            ("uid", "UID", "deleted and then recreated"),
            ("resourceVersion", "ResourceVersion", "modified"),
        ],
    )
    async def test_preconditions(self, ask: Asking, field: str, word: str, what: str) -> None:
        meta = (await ask("POST", ALL, note())).said["metadata"]
        options: Any = {"apiVersion": "v1", "kind": "DeleteOptions"}
        refused = await ask("DELETE", ONE, options | {"preconditions": {field: "1"}})
        assert refused.refusal == (409, "Conflict")
        assert refused.message == (
            f'Operation cannot be fulfilled on Note.example.org "n1": the {word} in the '
            f"precondition (1) does not match the {word} in record ({meta[field]}). The object "
            f"might have been {what}"
        )
        good = {one: meta[one] for one in ("uid", "resourceVersion")}
        assert (await ask("DELETE", ONE, options | {"preconditions": good})).status == 200

    async def test_finalizers_hold_it(self, ask: Asking) -> None:
        await ask("POST", ALL, note(metadata={"finalizers": ["a.b/c"]}))
        held = await ask("DELETE", ONE)
        assert (held.status, held.said["kind"]) == (200, "Note")
        assert held.said["metadata"]["deletionGracePeriodSeconds"] == 0
        assert "deletionTimestamp" in held.said["metadata"]
        more = {"metadata": {"finalizers": ["a.b/c", "d.e/f"]}}
        refused = await ask("PATCH", ONE, more)
        assert refused.refusal == (422, "Invalid")
        assert {*refused.causes} == {"metadata.finalizers"}
        assert (await ask("PATCH", ONE, {"metadata": {"finalizers": None}})).status == 200
        assert (await ask("GET", ONE)).status == 404

    async def test_all_that_are_selected(self, ask: Asking) -> None:
        for name, zone in (("a", "1"), ("b", "2"), ("c", "1")):
            await ask("POST", ALL, note(name, metadata={"labels": {"zone": zone}}))
        assert (await ask("DELETE", ALL, labelSelector="zone=1")).status == 200
        left = (await ask("GET", ALL)).said["items"]
        assert [one["metadata"]["name"] for one in left] == ["b"]


class TestRefusals:
    @pytest.mark.parametrize(
        ("method", "path", "body", "kind", "refusal"),
        [
            ("GET", ONE, None, "", (404, "NotFound")),
            ("PATCH", ONE, {}, "", (404, "NotFound")),
            ("PUT", ONE, note(), "", (404, "NotFound")),
            ("PATCH", ONE, {}, STRATEGIC, (415, "UnsupportedMediaType")),
            ("POST", ALL, note() | {"kind": "Other"}, "", (422, "Invalid")),
            ("POST", ALL, note() | {"kind": ""}, "", (400, "BadRequest")),
            ("POST", ALL, note() | {"apiVersion": "v1"}, "", (400, "BadRequest")),
            ("POST", NODES.path(), node("n1") | {"kind": "Other"}, "", (400, "BadRequest")),
            ("POST", ALL, note() | {"metadata": {}}, "", (422, "Invalid")),
            ("POST", ALL, note("Upper"), "", (422, "Invalid")),
            ("POST", ALL, note(metadata={"labels": {"a": "no label"}}), "", (422, "Invalid")),
            ("POST", ALL, note(metadata={"labels": {"/": ""}}), "", (422, "Invalid")),
            ("POST", ALL, note(metadata={"labels": {"a": 1}}), "", (400, "BadRequest")),
            ("POST", ALL, note(metadata={"resourceVersion": "1"}), "", (500, "")),
            ("POST", NODES.path("n1"), node("n1"), "", (405, "MethodNotAllowed")),
            ("PUT", NODES.path(), node("n1"), "", (405, "MethodNotAllowed")),
            ("GET", NODES.path("n1"), None, "", (404, "NotFound")),
            ("POST", LEASES.path("", "default"), LEASE | {"metadata": {}}, "", (422, "Invalid")),
        ],
    )
    async def test_what_is_said(
        self, ask: Asking, method: str, path: str, body: Any, kind: str, refusal: Any
    ) -> None:
        assert (await ask(method, path, body, kind)).refusal == refusal

    @pytest.mark.parametrize(
        "path",
        [
            Resource("example.org", "v1", "others", "Other").path(),
            Resource("others.org", "v1", "others", "Other").path(),
        ],
    )
    async def test_what_is_not_served_is_not_found_in_plain_text(
        self, ask: Asking, path: str
    ) -> None:
        answer = await ask("GET", path)
        assert (answer.status, answer.said) == (404, "404 page not found\n")

    @pytest.mark.parametrize(
        "path", [LEASES.path("l", "default", "status"), Resource("", "v1", "others", "").path()]
    )
    async def test_what_the_server_itself_does_not_serve(self, ask: Asking, path: str) -> None:
        answer = await ask("GET", path)
        assert answer.refusal == (404, "NotFound")
        assert answer.message == "the server could not find the requested resource"

    async def test_of_an_object(self, ask: Asking) -> None:
        answer = await ask("GET", NODES.path("none"))
        assert answer.message == 'nodes "none" not found'
        assert answer.said["details"] == {"name": "none", "kind": "nodes"}

    @pytest.mark.parametrize(
        ("spec", "status"),
        [
            ({"renewTime": "2026-01-01T00:00:00.000001Z"}, 201),
            ({"renewTime": "2026-01-01T00:00:00Z"}, 400),
            ({"leaseDurationSeconds": 0}, 422),
            ({"leaseTransitions": -1}, 422),
        ],
    )
    async def test_leases(self, ask: Asking, spec: Any, status: int) -> None:
        body = LEASE | {"spec": spec}
        assert (await ask("POST", LEASES.path("", "default"), body)).status == status

    async def test_config_maps_hold_text(self, ask: Asking) -> None:
        body: Any = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}}
        frozen = body | {"data": {"a": "1"}, "immutable": True}
        path = CONFIG_MAPS.path("c", "default")
        await ask("POST", CONFIG_MAPS.path("", "default"), frozen)
        refused = await ask("PATCH", path, {"data": {"a": 1}})
        assert (refused.refusal, refused.causes) == ((422, "Invalid"), ["patch"])
        assert (await ask("PATCH", path, {"data": {"a": "2"}})).status == 422
