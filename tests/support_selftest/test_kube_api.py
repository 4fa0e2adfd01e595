"""Rules of the API server that our programs rely on.

``tests/apiserver/test_double.py`` runs the classes here against a real one, with another ``ask``.
"""

from __future__ import annotations

from typing import Any, ClassVar

import pytest
from koord_kube.protocol.resources import CONFIG_MAPS, DEFINITIONS, LEASES, NODES, PODS, Resource

from tests.support.admin_client import AdminClient, Answer, Events
from tests.support.kube_api import PDBS
from tests.support_selftest.notes import NOTES, definition, node, note

__all__ = [
    "TestDefinitions",
    "TestDeletions",
    "TestEvictions",
    "TestLists",
    "TestRefusals",
    "TestWatches",
    "TestWrites",
]

ALL, ONE = NOTES.path(), NOTES.path("n1")
STATUS = NOTES.path("n1", subresource="status")
LEASE: Any = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "l"}}
CONFIG: Any = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}}
BAD, CONFLICT, INVALID = (400, "BadRequest"), (409, "Conflict"), (422, "Invalid")
NOT_FOUND = (404, "NotFound")
LEASES_HERE, CONFIGS_HERE = LEASES.path("", "default"), CONFIG_MAPS.path("", "default")


async def put_notes(ask: AdminClient, number: int) -> None:
    for index in range(number):
        await ask.put(NOTES, note(f"n{index}", metadata={"labels": {"zone": f"z{index % 2}"}}))


def names(answer: Answer) -> list[str]:
    return [one["metadata"]["name"] for one in answer.said["items"]]


async def version_of(ask: AdminClient) -> str:
    return str((await ask("GET", ALL)).said["metadata"]["resourceVersion"])


class TestWrites:
    async def test_creating_an_existing_object(self, ask: AdminClient) -> None:
        made = await ask("POST", ALL, note(status={"b": 2}))
        assert (made.status, made.said["metadata"]["generation"]) == (201, 1)
        assert "status" not in made.said
        refused = await ask("POST", ALL, note())
        assert refused.refusal == (409, "AlreadyExists")
        assert refused.said["message"] == 'notes.example.org "n1" already exists'

    @pytest.mark.parametrize("path", [ONE, STATUS])
    async def test_replacing_an_object_that_has_changed(self, ask: AdminClient, path: str) -> None:
        made = (await ask("POST", ALL, note(spec={"a": 1}))).said
        assert (await ask("PUT", path, made | {"spec": {"a": 2}, "status": {"b": 1}})).status == 200
        refused = await ask("PUT", path, made | {"spec": {"a": 3}, "status": {"b": 2}})
        assert refused.refusal == CONFLICT

    async def test_which_updates_need_a_version_and_a_uid(self, ask: AdminClient) -> None:
        made = (await ask("POST", ALL, note())).said
        refused = await ask("PUT", ONE, note())
        assert (refused.refusal, refused.causes) == (INVALID, ["metadata.resourceVersion"])
        other = {**made, "metadata": made["metadata"] | {"uid": "other"}}
        assert (await ask("PUT", ONE, other)).refusal == CONFLICT
        await ask("POST", LEASES_HERE, LEASE)
        assert (await ask("PUT", LEASES.path("l", "default"), LEASE)).refusal == INVALID
        await ask("POST", NODES.path(), node())
        assert (await ask("PUT", NODES.path("n1"), node(a="b"))).status == 200

    @pytest.mark.parametrize(
        ("path", "spec", "status", "generation"),
        [(ONE, {"a": 5}, {"b": 1}, 2), (STATUS, {"a": 1}, {"b": 6}, 1)],
    )
    async def test_status_and_the_rest_are_separate(
        self, ask: AdminClient, path: str, spec: Any, status: Any, generation: int
    ) -> None:
        await ask.put(NOTES, note(spec={"a": 1}, status={"b": 1}))
        change = {"spec": {"a": 5}, "status": {"b": 6}, "metadata": {"labels": {"x": "y"}}}
        assert (await ask("PATCH", path, change)).status == 200
        kept = await ask.get(NOTES, "n1")
        assert (kept["spec"], kept["status"]) == (spec, status)
        assert kept["metadata"]["generation"] == generation
        assert ("labels" in kept["metadata"]) is (path == ONE)

    async def test_merge_patches(self, ask: AdminClient) -> None:
        old = await ask.put(NOTES, note(spec={"a": 1}, status={"b": 1, "c": {"d": 1, "e": 2}}))
        assert (await ask("PATCH", ONE, {"spec": {"a": 1}})).said == old, "nothing has changed"
        assert (await ask("PUT", ONE, old)).said == old
        await ask("PATCH", STATUS, {"status": {"b": None, "c": {"d": None}}})
        assert (await ask.get(NOTES, "n1"))["status"] == {"c": {"e": 2}}
        version = {"resourceVersion": old["metadata"]["resourceVersion"]}
        refused = await ask("PATCH", ONE, {"metadata": version, "spec": {"a": 2}})
        assert refused.refusal == CONFLICT

    async def test_quantities_get_their_short_form(self, ask: AdminClient) -> None:
        path, batch = NODES.path("n1", subresource="status"), "kubernetes.io/batch-cpu"
        await ask("POST", NODES.path(), node())
        amounts = {"cpu": "4000m", "memory": "1024Mi", batch: "2000"}
        await ask("PATCH", path, {"status": {"allocatable": amounts}})
        kept = (await ask.get(NODES, "n1"))["status"]["allocatable"]
        assert kept == {"cpu": "4", "memory": "1Gi", batch: "2k"}
        refused = await ask("PATCH", path, {"status": {"allocatable": {batch: "-1"}}})
        assert (refused.refusal, refused.causes) == (INVALID, [f"status.allocatable.{batch}"])


class TestDeletions:
    async def test_an_object_that_is_gone(self, ask: AdminClient) -> None:
        await ask("POST", ALL, note())
        done = await ask("DELETE", ONE)
        assert (done.status, done.said["status"]) == (200, "Success")
        assert (await ask("DELETE", ONE)).refusal == (404, "NotFound")

    @pytest.mark.parametrize("field", ["uid", "resourceVersion"])
    async def test_preconditions(self, ask: AdminClient, field: str) -> None:
        meta = (await ask("POST", ALL, note())).said["metadata"]
        options: Any = {"apiVersion": "v1", "kind": "DeleteOptions"}
        refused = await ask("DELETE", ONE, options | {"preconditions": {field: "1"}})
        assert refused.refusal == CONFLICT
        good = {"preconditions": {field: meta[field]}}
        assert (await ask("DELETE", ONE, options | good)).status == 200


class TestRefusals:
    @pytest.mark.parametrize(
        ("method", "path", "body", "refusal"),
        [
            ("GET", ONE, None, NOT_FOUND),
            ("PATCH", ONE, {}, NOT_FOUND),
            ("PUT", ONE, note(), NOT_FOUND),
            ("POST", ALL, note() | {"kind": ""}, BAD),
            ("POST", ALL, note() | {"apiVersion": "v1"}, BAD),
            ("POST", NODES.path(), node() | {"kind": "Other"}, BAD),
            ("POST", ALL, note() | {"metadata": {}}, INVALID),
            ("POST", ALL, note("Upper"), INVALID),
            ("POST", ALL, note(metadata={"labels": {"a": "no label"}}), INVALID),
            ("POST", ALL, note(metadata={"labels": {"/": ""}}), INVALID),
            ("POST", ALL, note(metadata={"annotations": {"a": "x" * 300_000}}), INVALID),
            ("POST", ALL, note(metadata={"labels": {"a": 1}}), BAD),
            ("POST", ALL, note(metadata={"resourceVersion": "1"}), (500, "")),
            ("POST", NODES.path("n1"), node(), (405, "MethodNotAllowed")),
            ("PUT", NODES.path(), node(), (405, "MethodNotAllowed")),
            ("POST", LEASES_HERE, LEASE | {"metadata": {}}, INVALID),
            ("POST", CONFIGS_HERE, CONFIG | {"data": {"/": ""}}, INVALID),
            (
                "POST",
                CONFIGS_HERE,
                CONFIG | {"data": {"a": 1}},
                (400, "BadRequest"),
            ),
            ("GET", LEASES.path("l", "default", "status"), None, NOT_FOUND),
            ("GET", Resource("", "v1", "others", "Other").path(), None, NOT_FOUND),
        ],
    )
    async def test_requests(
        self, ask: AdminClient, method: str, path: str, body: Any, refusal: Any
    ) -> None:
        assert (await ask(method, path, body)).refusal == refusal

    @pytest.mark.parametrize("group", ["example.org", "others.org"])
    async def test_an_unknown_kind_is_not_found_in_plain_text(
        self, ask: AdminClient, group: str
    ) -> None:
        answer = await ask("GET", Resource(group, "v1", "others", "Other").path())
        assert (answer.status, answer.said) == (404, "404 page not found\n")

    @pytest.mark.parametrize(
        ("spec", "status"),
        [
            ({"renewTime": "2026-01-01T00:00:00.000001Z"}, 201),
            ({"renewTime": "2026-01-01T00:00:00Z"}, 400),
            ({"leaseDurationSeconds": 0}, 422),
            ({"leaseTransitions": -1}, 422),
        ],
    )
    async def test_leases(self, ask: AdminClient, spec: Any, status: int) -> None:
        body = LEASE | {"spec": spec}
        assert (await ask("POST", LEASES_HERE, body)).status == status


class TestLists:
    async def test_pages_are_of_one_moment(self, ask: AdminClient) -> None:
        await put_notes(ask, 5)
        page = await ask("GET", ALL, limit="2")
        first = page.said["metadata"]
        await ask.delete(NOTES, "n2")
        await ask.put(NOTES, note("n5"))
        found, more = names(page), first["continue"]
        while more:
            page = await ask("GET", ALL, **{"limit": "2", "continue": more})
            found += names(page)
            meta = page.said["metadata"]
            assert meta["resourceVersion"] == first["resourceVersion"]
            more = meta.get("continue")
        assert found == ["n0", "n1", "n2", "n3", "n4"]
        assert names(await ask("GET", ALL)) == ["n0", "n1", "n3", "n4", "n5"]

    async def test_a_future_version(self, ask: AdminClient) -> None:
        later = str(int(await version_of(ask)) + 1000)
        refused = await ask("GET", ALL, resourceVersion=later)
        assert refused.refusal == (504, "Timeout")
        assert refused.said["details"]["retryAfterSeconds"] == 1
        assert refused.said["details"]["causes"][0]["reason"] == "ResourceVersionTooLarge"

    async def test_which_items_say_their_kind(self, ask: AdminClient) -> None:
        await ask.put(NOTES, note())
        await ask("POST", NODES.path(), node())
        found = await ask("GET", ALL)
        assert (found.said["kind"], found.said["items"][0]["kind"]) == ("NoteList", "Note")
        assert "kind" not in (await ask("GET", NODES.path())).said["items"][0]

    @pytest.mark.parametrize(
        ("query", "expected"),
        [
            ({"labelSelector": "zone=z0"}, ["n0", "n2"]),
            ({"labelSelector": "zone!=z0"}, ["n1", "n3"]),
            ({"labelSelector": "zone in (z0, z1)"}, ["n0", "n1", "n2"]),
            ({"labelSelector": "zone notin (z0),zone"}, ["n1"]),
            ({"labelSelector": "!zone"}, ["n3"]),
            ({"fieldSelector": "metadata.name=n1"}, ["n1"]),
            ({"fieldSelector": "metadata.name!=n1"}, ["n0", "n2", "n3"]),
            ({"fieldSelector": "spec.x=1"}, None),
            ({"labelSelector": "a b"}, None),
        ],
    )
    async def test_selectors(
        self, ask: AdminClient, query: dict[str, str], expected: list[str] | None
    ) -> None:
        await put_notes(ask, 3)
        await ask.put(NOTES, note("n3"))
        answer = await ask("GET", ALL, **query)
        if expected is None:
            assert answer.refusal == BAD
        else:
            assert names(answer) == expected

    @pytest.mark.parametrize(
        ("query", "cause"),
        [
            ({"resourceVersionMatch": "NotOlderThan"}, "resourceVersionMatch"),
            ({"resourceVersionMatch": "Older", "resourceVersion": "1"}, "resourceVersionMatch"),
            ({"resourceVersionMatch": "Exact", "resourceVersion": "0"}, "resourceVersionMatch"),
            ({"sendInitialEvents": "true"}, "sendInitialEvents"),
            ({"watch": "1", "sendInitialEvents": "true"}, "resourceVersionMatch"),
            ({"watch": "1", "resourceVersionMatch": "NotOlderThan"}, "resourceVersionMatch"),
        ],
    )
    async def test_options_that_do_not_fit(
        self, ask: AdminClient, query: dict[str, str], cause: str
    ) -> None:
        refused = await ask("GET", ALL, **query)
        assert (refused.refusal, refused.causes) == (INVALID, [cause])


async def types_and_names(events: Events, number: int) -> list[tuple[str, Any]]:
    found = [await events.next() for _ in range(number)]
    return [(type_, one["metadata"].get("name")) for type_, one in found]


class TestWatches:
    async def test_from_a_version(self, ask: AdminClient) -> None:
        version = (await ask.put(NOTES, note()))["metadata"]["resourceVersion"]
        changed = await ask.put(NOTES, note(spec={"a": 2}))
        await ask.delete(NOTES, "n1")
        async with ask.watching(ALL, resourceVersion=version) as events:
            await ask.put(NOTES, note("n2"))
            assert (await events.next())[0] == "MODIFIED"
            type_, last = await events.next()
            assert (type_, last["spec"]) == ("DELETED", {"a": 2})
            ended, before = (one["metadata"]["resourceVersion"] for one in (last, changed))
            assert int(ended) > int(before)
            assert await types_and_names(events, 1) == [("ADDED", "n2")]

    async def test_without_a_version_all_are_added_first(self, ask: AdminClient) -> None:
        await put_notes(ask, 2)
        async with ask.watching(ALL) as events:
            assert sorted(await types_and_names(events, 2)) == [("ADDED", "n0"), ("ADDED", "n1")]

    async def test_with_a_selector(self, ask: AdminClient) -> None:
        """An object that leaves it is deleted for the watch; one that comes into it is added."""
        version = await version_of(ask)
        for labels in ({"z": "a"}, {"z": "b"}, {"z": "a", "more": "x"}, {"z": "a"}):
            await ask.put(NOTES, note(metadata={"labels": labels}))
        await ask.put(NOTES, note("other", metadata={"labels": {"z": "b"}}))
        await ask.delete(NOTES, "n1")
        async with ask.watching(ALL, resourceVersion=version, labelSelector="z=a") as events:
            seen = [await events.next() for _ in range(5)]
        assert [(type_, one["metadata"]["labels"]["z"]) for type_, one in seen] == [
            (type_, "a") for type_ in ("ADDED", "DELETED", "ADDED", "MODIFIED", "DELETED")
        ]

    async def test_from_too_long_ago(self, ask: AdminClient) -> None:
        await put_notes(ask, 1)
        async with ask.watching(ALL, resourceVersion="1") as events:
            type_, found = await events.next()
            assert (type_, found["code"], found["reason"]) == ("ERROR", 410, "Expired")
            await events.end()

    async def test_bookmarks_before_the_end(self, ask: AdminClient) -> None:
        version = (await ask.put(NOTES, note()))["metadata"]["resourceVersion"]
        query = {"allowWatchBookmarks": "true", "timeoutSeconds": "3"}
        async with ask.watching(ALL, resourceVersion=version, **query) as events:
            await ask.put(NOTES, note(spec={"a": 1}))
            assert await types_and_names(events, 1) == [("MODIFIED", "n1")]
            type_, found = await events.next()
            assert (type_, found["kind"]) == ("BOOKMARK", "Note")
            assert found["metadata"].keys() == {"resourceVersion"}
            assert int(found["metadata"]["resourceVersion"]) > int(version)
            await events.end()

    async def test_from_a_future_version(self, ask: AdminClient) -> None:
        """It waits, and sends nothing of what comes until then."""
        later = str(int(await version_of(ask)) + 1000)
        async with ask.watching(ALL, resourceVersion=later, timeoutSeconds="1") as events:
            await ask.put(NOTES, note())
            await events.end()

    async def test_that_begins_with_a_list(self, ask: AdminClient) -> None:
        await put_notes(ask, 2)
        now = await version_of(ask)
        query = {
            "sendInitialEvents": "true",
            "resourceVersionMatch": "NotOlderThan",
            "allowWatchBookmarks": "true",
        }
        async with ask.watching(ALL, **query) as events:
            first, found = await events.next()
            if "RequestWatchProgress" in found.get("message", ""):
                pytest.skip("the etcd behind this server is older than 3.4.31")
            second = await types_and_names(events, 1)
            assert sorted([(first, found["metadata"]["name"]), *second]) == [
                ("ADDED", "n0"), ("ADDED", "n1"),
            ]  # fmt: skip
            type_, mark = await events.next()
            assert (type_, mark["metadata"]["annotations"]) == (
                "BOOKMARK", {"k8s.io/initial-events-end": "true"},
            )  # fmt: skip
            assert int(mark["metadata"]["resourceVersion"]) >= int(now)
            await ask.put(NOTES, note("n2"))
            assert await types_and_names(events, 1) == [("ADDED", "n2")]


class TestResizes:
    LESS: ClassVar[dict[str, Any]] = {"requests": {"cpu": "500m"}, "limits": {"cpu": "1"}}

    async def put_pod(self, ask: AdminClient, reported: dict[str, Any]) -> Any:
        resources = {"requests": {"cpu": "1"}, "limits": {"cpu": "2"}}
        containers = [{"name": "c", "image": "i", "resources": resources}]
        spec = {"automountServiceAccountToken": False, "containers": containers}
        given = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "r"}, "spec": spec}
        await ask("DELETE", PODS.path("r", "default"), {"gracePeriodSeconds": 0})
        await ask("POST", PODS.path("", "default"), given)
        container = {"name": "c", "image": "i", "imageID": "i", "ready": True, "restartCount": 0}
        container |= {"state": {"running": {}}, **reported}
        change = {"phase": "Running", "qosClass": "Burstable", "containerStatuses": [container]}
        answer = await ask("PATCH", PODS.path("r", "default", "status"), {"status": change})
        assert answer.status == 200, answer.said
        return answer.said

    async def resize(self, ask: AdminClient, pod: Any, resources: Any, **meta: Any) -> Answer:
        containers = [{**pod["spec"]["containers"][0], "resources": resources}]
        body = {
            **pod,
            "metadata": {**pod["metadata"], **meta},
            "spec": {**pod["spec"], "containers": containers},
        }
        return await ask("PUT", PODS.path("r", "default", "resize"), body)

    async def test_resources_change_and_nothing_else(self, ask: AdminClient) -> None:
        pod = await self.put_pod(ask, {"resources": self.LESS})
        done = await self.resize(ask, pod, self.LESS, annotations={"a": "b"})
        assert done.status == 200, done.said
        assert done.said["spec"]["containers"][0]["resources"] == self.LESS
        assert "a" not in done.said["metadata"].get("annotations", {})
        assert done.said["metadata"]["uid"] == pod["metadata"]["uid"]
        late = await self.resize(ask, pod, self.LESS)
        assert late.status == 409

    @pytest.mark.parametrize(
        ("resources", "reported", "reason"),
        [
            (LESS, {}, "node without support for resize"),
            (
                {name: {"cpu": "1", "memory": "1Gi"} for name in ("requests", "limits")},
                {"resources": LESS},
                "QOS Class",
            ),
            (
                {"requests": {"cpu": "3"}, "limits": {"cpu": "2"}},
                {"resources": LESS},
                "cpu limit",
            ),
        ],
    )
    async def test_what_is_refused(
        self, ask: AdminClient, resources: Any, reported: Any, reason: str
    ) -> None:
        answer = await self.resize(ask, await self.put_pod(ask, reported), resources)
        assert answer.status == 422
        assert reason in answer.said["message"]


class TestEvictions:
    GONE, STAYS = 404, 200

    async def put_pod(self, ask: AdminClient, **spec: Any) -> None:
        containers = [{"name": "c", "image": "i"}]
        spec = {"automountServiceAccountToken": False, "containers": containers, **spec}
        meta = {"name": "p", "labels": {"app": "web"}}
        given = {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}
        await ask("POST", PODS.path("", "default"), given)
        path = PODS.path("p", "default", "status")
        ready = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
        assert (await ask("PATCH", path, {"status": ready})).status == 200

    async def put_budget(self, ask: AdminClient, name: str, allowed: int, observed: int) -> None:
        status = {
            "observedGeneration": observed,
            "disruptionsAllowed": allowed,
            "currentHealthy": 1,
            "desiredHealthy": 1,
            "expectedPods": 1,
        }
        spec = {"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}}
        meta = {"name": name}
        await ask.put(PDBS, {"metadata": meta, "spec": spec, "status": status}, "default")

    async def evict(self, ask: AdminClient, **more: Any) -> Answer:
        head = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "p"}}
        return await ask("POST", PODS.path("p", "default", "eviction"), head | more)

    @pytest.mark.parametrize(
        ("budgets", "status", "retry", "pod"),
        [
            pytest.param([], 201, None, GONE, id="no budget"),
            pytest.param([(1, 1)], 201, None, GONE, id="allowed"),
            pytest.param([(0, 1)], 429, None, STAYS, id="used up"),
            pytest.param([(0, 0)], 429, "10", STAYS, id="not counted yet"),
            pytest.param([(1, 1), (1, 1)], 500, None, STAYS, id="two"),
        ],
    )
    async def test_budgets(
        self, ask: AdminClient, budgets: Any, status: int, retry: str | None, pod: int
    ) -> None:
        await self.put_pod(ask)
        for number, (allowed, observed) in enumerate(budgets):
            await self.put_budget(ask, f"b{number}", allowed, observed)
        done = await self.evict(ask)
        assert (done.status, done.said["code"], done.headers.get("Retry-After")) == (
            status, status, retry,
        )  # fmt: skip
        assert (await ask("GET", PODS.path("p", "default"))).status == pod
        if status == 429:
            assert done.said["details"]["causes"][0]["reason"] == "DisruptionBudget"
        if budgets and status == 201:
            left = (await ask.get(PDBS, "b0", "default"))["status"]
            assert (left["disruptionsAllowed"], [*left["disruptedPods"]]) == (0, ["p"])

    async def test_the_pod_stays_until_its_kubelet_has_ended_it(self, ask: AdminClient) -> None:
        await ask("POST", NODES.path(), node())
        await self.put_pod(ask, nodeName="n1")
        assert (await self.evict(ask)).status == 201
        meta = (await ask.get(PODS, "p", "default"))["metadata"]
        assert "deletionTimestamp" in meta
        assert meta["deletionGracePeriodSeconds"] == 30

    @pytest.mark.parametrize(
        ("body", "refusal"),
        [
            ({"metadata": {"name": "q"}}, BAD),
            ({"kind": "Pod", "apiVersion": "v1"}, BAD),
            ({"deleteOptions": {"preconditions": {"uid": "other"}}}, CONFLICT),
        ],
    )
    async def test_wrong_requests(self, ask: AdminClient, body: Any, refusal: Any) -> None:
        await self.put_pod(ask)
        assert (await self.evict(ask, **body)).refusal == refusal


class TestDefinitions:
    """Of their objects see ``tests/kube/definitions/test_served.py``."""

    async def test_a_stored_version_has_to_stay(self, ask: AdminClient) -> None:
        path = DEFINITIONS.path("stores.example.org")
        await ask.define(definition(kind="Store"))
        first = (await ask("GET", path)).said["spec"]["versions"][0]
        both = [first | {"storage": False}, first | {"name": "v2"}]
        change = await ask("PATCH", path, {"spec": {"versions": both}})
        assert change.said["status"]["storedVersions"] == ["v1", "v2"]
        refused = await ask("PATCH", path, {"spec": {"versions": both[1:]}})
        assert refused.refusal == INVALID

    async def test_what_the_server_leaves_out(self, ask: AdminClient) -> None:
        empty = {"type": "object", "description": "", "required": [], "nullable": False}
        text = {"type": "string", "default": "", "minLength": 0, "enum": ["", "b"]}
        given = definition({**empty, "properties": {"a": text, "b": empty}}, "Draft")
        given["spec"]["names"]["shortNames"] = []
        made = (await ask("POST", DEFINITIONS.path(), given)).said["spec"]
        assert made["conversion"] == {"strategy": "None"}
        assert made["names"] == {
            "plural": "drafts", "kind": "Draft", "singular": "draft", "listKind": "DraftList",
        }  # fmt: skip
        [version] = made["versions"]
        assert version["schema"]["openAPIV3Schema"]["properties"]["spec"] == {
            "type": "object", "properties": {"a": text, "b": {"type": "object"}},
        }  # fmt: skip

    @pytest.mark.parametrize(
        ("wrong", "field"),
        [
            ({"properties": {}}, "type"),
            ({"type": "array"}, "items"),
            ({"type": "object", "properties": {"a": {"type": "text"}}}, "properties[a].type"),
            ({"type": "string", "pattern": "("}, "pattern"),
            ({"type": "string", "default": 1}, "default"),
            ({"$ref": "#/definitions/a", "type": "object"}, "$ref"),
            (
                {"type": "array", "items": {"type": "object"}, "x-kubernetes-list-type": "map"},
                "x-kubernetes-list-map-keys",
            ),
        ],
    )
    async def test_schemas_that_are_not_structural(
        self, ask: AdminClient, wrong: Any, field: str
    ) -> None:
        refused = await ask("POST", DEFINITIONS.path(), definition(wrong, "Draft"))
        assert refused.refusal == INVALID
        assert f"spec.validation.openAPIV3Schema.properties[spec].{field}" in refused.causes

    @pytest.mark.parametrize(
        "more",
        [
            {"scope": "All"},
            {"group": "example.com"},
            {"group": "topology.node.k8s.io"},
            {"names": {"plural": "drafts"}},
            {"versions": []},
        ],
    )
    async def test_definitions_that_are_wrong(self, ask: AdminClient, more: Any) -> None:
        refused = await ask("POST", DEFINITIONS.path(), definition(kind="Draft", **more))
        assert refused.refusal == INVALID
