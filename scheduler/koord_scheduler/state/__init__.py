"""The cluster as numpy columns: a node is a row. No IO.

Glossary:
    row        a node's place in every column; free again once the node is gone.
    code       a small number for a text (a label's value, a set of taints); -1 for none.
    generation changes when columns got longer: whoever keeps something by row begins anew.
    journal    which rows changed, in order: whoever keeps something by row looks at those alone.
"""
