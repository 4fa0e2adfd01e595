"""What hook servers are asked about a call, and what their responses change. No IO.

Glossary:
    facts              what is known of a pod or container, as the ``HookRequest`` that hook servers
                       get; also what the store remembers.
    desired value      one field that a hook response changes.
    Merge              the facts with the responses so far applied, and which server changed what.
    InterceptedMethod  a CRI method that is intercepted: its stages, its effect on records.
"""
