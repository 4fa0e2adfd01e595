"""From the frozen view to plans, each second.

view      what every strategy gets: pods, newest values, windows, cgroups
strategy  a module of ``strategies``: a function from view to plan
plan      what a strategy wants now, with its arithmetic as data
decision  one such piece of arithmetic: inputs, formula, outcome
claim     "this much must be freed, from these pods in this order" (``eviction``)
"""
