"""docs/queues.md: what it says of other schedulers' labels is so."""

from __future__ import annotations

from pathlib import Path

import yaml
from koord_manager.profiles.core.applying import POD, applied
from koord_manager.profiles.core.document import read
from koord_model.keys import LABEL_QUOTA_NAME

EXAMPLE = Path(__file__).parents[2] / "deploy/examples/other-queues.yaml"


def test_the_label_queue_names_the_quota() -> None:
    document = yaml.safe_load(EXAMPLE.read_text())
    profile = read(document["metadata"]["name"], document)
    pod = {"metadata": {"labels": {"queue": "root.sandbox"}}, "spec": {"containers": []}}
    made = applied(profile, pod, POD, {})
    assert made["metadata"]["labels"] == {"queue": "root.sandbox", LABEL_QUOTA_NAME: "root.sandbox"}
    assert made["spec"]["schedulerName"] == "koord-scheduler"
    assert profile.ignored == ()
    assert profile.skips_resources
