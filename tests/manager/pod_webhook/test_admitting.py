from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest
from koord_manager.pod_webhook.validating import admit_pod
from koord_manager.pod_webhook.view import PodWebhookView
from koord_manager.quota.core.charge import QuotaCharge
from koord_manager.quota.core.topology import QuotaTopology
from koord_model.elastic_quota import DEFAULT_QUOTA, ElasticQuota
from koord_model.keys import LABEL_QUOTA_NAME
from koord_serving.admission.core.admission import AdmissionRequest

from tests.support.admissions import creation, update
from tests.support.finished import finished

Object = dict[str, Any]
ON = {"EnableQuotaAdmission": True, "EnableQuotaAdmissionOnUpdate": True}
QUOTAS = (
    ElasticQuota("team", "quotas"),
    ElasticQuota("batch", "batch"),
    ElasticQuota("twice", "x"),
    ElasticQuota("twice", "y"),
    ElasticQuota(DEFAULT_QUOTA, "koordinator-system"),
)


@dataclass
class Charged:
    refusal: str = ""
    charges: list[QuotaCharge] = field(default_factory=list)

    async def __call__(self, charge: QuotaCharge) -> str:
        self.charges.append(charge)
        return self.refusal

    def by(self, request: AdmissionRequest, **gates: bool) -> tuple[str, list[str]]:
        view = PodWebhookView(quotas=QuotaTopology(QUOTAS), gates=ON | gates, charge=self)
        return finished(admit_pod(request, view)).refusal, [one.key for one in self.charges]


def pod(quota: str = "", **more: Object) -> Object:
    labels = {LABEL_QUOTA_NAME: quota} if quota else {}
    container = {"name": "c", "resources": {"requests": {"cpu": "1500m"}}}
    return {
        "metadata": {"name": "p", "labels": labels},
        "spec": {"containers": [container]},
        **more,
    }


@pytest.mark.parametrize(
    ("request_", "gates", "charged"),
    [
        (creation(pod("team")), {}, ["quotas/team"]),
        (creation(pod()), {}, ["batch/batch"]),
        (creation(pod()), {"DisableDefaultQuota": True}, []),
        (creation(pod(DEFAULT_QUOTA)), {}, []),
        (creation(pod("team")), {"EnableQuotaAdmission": False}, []),
        (update(pod("team"), pod("team")), {}, []),
        (update(pod("team"), pod()), {}, ["quotas/team"]),
        (update(pod("team"), pod()), {"EnableQuotaAdmissionOnUpdate": False}, []),
        (update(pod("team", status={"phase": "Failed"}), pod()), {}, []),
    ],
)
def test_which_quota_is_charged(
    request_: AdmissionRequest, gates: dict[str, bool], charged: list[str]
) -> None:
    assert Charged().by(request_, **gates) == ("", charged)


def test_a_pod_asks_for_all_that_it_requests() -> None:
    charged = Charged()
    charged.by(creation(pod("team")))
    assert charged.charges == [QuotaCharge("team", "quotas", {"cpu": 1500})]


def test_what_does_not_fit_is_refused() -> None:
    refusal, _ = Charged("ElasticQuota is exceeded").by(creation(pod("team")))
    assert refusal == 'pod "batch/p": ElasticQuota is exceeded'


@pytest.mark.parametrize("name", ["gone", "twice"])
def test_a_label_has_to_name_one_quota(name: str) -> None:
    refusal, charged = Charged().by(creation(pod(name)))
    assert f'label {LABEL_QUOTA_NAME} is "{name}"' in refusal
    assert charged == []


def test_a_pod_that_is_refused_anyway_is_charged_to_nobody() -> None:
    bad = pod("team")
    bad["metadata"]["labels"]["koordinator.sh/qosClass"] = "LSE"
    refusal, charged = Charged().by(creation(bad))
    assert refusal
    assert charged == []
