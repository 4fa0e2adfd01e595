"""The webhooks of ElasticQuotas: defaults for new ones, and the rules of their tree. No IO."""

from __future__ import annotations

from koord_model.elastic_quota import ElasticQuota, parse
from koord_model.excerpt import excerpt
from koord_model.json_objects import inside
from koord_serving.admission.core.admission import (
    ADMITTED,
    AdmissionOperation,
    AdmissionRequest,
    AdmissionResponse,
    Object,
)

from koord_manager.quota.core.defaults import with_defaults
from koord_manager.quota.core.review import (
    QuotaReview,
    review_creation,
    review_deletion,
    review_update,
)
from koord_manager.quota.core.spec_rules import weight_warnings
from koord_manager.quota.core.topology import key_of
from koord_manager.quota.core.view import QuotaView


def mutate_elastic_quota(admission: AdmissionRequest, view: QuotaView) -> AdmissionResponse:
    """A new quota with what its author left out."""
    if admission.operation is not AdmissionOperation.CREATE:
        return ADMITTED
    try:
        made = with_defaults(admission.object, view.quotas)
    except ValueError as error:
        quota = _quota(admission.object, admission)[0]
        return AdmissionResponse(refusal=f"{_about(quota)}: {error}", code=400)
    return AdmissionResponse(object=made if made != admission.object else None)


async def validate_elastic_quota(admission: AdmissionRequest, view: QuotaView) -> AdmissionResponse:
    """Admitted, or refused with a line that has each problem, its value and a way out."""
    old, _ = _quota(admission.old, admission)
    new, warnings = _quota(admission.object, admission)
    deleted = admission.operation is AdmissionOperation.DELETE
    found = _review(admission, old, new, view)
    problems = found.problems
    if not problems and found.pods is not None:
        # Not which: who may write quotas may not be one who may list pods.
        has_pods = await view.has_pods(found.pods)
        # Others may have been admitted meanwhile.
        again = _review(admission, old, new, view).problems
        problems = (found.pods.problem,) if has_pods else again
    if problems:
        about = _about(old if deleted else new)
        return AdmissionResponse(refusal=f"{about}: {'; '.join(problems)}")
    if not (admission.dry_run or found.unchanged):
        view.quotas.admit(key_of(old if deleted else new), None if deleted else new)
    annotations = inside(admission.object, "metadata", "annotations")
    return AdmissionResponse(warnings=(*warnings, *weight_warnings(new, annotations)))


def _review(
    admission: AdmissionRequest, old: ElasticQuota, new: ElasticQuota, view: QuotaView
) -> QuotaReview:
    annotations, before = (
        inside(document, "metadata", "annotations")
        for document in (admission.object, admission.old)
    )
    if admission.operation is AdmissionOperation.CREATE:
        return review_creation(new, annotations, view.quotas, view.gates)
    if admission.operation is AdmissionOperation.UPDATE:
        return review_update(old, new, annotations, before, view.quotas, view.gates)
    return review_deletion(old, view.quotas)


def _quota(given: Object, admission: AdmissionRequest) -> tuple[ElasticQuota, tuple[str, ...]]:
    metadata = {"name": admission.name, "namespace": admission.namespace}
    return parse({**given, "metadata": {**metadata, **inside(given, "metadata")}})


def _about(quota: ElasticQuota) -> str:
    return f"ElasticQuota {excerpt(key_of(quota))}"
