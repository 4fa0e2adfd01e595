"""Contracts between the proxy's parts, the same for CRI and Docker's API. No IO.

Glossary:
    events          what a session reports to the shell around it, and the session itself.
    runtime_api     an API: which of its calls are intercepted, and how they are read.
    runtime_client  what the proxy asks of a runtime itself.
"""
