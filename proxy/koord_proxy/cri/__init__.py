"""CRI as the proxy speaks it: gRPC between the kubelet and its runtime, relayed as HTTP/2 frames.

Glossary:
    CriSession one client connection and its backend connection, without IO.
    held call  a call whose request waits here until the hooks have answered.
    watched    a call relayed at once, whose request and response are read.
    calls      the intercepted methods and their messages.
    hook_requests  requests to what hooks know, and what hooks changed back into requests.
"""
