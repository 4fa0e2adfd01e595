"""Flags of Koordinator's koordlet without a meaning here: its manifests start ours as they are."""

from __future__ import annotations

from koord_service.go_flags import go_flags

IGNORED = go_flags(
    values=(
        "audit-log-dir",
        "audit-max-concurrent-readers",
        "audit-max-disk-space-mb",
        "audit-max-events-limit",
        "audit-verbose",
        "configmap-name",
        "configmap-namespace",
        "docker-endpoint",
        "hami-core-library-directory-path",
        "metric-expire-seconds",
        "metric-gc-interval-seconds",
        "pod-resources-proxy-path",
        "pouch-endpoint",
        "pprof-addr",
        "qos-extension-plugins",
        "report-interval",
        "run-root-dir",
        "runtime-hooks-nri-backoff-cap",
        "runtime-hooks-nri-backoff-duration",
        "runtime-hooks-nri-backoff-factor",
        "runtime-hooks-nri-backoff-steps",
        "runtime-hooks-nri-connect-timeout",
        "tsdb-head-chunks-write-buffer-size",
        "tsdb-max-block-chunk-segment-size",
        "tsdb-max-block-duration",
        "tsdb-min-block-duration",
        "tsdb-retention-duration",
        "tsdb-stripe-size",
        "tsdb-wal-segment-size",
        "var-run-root-dir",
    ),
    switches=(
        "enable-pod-taskids",
        "enable-pprof",
        "tsdb-enable-prometheus-metric",
        "xpu-enforce-collect-from-device-infos",
    ),
)
