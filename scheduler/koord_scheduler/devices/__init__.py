"""GPUs of nodes: which cards a pod gets, and how much a placement leaves usable. No IO.

Glossary:
    card        a GPU; free capacity is in thousandths of a card.
    share       how much of each of its cards a pod requests, in thousandths; 1000 is a whole card.
    kind        a request, and how often pods request just that; a typical workload is many kinds.
    fragment    free capacity of a card that a kind cannot use: the card or the node has too little.
    value       what the free capacity of a node is worth, in thousandths of a card.
"""
