"""Hooks on each step of a pod's life, decided without any IO.

Glossary:
    Stage        a moment in a pod's life at which hooks are asked.
    hook         a function of a plugin, named after its stage (``specs``).
    plugin       a module with hooks: ``builtin/x.py``, or a third party's,
                 found through the entry-point group ``pykoord.hooks``.
    HookRunner   the plugins in use; runs one stage and merges what they want.
    protocol     hook requests and responses of the wire, to and from the model.
"""
