"""What a hook is asked about a CRI call, and what its answer changes. No IO.

Glossary:
    facts      what is known of a pod or container, as the hook request that
               hook servers are asked with; also what the store remembers.
    wish       one field a response wants changed.
    Merge      the facts as all servers asked so far want them, and who wanted what.
    Method     a CRI method that is intercepted: its stages, its effect on records.
"""
