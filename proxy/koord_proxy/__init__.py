"""The proxy between the kubelet and its container runtime, over CRI or Docker's API.

Glossary:
    RelaySession one client connection and its backend connection, without IO.
    held call    a call whose request waits here until the hooks have answered.
    watched      a call relayed at once, whose request and response are read.
    RuntimeApi   which calls of an API are intercepted, and how they are read.
    cri, docker  the two APIs, each with its session.
    rules        what hooks are asked about, how answers are merged, what is remembered.
    Interceptor  the life of an intercepted call, in either API.
    RecordStore  the pods and containers seen, in memory and in a database.
    Dispatcher   asks hook servers and in-process plugins, with deadlines.
    server       sockets and tasks around all that.
"""
