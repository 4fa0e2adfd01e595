"""Who uses what of which quota, and who lends it."""

from __future__ import annotations

import json
from typing import Any

from koord_model.keys import ANNOTATION_QUOTA_RUNTIME, LABEL_ALLOW_LENT_RESOURCE
from koordctl.output.tables import plain
from koordctl.quota_tree import documents_of, lines

from tests.support.quota_cluster import quota_object


def shown(name: str, used: str, runtime: str, *spec: Any, **labels: str) -> dict[str, Any]:
    most, least, parent = spec
    document = quota_object(name, {"cpu": most}, {"cpu": least}, parent, **labels)
    annotations = {ANNOTATION_QUOTA_RUNTIME: json.dumps({"cpu": runtime})}
    document["metadata"]["annotations"] = annotations
    document["status"] = {"used": {"cpu": used}}
    return document


def test_children_are_below_their_parents_with_a_bar_and_their_lenders() -> None:
    found = list(
        plain(
            lines(
                [
                    shown("b", "1", "1", "8", "4", "org"),
                    shown("org", "8", "8", "8", "8", ""),
                    shown("a", "7", "7", "8", "4", "org"),
                    shown("lost", "0", "0", "2", "0", "gone"),
                    shown("koordinator-default-quota", "3", "0", str(1 << 60), "0", ""),
                ]
            )
        )
    )
    assert [line.split("  ")[0].strip() for line in found[1:]] == [
        "lost",
        "org",
        "",
        "",
        "koordinator-default-quota",
    ]
    cells = {line.split()[0]: line.split() for line in found}
    assert cells["a"][1:6] == ["cpu", "7", "7", "4", "8"]
    assert found[3].endswith("3 (b lends 3)")
    assert "████████████████████" in found[3]
    assert cells["b"][-1].startswith("█")


def test_a_quota_of_which_nothing_is_written_yet_lends_all() -> None:
    idle = quota_object("idle", {"cpu": "8"}, {"cpu": "4"}, "")
    kept = quota_object("kept", {"cpu": "8"}, {"cpu": "2"}, "")
    kept["metadata"]["labels"][LABEL_ALLOW_LENT_RESOURCE] = "false"
    [row, *_] = list(plain(lines([shown("a", "7", "7", "8", "4", ""), idle, kept])))[1:]
    assert row.endswith("3 (idle lends 4)")


def test_no_quota_is_said() -> None:
    assert plain(lines([])) == ["No ElasticQuota found."]


def test_what_is_used_beyond_the_limit_is_flagged() -> None:
    over, fine = list(
        plain(lines([shown("a", "9", "7", "8", "4", ""), shown("b", "1", "1", "2", "1", "")]))
    )[1:]
    assert "over by 2" in over
    assert "over" not in fine


def test_a_schedulers_page_is_shown_as_the_quotas_of_the_api() -> None:
    amounts = {"max": {"cpu": "8"}, "min": {"cpu": "2"}, "runtime": {"cpu": "3"}}
    team = {**amounts, "used": {"cpu": "4"}, "parentName": "org"}
    page = {"org": {"max": {"cpu": "8"}, "parentName": "koordinator-root-quota"}, "team": team}
    rows = [line.split() for line in plain(lines(documents_of(page)))]
    assert rows[2][:6] == ["team", "cpu", "4", "3", "2", "8"]
    assert "over by 1" in " ".join(rows[2])
