"""Predictions for pods and the node: histograms of usage, and peaks. No IO.

- **model**: the histograms of CPU and memory of one UID: a pod, the node, a priority class
  of it, or what no pod uses ("sys").
- **sample**: what one UID used over the last training interval.
- **peak**: a percentile of a model, plus the safety margin.
- **reclaimable**: what prod pods ask for and will not need, which others may borrow.
- **cold**: too young to be predicted; its request counts.
"""
