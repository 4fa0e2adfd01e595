"""Defragmentation: sets of moves that place a job that waits, or empty nodes. No IO.

Glossary:
    packing     free amounts and cards of nodes as arrays, and pods on them, with undo.
    unit        what a goal counts: room for one more pod, or a node without pods.
    step        moves of some pods that gain units on one node; a plan is steps in order.
    chain       a pod that makes room for a victim, one that makes room for that one, and so on.
    proof       a step made on the virtual cluster by the scheduler's own rules.
"""
