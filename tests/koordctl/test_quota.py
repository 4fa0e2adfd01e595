from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from koordctl.main import main
from koordctl.quota_conversion import UNBOUNDED, QuotaApi, converted

PREFIX = "quota.scheduling.koordinator.sh"
OURS, THEIRS = QuotaApi.KOORDINATOR, QuotaApi.SCHEDULER_PLUGINS


def quota(
    api: QuotaApi, name: str, where: str, labels: Any = None, notes: Any = None, **spec: Any
) -> dict[str, Any]:
    metadata = {
        "name": name,
        "namespace": where,
        "labels": labels or {},
        "annotations": notes or {},
    }
    return {"apiVersion": api.value, "kind": "ElasticQuota", "metadata": metadata, "spec": spec}


_amounts = st.dictionaries(st.sampled_from(("cpu", "memory")), st.sampled_from(("1", "2Gi")))


@given(_amounts, _amounts, st.dictionaries(st.sampled_from(("a", "b")), st.just("x")))
def test_what_a_namespace_may_use_survives_both_ways(least: Any, most: Any, labels: Any) -> None:
    most = {**least, **most}
    here = quota(THEIRS, "any", "shop", labels, min=least, max=most)
    (ours,) = converted([here], OURS)
    assert (ours["metadata"]["name"], ours["metadata"]["namespace"]) == ("shop", "shop")
    (back,) = converted([ours], THEIRS)
    assert back["spec"] == here["spec"]
    assert back["metadata"].get("labels", {}) == labels
    assert back["metadata"]["namespace"] == "shop"
    assert converted([back], OURS) == [ours]


def test_what_is_guaranteed_and_not_bounded_gets_a_bound_that_is_none() -> None:
    (ours,) = converted([quota(THEIRS, "q", "shop", min={"cpu": "1"})], OURS)
    assert ours["spec"] == {"min": {"cpu": "1"}, "max": {"cpu": UNBOUNDED}}


def test_the_namespace_of_an_annotation_is_the_quota_s() -> None:
    notes = {f"{PREFIX}/namespaces": '["shop"]', "kubectl.kubernetes.io/x": "y", "a": "b"}
    labels = {f"{PREFIX}/parent": "org"}
    (theirs,) = converted([quota(OURS, "q", "quotas", labels, notes)], THEIRS)
    assert theirs["metadata"] == {"name": "q", "namespace": "shop", "annotations": {"a": "b"}}


@pytest.mark.parametrize(
    ("quotas", "to", "said"),
    [
        ([quota(OURS, "q", "quotas")], THEIRS, "is of one namespace"),
        ([quota(OURS, "q", "q", {f"{PREFIX}/is-parent": "true"})], THEIRS, "is a parent"),
        ([quota(THEIRS, "a", "n"), quota(THEIRS, "b", "n")], OURS, "twice"),
        ([quota(THEIRS, "a", "")], OURS, "has no namespace"),
        ([{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}}], OURS, '"Pod" of "v1"'),
    ],
)
def test_what_cannot_be_said_there_is_refused(quotas: Any, to: QuotaApi, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        converted(quotas, to)


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "quotas.json"
    items = [quota(THEIRS, "q", "shop", max={"cpu": "4"}), quota(THEIRS, "q", "blog")]
    file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
    main(["quota", "convert", str(file)])
    found = list(yaml.safe_load_all(capsys.readouterr().out))
    assert [one["metadata"]["name"] for one in found] == ["shop", "blog"]
    main(["quota", "convert", str(file), "--json"])
    assert json.loads(capsys.readouterr().out)["items"] == found
    with pytest.raises(SystemExit) as left:
        main(["quota", "convert", str(file) + "x"])
    assert left.value.code == 1
