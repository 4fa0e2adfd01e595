"""An administrator's client of the API server that waits for nobody, and is cut off with it."""

from __future__ import annotations

import contextlib
import http.client
import json
import ssl
from typing import Any

from koord_kube.protocol.resources import Resource

from tests.support.kube_apiserver import ADMIN, KubeApiserver

Document = dict[str, Any]
SECONDS = 15.0


class RefusedError(Exception):
    """The API server said no: ``status`` is HTTP's."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(f"{status}: {message}")
        self.status = status


class Api:
    """Every call raises ``OSError`` or ``http.client.HTTPException`` where nobody answers."""

    def __init__(self, server: KubeApiserver) -> None:
        self._host, _, port = server.url.removeprefix("https://").partition(":")
        self._port = int(port)
        self._trust = ssl.create_default_context(cafile=str(server.authority))

    def get(self, resource: Resource, name: str, namespace: str = "") -> Document:
        return self._ask("GET", resource.path(name, namespace))

    def list(self, resource: Resource, namespace: str = "") -> list[Document]:
        return list(self._ask("GET", resource.path("", namespace))["items"])

    def create(self, resource: Resource, given: Document, namespace: str = "") -> Document:
        version = f"{resource.group}/{resource.version}".lstrip("/")
        body = {"apiVersion": version, "kind": resource.kind, **given}
        return self._ask("POST", resource.path("", namespace), body)

    def patch(
        self,
        resource: Resource,
        name: str,
        change: Document,
        namespace: str = "",
        *,
        subresource: str = "",
    ) -> Document:
        """A merge patch; ``subresource`` is one's name."""
        path = resource.path(name, namespace) + (f"/{subresource}" if subresource else "")
        return self._ask("PATCH", path, change, "application/strategic-merge-patch+json")

    def merge(
        self, resource: Resource, name: str, change: Document, namespace: str = ""
    ) -> Document:
        """A merge patch of what is no kind of Kubernetes' own."""
        path = resource.path(name, namespace)
        return self._ask("PATCH", path, change, "application/merge-patch+json")

    def delete(self, resource: Resource, name: str, namespace: str = "") -> None:
        """Delete it, or see that it is gone."""
        try:
            self._ask("DELETE", resource.path(name, namespace))
        except RefusedError as error:
            if error.status != 404:
                raise

    def _ask(
        self, method: str, path: str, body: Document | None = None, kind: str = "application/json"
    ) -> Document:
        headers = {"Authorization": f"Bearer {ADMIN}", "Content-Type": kind}
        data = None if body is None else json.dumps(body)
        connection = http.client.HTTPSConnection(
            self._host, self._port, timeout=SECONDS, context=self._trust
        )
        # One for each request: no earlier one's end is taken for the server's.
        with contextlib.closing(connection):
            connection.request(method, path, data, headers)
            answer = connection.getresponse()
            said = answer.read()
        if answer.status >= 300:
            raise RefusedError(answer.status, f"{method} {path}: {said.decode()[:500]}")
        return dict(json.loads(said))
