"""Requests to hook servers about a call, and the merge of their responses. No IO.

Glossary:
    hook request       all that is known of a pod or container, in the form that hook servers get;
                       the store keeps it too.
    desired value      one field that a hook response changes.
    Merge              a hook request with the responses applied so far, and who changed what.
    InterceptedMethod  a CRI method that is intercepted: its stages, its effect on records.
"""
