"""Paths, queries and selectors are made in one place each, and one place prints.

So no program can be led elsewhere by a name that a user wrote, and no terminal be controlled.
"""

from __future__ import annotations

import ast
from collections.abc import Callable

from tests.test_layout import COMPONENTS, ROOT

Matches = Callable[[ast.AST], bool]


def _quotes(node: ast.AST) -> bool:
    """It encodes text for a URL itself."""
    names = {one.name for one in node.names} if isinstance(node, ast.ImportFrom) else set()
    return bool(names & {"quote", "quote_plus", "urlencode", "urljoin", "urlunsplit"})


def _writes_api_path(node: ast.AST) -> bool:
    """It has a path of the API."""
    text = node.value if isinstance(node, ast.Constant) else None
    return (
        isinstance(text, str)
        and ("/apis/" in text or text.startswith("/api/"))
        and ("\n" not in text and " " not in text)
    )


def _makes_selector(node: ast.AST) -> bool:
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and (node.func.id == "ApiSelector")
    )


def _opens_http(node: ast.AST) -> bool:
    """It has connections of its own on which it asks."""
    return isinstance(node, ast.Attribute) and node.attr in (
        "ClientSession", "HTTPConnection", "urlopen", "create_connection",
    )  # fmt: skip


def _prints(node: ast.AST) -> bool:
    """It writes to stdout or stderr."""
    if isinstance(node, ast.Call):
        return isinstance(node.func, ast.Name) and node.func.id == "print"
    writes = isinstance(node, ast.Attribute) and node.attr in ("write", "writelines")
    return writes and ast.unparse(node.value) in ("sys.stdout", "sys.stderr")


def _serves_http(node: ast.AST) -> bool:
    """It has a library's server of HTTP, which logs what clients send."""
    called = node.func if isinstance(node, ast.Call) else None
    return isinstance(called, ast.Attribute) and called.attr in ("AppRunner", "run_app")


def _loads_yaml(node: ast.AST) -> bool:
    """It reads YAML by the library, without bounds of what aliases mean."""
    loads = isinstance(node, ast.Attribute) and node.attr.endswith(("load", "load_all"))
    return loads and ast.unparse(node.value) == "yaml"


PLACES: dict[str, tuple[Matches, set[str]]] = {
    "quotes": (
        _quotes,
        {
            "service/koord_service/http_targets.py",
            # Names of headers.
            "kube/koord_kube/kubeconfig.py",
            # Paths of sockets in addresses of gRPC, and texts of its statuses.
            "cri/koord_cri/client.py",
            "koordlet/koordlet/plugin_watcher/client.py",
            "proxy/koord_proxy/hook_targets.py",
            "service/koord_service/grpc_sockets.py",
            "wire/koord_wire/headers.py",
        },
    ),
    "writes a path of the API": (
        _writes_api_path,
        {
            # What these serve themselves.
            "koordlet/koordlet/http_api/malachite/pages.py",
            "manager/koord_manager/metrics_apis/custom_metrics.py",
            "manager/koord_manager/metrics_apis/external_metrics.py",
            "manager/koord_manager/metrics_apis/resource_metrics.py",
            "manager/koord_manager/node_metric/api.py",
            "manager/koord_manager/node_metric/core/schema.py",
            "scheduler/koord_scheduler/program/services.py",
            # A page of that, without any name in it.
            "koordctl/koordctl/quota.py",
        },
    ),
    "makes a selector": (_makes_selector, {"kube/koord_kube/protocol/selectors.py"}),
    "prints": (_prints, {"service/koord_service/terminal.py"}),
    "loads YAML": (
        _loads_yaml,
        {
            "model/koord_model/yaml_documents.py",
            # Loaders of their own: one checks aliases, one takes no nested values.
            "scheduler/koord_scheduler/config/document.py",
            "service/koord_service/settings_file.py",
            # What cannot be read there may be a token.
            "kube/koord_kube/kubeconfig.py",
        },
    ),
    "serves": (_serves_http, {"serving/koord_serving/tls/https_listener.py"}),
    "opens a connection": (
        _opens_http,
        {
            "kube/koord_kube/client.py",
            "kube/koord_kube/http2_writer.py",
            "koordctl/koordctl/status_client.py",
            "service/koord_service/unix_http.py",
            # Fixed paths, at hosts that the configuration names.
            "koordlet/koordlet/states_informer/kubelet_client.py",
            "manager/koord_manager/cluster_page/neighbour.py",
            "scheduler/koord_scheduler/io/extender_client.py",
            "serving/koord_serving/admission/self_check.py",
        },
    ),
}


_CONCERNED = (ast.ImportFrom, ast.Constant, ast.Call, ast.Attribute)


def _found() -> dict[str, set[str]]:
    """The modules of each place; the demo and the simulation are no programs of a cluster."""
    found: dict[str, set[str]] = {what: set() for what in PLACES}
    for component in COMPONENTS:
        for module in component.rglob("*.py"):
            if {"build", "demo", "simulation"} & set(module.parts):
                continue
            if not module.name.endswith("_pb2.py"):
                nodes = _concerned(ast.parse(module.read_text()))
                for what, (matches, _) in PLACES.items():
                    if any(map(matches, nodes)):
                        found[what].add(str(module.relative_to(ROOT)))
    return found


def _concerned(module: ast.Module) -> list[ast.AST]:
    return [node for node in ast.walk(module) if isinstance(node, _CONCERNED)]


def test_who_does_this_is_known() -> None:
    """All at once: to parse all modules takes seconds."""
    assert _found() == {what: modules for what, (_, modules) in PLACES.items()}
