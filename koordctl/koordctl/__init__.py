"""The command line for people: what a node's koordlet and proxy say of themselves, in words.

Glossary:
    client    asks a status page, over TCP or a unix socket.
    answers   what the proxy's pages hold, as typed values; observed: koordlet's.
    render    answers to lines of text, without IO; amounts: numbers to text.
    screen    a terminal drawn over again, for what is live.
"""
