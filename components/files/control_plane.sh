#!/bin/sh
# The one control plane host, as root: makes a cluster by kubeadm, reads its kubeconfig again, or takes it down.
# usage: control_plane.sh init|again|reset SECONDS VERSION < kubeadm's documents
# May be cut anywhere and run again. kubeadm's own words go to a log that only root reads: a token may be among them.
set -eu
umask 077
mode=$1 seconds=$2 version=$3
kept=/etc/sparewheel-control-plane
admin=/etc/kubernetes/admin.conf
server=/etc/kubernetes/manifests/kube-apiserver.yaml
log=/var/log/sparewheel-kubeadm.log

say() { echo "control plane $(hostname): $*" >&2; }
fail() { say "$*"; exit 1; }

words() { # kubeadm's words since line $1 of the log, without tokens
    tail -n "+$1" "$log" | tail -n 12 | sed -E 's/[a-z0-9]{6}\.[a-z0-9]{16}/***/g' >&2
}

run() {
    from=$(($(wc -l <"$log") + 1))
    timeout --kill-after=10 "$seconds" kubeadm "$@" >>"$log" 2>&1 </dev/null && return
    code=$?
    words "$from"
    [ "$code" != 124 ] || fail "'kubeadm $1' did not end within $seconds s; the whole of it is in $log"
    fail "'kubeadm $1' failed with exit status $code; the whole of it is in $log"
}

is_made() { [ -e "$kept/made.json" ] && [ ! -e "$kept/begun" ]; }

as_made() { # the settings that kubeadm init got; the version is what the API server runs, which an upgrade changes
    changed=$(grep -v '"kubernetesVersion"' "$kept/wanted.json" | diff "$kept/made.json" - | sed -n 's/^[<>] *//p' | head -n 3)
    [ -z "$changed" ] || fail "settings changed since kubeadm init, and kubeadm applies none of them to a cluster that is" \
        "there: $changed. Put them back, or apply them by hand and copy $kept/wanted.json to made.json, without its version"
    grep -q "image: .*:v$version\$" "$server" || fail "runs another release than $version; upgrade it with" \
        "'kubeadm upgrade apply v$version' there, then run the up again"
}

make_it() {
    command -v kubeadm >/dev/null || fail "there is no kubeadm; install kubeadm, kubelet and a container runtime first"
    if [ -e "$kept/begun" ]; then
        say "an earlier kubeadm init was cut off; it begins anew"
        run reset --force
    elif [ -e "$admin" ] || [ -e /etc/kubernetes/kubelet.conf ] || [ -e "$server" ]; then
        fail "is in a cluster that this stack did not make; 'kubeadm reset' takes it out, or use it with kind: existing"
    fi
    touch "$kept/begun"
    run init --config "$kept/wanted.json" --skip-token-print
    grep -v '"kubernetesVersion"' "$kept/wanted.json" >"$kept/made.json"
    rm "$kept/begun"
}

mkdir -p "$kept"
touch "$log"
exec 9>>"$kept/lock"
flock -w "$seconds" 9 || fail "another run on it did not end within $seconds s; look for kubeadm there"
case $mode in
init | again)
    cat >"$kept/wanted.json"
    if is_made; then
        as_made
    elif [ "$mode" = init ]; then
        make_it
    else
        fail "has no control plane of this stack; put its old address back under cluster.control_plane.ssh," \
            "or destroy the stack first"
    fi
    cat "$admin"
    ;;
reset)
    if [ -e "$kept/made.json" ] || [ -e "$kept/begun" ]; then
        run reset --force
    else
        say "nothing of this stack is there"
    fi
    rm -rf "$kept"
    ;;
*) fail "$mode is none of init, again, reset" ;;
esac
