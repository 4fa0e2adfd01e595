"""What Koordinator 1.8.0's own manifests and programs have for arguments.

``MANIFESTS`` are those of ``config/manager`` at its tag v1.8.0, ``CHART`` those that its Helm chart
1.8.0 renders with its default values; the proxy is in neither, its are those of its design page.
``FLAGS`` are all flags that the programs define beside klog's, with a value that each takes.
"""

from __future__ import annotations

KOORDLET, MANAGER, PROXY = "koordlet", "koord-manager", "koord-runtime-proxy"
SCHEDULER, DEVICE_DAEMON = "koord-scheduler", "koord-device-daemon"
DESCHEDULER = "koord-descheduler"

COMMANDS = {
    KOORDLET: "/koordlet",
    MANAGER: "/koord-manager",
    PROXY: "/koord-runtime-proxy",
    SCHEDULER: "/koord-scheduler",
    DEVICE_DAEMON: "/koord-device-daemon",
    DESCHEDULER: "/koord-descheduler",
}
"""The command of each container; the proxy's is its image's entry point."""

_MANIFESTS = {
    KOORDLET: """
        -cgroup-root-dir=/host-cgroup/ -feature-gates=AllAlpha=true,AllBeta=true
        -runtime-hooks-network=unix -runtime-hooks-addr=/host-var-run-koordlet/koordlet.sock
        -runtime-hooks-host-endpoint=/var/run/koordlet//koordlet.sock --logtostderr=true --v=4
    """,
    MANAGER: """
        --enable-leader-election --metrics-addr=:8080 --health-probe-addr=:8000 --logtostderr=true
        --leader-election-namespace=koordinator-system --config-namespace=koordinator-system
        --v=4 --feature-gates= --sync-period=0
    """,
    SCHEDULER: """
        --port=10251 --authentication-skip-lookup=true --v=4 --feature-gates=
        --config=/config/koord-scheduler.config
    """,
    DEVICE_DAEMON: "--v=4",
    DESCHEDULER: """
        --port=10251 --authentication-skip-lookup=true --v=4 --feature-gates=
        --config=/config/koord-descheduler.config
    """,
    PROXY: """
        --backend-runtime-mode=Docker --remote-runtime-service-endpoint=/var/run/docker.sock
    """,
}
_CHART = {
    KOORDLET: """
        -addr=:9316 -cgroup-root-dir=/host-cgroup/
        -feature-gates=BECPUEvict=true,BEMemoryEvict=true,CgroupReconcile=true,Accelerators=true
        -runtime-hooks-host-endpoint=/var/run/koordlet/koordlet.sock --logtostderr=true --v=4
    """,
    MANAGER: """
        --enable-leader-election --metrics-addr=:8080 --health-probe-addr=:8000 --logtostderr=true
        --leader-election-namespace=koordinator-system --v=4 --feature-gates= --sync-period=0
        --config-namespace=koordinator-system
    """,
    SCHEDULER: """
        --port=10251 --authentication-skip-lookup=true --v=4 --feature-gates=
        --config=/config/koord-scheduler.config --enable-network-topology-manager=true
    """,
    DEVICE_DAEMON: "--v=4",
    DESCHEDULER: """
        --port=10251 --authentication-skip-lookup=true --v=4 --feature-gates=
        --config=/config/koord-descheduler.config
    """,
}
MANIFESTS = {program: tuple(words.split()) for program, words in _MANIFESTS.items()}
CHART = {program: tuple(words.split()) for program, words in _CHART.items()}

FLAGS = {
    KOORDLET: """
        addr=:9316 audit-log-dir=/var/log/koordlet audit-max-concurrent-readers=4
        audit-max-disk-space-mb=16 audit-max-events-limit=2048 audit-verbose=3
        cgroup-root-dir=/host-cgroup/ coldpage-collector-interval=5s collect-cpi-timewindow=10s
        collect-node-cpu-info-interval=60s collect-node-storage-info-interval=60s
        collect-res-used-interval=1s collect-sys-metric-outdated-interval=10s
        configmap-name=koordlet-config configmap-namespace=koordinator-system
        containerd-endpoint=/host-run/containerd/containerd.sock cpi-collector-interval=60s
        cpu-evict-cool-time-seconds=20 cpu-evict-interval-seconds=1
        cpu-suppress-interval-seconds=1 default-runtime-type=containerd
        disable-query-kubelet-config=false disable-unset-cpu-quota=false
        docker-endpoint=/host-var-run/docker.sock enable-node-metric-report=true
        enable-nri-runtime-hook=true enable-pagecache-collector=false enable-pod-taskids=false
        enable-pprof=false enable-resctrl-collector=false feature-gates=AllBeta=true
        hami-core-library-directory-path=/usr/local/vgpu/libvgpu.so kube-api-burst=30
        kube-api-qps=20 kubeconfig= kubelet-insecure-tls=false
        kubelet-preferred-address-type=InternalIP kubelet-read-only-port=10255
        kubelet-sync-interval=10s kubelet-sync-timeout=3s memory-evict-cool-time-seconds=4
        memory-evict-interval-seconds=1 metric-expire-seconds=1800 metric-gc-interval-seconds=300
        node-topology-sync-interval=3s only-evict-by-api=false
        pod-resources-proxy-path=/var/run/koordlet/pod-resources
        pouch-endpoint=/host-var-run/pouch.sock pprof-addr=:9317
        prediction-checkpoint-filepath=/prediction-checkpoints prediction-cold-start-duration=24h
        prediction-cpu-histogram-decay-halflife=12h
        prediction-memory-histogram-decay-halflife=24h
        prediction-model-checkpoint-interval=10m prediction-model-checkpoint-max-per-step=12
        prediction-model-expiration-duration=30m prediction-safety-margin-percent=10
        prediction-training-interval=1m proc-root-dir=/proc/ psi-collector-interval=10s
        qos-extension-plugins=a=true reconcile-interval-seconds=1 report-interval=60s
        resctrl-collector-interval=10s resource-force-update-seconds=60 run-root-dir=/host-run/
        runtime-hooks-addr=/host-var-run-koordlet/koordlet.sock
        runtime-hooks-config-path=/host-etc-hookserver/ runtime-hooks-disable-stages=
        runtime-hooks-failure-policy=Ignore
        runtime-hooks-host-endpoint=/var/run/koordlet//koordlet.sock runtime-hooks-network=unix
        runtime-hooks-nri-backoff-cap=1m0s runtime-hooks-nri-backoff-duration=1s
        runtime-hooks-nri-backoff-factor=2 runtime-hooks-nri-backoff-steps=2147483647
        runtime-hooks-nri-connect-timeout=6s runtime-hooks-nri-plugin-index=00
        runtime-hooks-nri-plugin-name=koordlet_nri runtime-hooks-nri-socket-path=nri/nri.sock
        runtime-hooks-plugin-failure-policy=Ignore runtime-hooks-reconcile-interval=10s
        sys-fs-root-dir=/host-sys-fs/ sys-root-dir=/host-sys/
        tsdb-enable-prometheus-metric=true tsdb-head-chunks-write-buffer-size=1048576
        tsdb-max-block-chunk-segment-size=5242880 tsdb-max-block-duration=1m0s
        tsdb-max-bytes=104857600 tsdb-min-block-duration=30s tsdb-path=/metric-data/
        tsdb-retention-duration=12h0m0s tsdb-stripe-size=16384 tsdb-wal-segment-size=1048576
        var-lib-kubelet-dir=/var/lib/kubelet/ var-run-root-dir=/host-var-run/
        xpu-device-infos-dir=/var/run/koordlet/xpu-device-infos/
        xpu-enforce-collect-from-device-infos=false
    """,
    MANAGER: """
        colocation-profile-expire-pod-cache-duration=10m
        colocation-profile-force-update-pod-duration=5m
        colocation-profile-reconcile-by-default=false colocation-profile-reconcile-interval=30s
        colocation-profile-update-pod-qps=10 colocation-profile-update-pod-qps-burst=100
        config-namespace=koordinator-system controllers=* disable-no-deepcopy=false
        enable-leader-election=true enable-pprof=true feature-gates= health-probe-addr=:8000
        kubeconfig= leader-elect-resource-lock=leases
        leader-election-namespace=koordinator-system metrics-addr=:8080 namespace=
        node-strategy-name-need-check=true noderesource-plugins=*
        pod-enhanced-validator-config-name=pod-enhanced-validator-config
        pod-enhanced-validator-config-namespace=koordinator-system
        pod-enhanced-validator-reconcile-interval=30s pprof-addr=:8090 rest-config-burst=50
        rest-config-qps=30 slo-config-name=slo-controller-config sync-period=0
    """,
    PROXY: """
        backend-runtime-mode=Containerd
        koord-runtimeproxy-endpoint=/var/run/koord-runtimeproxy/runtimeproxy.sock
        remote-runtime-service-endpoint=/var/run/containerd/containerd.sock
        runtime-hook-server-key=runtimeproxy.koordinator.sh/skip-hookserver
        runtime-hook-server-val=true
    """,
}

KLOG = """
    add_dir_header=false alsologtostderr=false log_backtrace_at=:0 log_dir= log_file=
    log_file_max_size=1800 logtostderr=true one_output=false skip_headers=false
    skip_log_headers=false stderrthreshold=2 v=4 vmodule=
"""
