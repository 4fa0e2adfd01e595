"""The CRI proxy: a frame relay between the kubelet and its container runtime.

Glossary:
    wire       HTTP/2 frames, header blocks, windows, gRPC messages: bytes only.
    Session    one client connection and its backend connection, without IO.
    held call  a call whose request waits here until the hooks have answered.
    watched    a call relayed at once, whose request and response are read.
    rules      what a hook is asked about a CRI call, and how its answer is merged.
    Store      the pods and containers seen, in memory and in a database.
    Dispatcher asks hook servers and in-process plugins, with deadlines.
    server     sockets and tasks around all that.
"""
