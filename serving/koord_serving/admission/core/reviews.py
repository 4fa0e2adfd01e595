"""AdmissionReview (admission.k8s.io/v1) as bytes: the question read, the answer written. No IO.

No message made here quotes an object: it may be a secret.
"""

from __future__ import annotations

import base64
from typing import Any

import msgspec
from koord_model.excerpt import excerpt

from koord_serving.admission.core.admission import (
    AdmissionOperation,
    AdmissionRequest,
    AdmissionResponse,
    Object,
)
from koord_serving.admission.core.json_patch import patch

MOST_BYTES = 8 << 20
"""A question is an object and what it was before; etcd takes 1.5 MiB of each."""

API_VERSION, KIND = "admission.k8s.io/v1", "AdmissionReview"
_WARNING_LETTERS = 256
"""The API server may cut longer ones, and drops all once there are 4096 letters."""
_WARNINGS = 16


class AdmissionReviewError(Exception):
    """The review cannot be answered; one line, and its HTTP status."""

    def __init__(self, message: str, status: int = 400) -> None:
        super().__init__(message)
        self.status = status


class _Resource(msgspec.Struct):
    group: str = ""
    resource: str = ""


class _User(msgspec.Struct):
    username: str = ""


class _Request(msgspec.Struct, rename="camel"):
    uid: str
    operation: AdmissionOperation
    resource: _Resource
    sub_resource: str | None = None
    namespace: str | None = None
    name: str | None = None
    object: dict[str, Any] | None = None
    old_object: dict[str, Any] | None = None
    user_info: _User | None = None
    dry_run: bool | None = None


class _Review(msgspec.Struct, rename="camel"):
    api_version: str = ""
    kind: str = ""
    request: msgspec.Raw = msgspec.Raw()


_REVIEW = msgspec.json.Decoder(_Review)
_REQUEST = msgspec.json.Decoder(_Request)


def read(body: bytes) -> AdmissionRequest:
    """The question.

    Raises:
        ReviewError: it is none, or of another version.
    """
    if len(body) > MOST_BYTES:
        raise AdmissionReviewError(f"the review is longer than {MOST_BYTES} bytes", 413)
    try:
        review = _REVIEW.decode(body)
        if (review.api_version, review.kind) != (API_VERSION, KIND):
            raise AdmissionReviewError(
                f"this is {excerpt(review.kind)} of {excerpt(review.api_version)}; "
                f"expected {KIND} of {API_VERSION}"
            )
        if not bytes(review.request):
            raise AdmissionReviewError("the review has no request")
        return _admission(_REQUEST.decode(review.request))
    except msgspec.ValidationError as error:
        raise AdmissionReviewError(f"the review is malformed: {_without_values(error)}") from None
    except (msgspec.MsgspecError, UnicodeDecodeError):
        raise AdmissionReviewError("the review is not valid JSON") from None
    except RecursionError:
        raise AdmissionReviewError("the review is nested too deep") from None


def answer(admission: AdmissionRequest, verdict: AdmissionResponse) -> bytes:
    """Encode the response: allowed or not, the changes, the warnings."""
    said: dict[str, Any] = {"uid": admission.uid, "allowed": not verdict.refusal}
    if verdict.refusal:
        said["status"] = {"code": verdict.code, "message": _one_line(verdict.refusal)}
    elif verdict.object is not None and (steps := patch(admission.object, verdict.object)):
        said["patchType"] = "JSONPatch"
        said["patch"] = base64.b64encode(msgspec.json.encode(steps)).decode()
    if verdict.warnings:
        lines = (_one_line(warning) for warning in verdict.warnings[:_WARNINGS])
        said["warnings"] = [line[:_WARNING_LETTERS] for line in lines]
    return msgspec.json.encode({"apiVersion": API_VERSION, "kind": KIND, "response": said})


def changes(admission: AdmissionRequest, verdict: AdmissionResponse) -> bool:
    """True if the object is admitted otherwise than it was sent."""
    admitted_as = verdict.object
    return not verdict.refusal and admitted_as is not None and admitted_as != admission.object


def _admission(request: _Request) -> AdmissionRequest:
    given, old = request.object or {}, request.old_object or {}
    return AdmissionRequest(
        uid=request.uid,
        operation=request.operation,
        resource=request.resource.resource,
        group=request.resource.group,
        subresource=request.sub_resource or "",
        namespace=request.namespace or "",
        name=request.name or _name(given),
        object=given,
        old=old,
        user=request.user_info.username if request.user_info else "",
        dry_run=bool(request.dry_run),
    )


def _name(given: Object) -> str:
    """The name of an object to be created, or the start of it (``generateName``)."""
    meta = given.get("metadata")
    if not isinstance(meta, dict):
        return ""
    name = meta.get("name") or meta.get("generateName")
    return name if isinstance(name, str) else ""


def _without_values(error: msgspec.ValidationError) -> str:
    """The library quotes a value where an enumeration does not have it; the path is enough."""
    message = str(error)
    if "Invalid enum" not in message:
        return message
    return f"operation is none of {', '.join(AdmissionOperation)}"


def _one_line(text: str) -> str:
    return " ".join(text.split())
