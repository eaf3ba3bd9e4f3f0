#!/usr/bin/env bash
# The container engine that the platform tests use.
#
#   tests/platform/engine.sh up       use the engine that answers, else install and start one;
#                                     then make the Debian base image and what else the tests need
#   tests/platform/engine.sh down     stop the engine if `up` started it; any other one stays
#   tests/platform/engine.sh status   say what answers; exit 1 if nothing does
#   tests/platform/engine.sh vm-tools      install what emulates a machine of its own
#   tests/platform/engine.sh second-up     start another engine, empty, to move images to; the last
#                                          line is its address, for DOCKER_HOST
#   tests/platform/engine.sh second-down   stop it and remove its data
#
# Works as root on Debian 12, without a terminal. Debian 12's own engine (20.10) lacks bake and named
# contexts, so engine and plugins come from Debian 13, pinned so that nothing else does (runc would
# need a newer libc and stays). The mirrors are those that this machine already uses.
#
# Variables:
#   PUFFER_ENGINE_DIR   data of an engine started here (default: ~/.cache/puffertank/engine). It may
#                       be removed after `down`; kept, it makes the next build fast.
set -euo pipefail

DIR=${PUFFER_ENGINE_DIR:-${XDG_CACHE_HOME:-$HOME/.cache}/puffertank/engine}
PID_FILE=$DIR/dockerd.pid
SECOND=$DIR/second
MINIMUM=26
BASE=puffertank-test/debian:bookworm
FROM_TRIXIE=(docker.io docker-cli docker-buildx docker-compose containerd)
DEBIAN_SOURCES=/etc/apt/sources.list.d/debian.sources
KEYRING=/usr/share/keyrings/debian-archive-keyring.gpg

say() { printf 'engine: %s\n' "$*"; }

fail() {
    say "error: $*" >&2
    exit 1
}

answers() { timeout 10 docker version >/dev/null 2>&1; }

engine_version() { docker version --format '{{.Server.Version}}'; }

# Whether the process of a pid file is an engine.
runs() { [[ -s $1 && $(ps -o comm= -p "$(<"$1")" 2>/dev/null) == dockerd ]]; }

ours_runs() { runs "$PID_FILE"; }

# The first mirror of Debian itself among the configured ones, in either format of apt's sources.
debian_mirror() {
    local mirror
    mirror=$(awk '/^URIs:/ {print $2; exit}' "$DEBIAN_SOURCES" 2>/dev/null || true)
    [[ -n $mirror ]] || mirror=$(awk '$1 == "deb" {for (i = 2; i <= NF; i++)
        if ($i ~ /^https?:/) {print $i; exit}}' /etc/apt/sources.list 2>/dev/null || true)
    [[ -n $mirror ]] || fail "no Debian mirror found in apt's sources"
    printf '%s\n' "$mirror"
}

write_apt_pins() {
    printf 'deb [signed-by=%s] %s trixie main\n' "$KEYRING" "$(debian_mirror)" \
        >/etc/apt/sources.list.d/puffertank-test.list
    cat >/etc/apt/preferences.d/puffertank-test <<EOT
Package: *
Pin: release n=trixie
Pin-Priority: 100

Package: ${FROM_TRIXIE[*]}
Pin: release n=trixie
Pin-Priority: 900
EOT
}

# Packages among the arguments that are not installed yet.
missing_packages() {
    local package
    for package in "$@"; do
        [[ $(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null) == installed ]] \
            || printf '%s\n' "$package"
    done
}

apt_install() {
    local missing
    mapfile -t missing < <(missing_packages "$@")
    ((${#missing[@]})) || return 0
    ((EUID == 0)) || fail "needs root to install: ${missing[*]}"
    say "installing ${missing[*]}"
    apt-get update -qq
    DEBIAN_FRONTEND=noninteractive apt-get install -yqq --no-install-recommends "${missing[@]}" \
        >/dev/null
}

install_engine() {
    ((EUID == 0)) || fail "no engine answers, and only root can install and start one"
    write_apt_pins
    # Everything at once: one apt run is half a minute shorter than two.
    apt_install "${FROM_TRIXIE[@]}" iptables procps mmdebstrap docker-registry openssh-client rsync
}

# start DIR COMMAND...: start an engine that keeps everything in DIR, by COMMAND (dockerd and what
# goes before and after it), and wait until it answers.
start() {
    local dir=$1 try
    shift
    mkdir -p "$dir"
    # The engine outlives this script: a session of its own, and none of the files that the caller
    # holds open (a lock among them would never be released).
    (
        for fd in /proc/self/fd/*; do
            fd=${fd##*/}
            ((fd <= 2)) || eval "exec $fd>&-"
        done
        exec setsid "$@" --data-root "$dir/root" --exec-root "$dir/exec" \
            --pidfile "$dir/dockerd.pid" >"$dir/dockerd.log" 2>&1 </dev/null
    ) &
    for ((try = 0; try < 150; try++)); do
        if answers; then return; fi
        sleep 0.2
    done
    tail -n 20 "$dir/dockerd.log" >&2
    fail "dockerd does not answer; its log is $dir/dockerd.log"
}

# stop PID_FILE: stop the engine that wrote it.
stop() {
    local pid
    pid=$(<"$1")
    kill "$pid"
    while kill -0 "$pid" 2>/dev/null; do sleep 0.2; done
    rm -f "$1"
}

# A small MTU works everywhere.
start_engine() { start "$DIR" dockerd --mtu=1400; }

check_version() {
    local version
    version=$(engine_version)
    ((${version%%.*} >= MINIMUM)) \
        || fail "engine $version is too old: expected $MINIMUM or newer (bake and named contexts)"
    docker buildx version >/dev/null 2>&1 || fail "the docker plugin buildx is missing"
    docker compose version >/dev/null 2>&1 || fail "the docker plugin compose is missing"
}

# Debian 12 as the Dockerfiles expect it, from the machine's own mirrors; no registry needed.
make_base_image() {
    docker image inspect "$BASE" >/dev/null 2>&1 && return
    apt_install mmdebstrap
    say "making $BASE"
    local sources=$DEBIAN_SOURCES archive
    [[ -r $sources ]] || sources=/etc/apt/sources.list
    archive=$(mktemp --suffix=.tar)
    mmdebstrap --quiet --variant=minbase --mode=root bookworm "$archive" "$sources"
    docker import "$archive" "$BASE" >/dev/null
    rm -f "$archive"
}

install_test_tools() {
    apt_install docker-registry openssh-client rsync
    command -v npm >/dev/null 2>&1 || apt_install nodejs npm
}

up() {
    if ! answers; then
        install_engine
        start_engine
    fi
    check_version
    make_base_image
    install_test_tools
    status
}

down() {
    if ! ours_runs; then
        say "nothing to stop: no engine was started here"
        return
    fi
    stop "$PID_FILE"
    say "stopped"
}

# In a network namespace of its own: an engine without a bridge deletes the interface docker0, which
# is the first one's, and rules for the firewall would meet the first one's.
second-up() {
    ((EUID == 0)) || fail "only root can start a second engine"
    local address=unix://$SECOND/docker.sock
    runs "$SECOND/dockerd.pid" || DOCKER_HOST=$address start "$SECOND" \
        unshare --net dockerd --bridge=none --iptables=false --ip6tables=false --host "$address"
    say "the second engine answers at"
    printf '%s\n' "$address"
}

second-down() {
    if runs "$SECOND/dockerd.pid"; then stop "$SECOND/dockerd.pid"; fi
    rm -rf "$SECOND"
    say "the second engine is stopped and its data removed"
}

vm-tools() { apt_install e2fsprogs openssh-client qemu-system-x86; }

status() {
    if ! answers; then
        say "none answers (start one: tests/platform/engine.sh up)"
        return 1
    fi
    local whose="not started here"
    if ours_runs; then whose="started here, process $(<"$PID_FILE")"; fi
    say "$(engine_version), $whose"
}

case ${1:-} in
    up | down | status | vm-tools | second-up | second-down) "$1" ;;
    *)
        echo "usage: tests/platform/engine.sh up|down|status|vm-tools|second-up|second-down" >&2
        exit 2
        ;;
esac
