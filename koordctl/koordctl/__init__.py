"""The command line for people: what a node's proxy says of itself, in words.

Glossary:
    client   asks a status page, over TCP or a unix socket.
    answers  what the pages hold, as typed values.
    render   answers to lines of text, without IO.
"""
