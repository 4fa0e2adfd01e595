"""Output of all commands: a document for programs, and blocks of text for people.

A command returns both as ``CommandOutput`` and knows nothing of terminals; ``writer`` shows one of
them in the format that the user asked for.
"""
