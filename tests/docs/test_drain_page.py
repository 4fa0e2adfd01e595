"""The pages about drains have the phases that there are, and objects that are valid."""

from __future__ import annotations

import re

import msgspec
import pytest
import yaml
from koord_descheduler.drain.drain_group import read_group
from koord_descheduler.drain.drain_spec import read_drain_spec
from koord_descheduler.drain.phases import DrainPhase
from koord_descheduler.tide.core.pool_spec import read_pool
from koord_kube.definitions.drain_node import DRAIN_NODE
from koord_kube.definitions.drain_node_group import DRAIN_NODE_GROUP
from koord_kube.definitions.strict_decoder import StrictDecoder
from koord_kube.definitions.tide_node_pool import TIDE_NODE_POOL

from tests.docs.words import all_rows, page

PAGE = page("descheduler/drain.md")
PAGES = PAGE + page("descheduler/tide.md")
SCHEMAS = {
    each["spec"]["names"]["kind"]: each["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    for each in (DRAIN_NODE, DRAIN_NODE_GROUP, TIDE_NODE_POOL)
}
OBJECTS = [
    document
    for block in re.findall(r"```yaml\n(.*?)```", PAGES, re.DOTALL)
    if str((document := yaml.safe_load(block)).get("kind")) in SCHEMAS
]


def test_all_phases_are_described_in_order() -> None:
    names = [row[0] for row in all_rows(PAGE)]
    assert [name for name in names if name in set(DrainPhase)] == list(DrainPhase)


@pytest.mark.parametrize("document", OBJECTS, ids=lambda document: str(document["kind"]))
def test_objects_are_valid(document: dict[str, object]) -> None:
    spec = SCHEMAS[str(document["kind"])]["properties"]["spec"]
    given = msgspec.json.encode(document["spec"])
    kept = StrictDecoder(spec).normalized(given)
    assert msgspec.json.decode(kept) == document["spec"]
    if document["kind"] == "DrainNode":
        read_drain_spec(document["spec"])
    elif document["kind"] == "DrainNodeGroup":
        read_group(document)
    else:
        read_pool(document)


def test_there_are_examples_of_all() -> None:
    assert {document["kind"] for document in OBJECTS} == SCHEMAS.keys()
