"""The Docker Engine API as the proxy speaks it: HTTP/1.1 between cri-dockerd and dockerd.

Glossary:
    exchange   one HTTP request and its response; a connection has one at a time.
    tunnel     a connection that has left HTTP (attach, exec, BuildKit): bytes both ways.
    engine     dockerd, on the other side.
    sandbox    the container that holds a pod's namespaces, ``k8s_POD_…``.
"""
