"""Usage of nodes: reports in NodeMetrics, and estimates for newer pods. No IO.

Formulas are those of Koordinator's plugin LoadAwareScheduling (pkg/scheduler/plugins/loadaware).

Glossary:
    estimate     what a pod will probably use: a part of its limit or request.
    report       a NodeMetric; a pod is reported once a NodeMetric has it.
    other pods   those that are not production pods.
"""
