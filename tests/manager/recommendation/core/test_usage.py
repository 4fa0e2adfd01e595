from __future__ import annotations

import json

import pytest
from koord_manager.recommendation.core.usage import PodContainerUsage, pods_usage
from koord_prediction.amount import ResourceAmount


def test_pods_and_the_containers_that_are_reported() -> None:
    status = {
        "podsMetric": [
            {
                "namespace": "shop",
                "name": "web",
                "podUsage": {"resources": {"cpu": "1500m", "memory": "2Ki"}},
                "extensions": {
                    "pykoord": {
                        "containers": {"a": {"cpu": "1", "memory": "1Ki"}, "b": {"cpu": "1"}}
                    },
                    "others": {"anything": [1]},
                },
            },
            {"namespace": "shop", "name": "unmeasured", "podUsage": {}},
        ]
    }
    both = {("shop", "web"), ("shop", "unmeasured")}
    assert list(pods_usage(json.dumps(status).encode(), both)) == [
        PodContainerUsage(
            "shop", "web", ResourceAmount(1.5, 2048.0), {"a": ResourceAmount(1.0, 1024.0)}
        )
    ]
    assert list(pods_usage(b"{}", both)) == []
    assert list(pods_usage(json.dumps(status).encode(), {("shop", "other")})) == []


def test_what_is_no_status() -> None:
    with pytest.raises(ValueError, match="is not a valid NodeMetric status"):
        list(pods_usage(b'{"podsMetric": 7}', ()))
