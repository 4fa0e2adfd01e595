"""The attributes of a request to an aggregated API, as the real API server names them. No IO.

After ``RequestInfoFactory`` (k8s.io/apiserver, pkg/endpoints/request/requestinfo.go).
"""

from __future__ import annotations

from collections.abc import Mapping

from koord_serving.aggregated.core.list_options import parse
from koord_serving.delegated_auth.core.reviews import AccessAttributes

_VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}


def request_info(method: str, path: str, query: Mapping[str, str]) -> AccessAttributes:
    """The attributes of a request for /apis/GROUP/VERSION/RESOURCE/…, or of any other path.

    Raises:
        StatusError: the query of a list or a watch is not valid.
    """
    parts = [part for part in path.split("/") if part]
    if len(parts) < 4 or parts[0] != "apis":
        return AccessAttributes(method.lower(), path=path)
    group, version, *rest = parts[1:]
    namespace = ""
    if rest[0] == "namespaces" and len(rest) > 2:
        namespace, rest = rest[1], rest[2:]
    resource, name, subresource = (*rest, "", "")[:3]
    about = AccessAttributes(
        _VERBS.get(method, "get"),
        group,
        version,
        resource,
        name,
        namespace=namespace,
        subresource=subresource,
    )
    if name:
        return about
    if about.verb == "delete":
        return about._replace(verb="deletecollection")
    if about.verb != "get":
        return about
    options = parse(query)
    verb = "watch" if options.watch else "list"
    return about._replace(
        verb=verb, name=options.name, fields=options.fields, labels=options.labels
    )
