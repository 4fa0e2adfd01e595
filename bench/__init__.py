"""Costs of the proxy, measured in turns beside its peers.

Glossary:
    path      a way from the client to the backend: direct, socat, HAProxy, the proxy.
    turn      one path measured once; a round is one turn of every path.
    added     what a path takes more than the direct one, medians over all rounds.
    Measure   one line of the results: ours, the peer's, their ratio, the target.
"""
