#!/bin/sh
# A host that joins a kubeadm cluster, or leaves it, as root; may be cut anywhere and run again.
# usage: kubeadm_host.sh join SECONDS SOCKET MARK < JoinConfiguration
#        kubeadm_host.sh leave SECONDS SOCKET
# kubeadm's own words go to a log that only root reads; the last line on standard error says what went wrong.
set -eu
umask 077
mode=$1 seconds=$2 socket=$3
joined=/etc/kubernetes/sparewheel-joined
log=/var/log/sparewheel-kubeadm.log

end=$(($(date +%s) + seconds * 3 / 2)) # all of it, whatever had to be waited for

at_most() { # at_most SECONDS ; or what is left
    left=$((end - $(date +%s)))
    [ "$left" -ge 1 ] || left=1
    [ "$1" -lt "$left" ] && echo "$1" || echo "$left"
}

fail() { echo "$*" >&2; exit 1; }

why() { # kubeadm's complaints since line $1 of the log, in one line and without tokens
    found=$(tail -n "+$1" "$log" | grep -iE 'error|fail|timed? ?out' | tail -n 4 | tr '\n\t' '  ')
    echo "$found" | sed -E 's/[a-z0-9]{6}\.[a-z0-9]{16}/***/g' | cut -c 1-500
}

run() { # run SECONDS ARGUMENT... ; 0 or kubeadm's exit status
    limit=$(at_most "$1")
    shift
    timeout --kill-after=5 "$limit" kubeadm "$@" >>"$log" 2>&1 </dev/null
}

is_known() { # did anything of a join come as far as this disk?
    for file in kubelet.conf bootstrap-kubelet.conf sparewheel-joined; do
        [ ! -e "/etc/kubernetes/$file" ] || return 0
    done
    [ -e /var/lib/kubelet/config.yaml ]
}

pods_left() {
    find /sys/fs/cgroup \( -path '*kubepods*' -o -path '*/k8s.io/*' \) -name cgroup.procs -exec cat {} + 2>/dev/null |
        sort -un | head -n 5 | tr '\n' ' '
}

leave() {
    rm -f "$joined"
    from=$(($(wc -l <"$log") + 1))
    run "$1" reset --force --cri-socket "$socket" || fail "kubeadm reset failed, the log is $log: $(why "$from")"
    left=$(pods_left)
    [ -z "$left" ] || fail "processes of pods outlived kubeadm reset: $left; power the host off"
}

command -v kubeadm >/dev/null || fail "there is no kubeadm; install kubeadm, kubelet and a container runtime"
[ ! -e /etc/kubernetes/manifests/kube-apiserver.yaml ] || fail "it is a control plane host; take it out of the pool"
touch "$log"
exec 9>>/run/sparewheel-kubeadm.lock
flock -w "$seconds" 9 || fail "another join or leave did not end within $seconds s"
case $mode in
join)
    mark=$4
    work=$(mktemp -d /run/sparewheel-join.XXXXXX)
    trap 'rm -rf "$work"' EXIT
    cat >"$work/join.json"
    if [ -e "$joined" ] && [ "$(cat "$joined")" = "$mark" ] && systemctl is-active --quiet kubelet; then
        systemctl restart kubelet # it registers anew where its Node was removed
        exit 0
    fi
    ! is_known || leave 30
    from=$(($(wc -l <"$log") + 1))
    if ! run "$seconds" join --config "$work/join.json"; then
        said=$(why "$from")
        run 20 reset --force --cri-socket "$socket" || true
        fail "kubeadm join did not succeed within $seconds s, the log is $log: $said"
    fi
    echo "$mark" >"$joined"
    ;;
leave)
    if is_known || [ -n "$(pods_left)" ]; then
        leave "$seconds"
    fi
    ;;
*) fail "$mode is neither join nor leave" ;;
esac
