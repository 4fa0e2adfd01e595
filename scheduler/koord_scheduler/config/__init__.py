"""KubeSchedulerConfiguration (``kubescheduler.config.k8s.io/v1``) made profiles. No IO.

Text becomes a document (``document``), a document becomes structures with Kubernetes'
fields (``component_config``, ``plugin_args``), the plugins of a profile are found for each
extension point as kube-scheduler finds them (``plugin_points``, ``known_plugins``) and built
(``builders``). ``scheduler_config`` is where to begin.
"""
