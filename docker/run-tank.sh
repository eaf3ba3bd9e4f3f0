#!/usr/bin/env bash
# Start a PufferTank container on this machine: the one list of flags for `docker run`.
#
#   docker/run-tank.sh [--name NAME] [--image IMAGE] [--no-gpu] [--dry-run] [-- COMMAND...]
#
#   docker/run-tank.sh                          # a shell
#   docker/run-tank.sh -- puffer train nethack
#
# The checkout that this script lies in is mounted at /puffer, and the volume NAME-home keeps the
# home. Files belong to you, inside and outside. --dry-run prints the command instead.
#
# Variables:
#   PUFFER_SHM     size of /dev/shm (default: half the memory, 16 GB at most)
#   PUFFER_NOFILE  limit of open files (default: 1048576, or your hard limit if that is lower)
#   PUFFER_PORTS   ports to publish on 127.0.0.1 (default: "6006", TensorBoard; "" for none)
set -euo pipefail

ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
NAME=puffertank
IMAGE=
GPU=auto
DRY_RUN=0
COMMAND=()
FLAGS=()

say() { printf '%s\n' "$*" >&2; }

fail() {
    say "error: $1"
    shift
    local line
    for line in "$@"; do say "  $line"; done
    exit 1
}

usage_error() {
    say "error: $1"
    say "usage: docker/run-tank.sh [--name NAME] [--image IMAGE] [--no-gpu] [--dry-run] [-- COMMAND...]"
    exit 2
}

parse_arguments() {
    while (($#)); do
        case $1 in
            -h | --help)
                sed -n '2,/^set -euo/{/^#/s/^# \{0,1\}//p;}' "${BASH_SOURCE[0]}"
                exit 0
                ;;
            --name | --image)
                (($# > 1)) || usage_error "$1: expected a value"
                if [[ $1 == --name ]]; then NAME=$2; else IMAGE=$2; fi
                shift 2
                ;;
            --no-gpu)
                GPU=no
                shift
                ;;
            --dry-run)
                DRY_RUN=1
                shift
                ;;
            --)
                shift
                COMMAND=("$@")
                break
                ;;
            *) usage_error "$1: unknown argument (a command goes after --)" ;;
        esac
    done
}

# yes or no; a GPU whose driver does not answer ends the script with what to do.
find_gpu() {
    local answer
    [[ $GPU == auto ]] || return 0
    GPU=no
    command -v nvidia-smi >/dev/null 2>&1 || return 0
    if answer=$(timeout 20 nvidia-smi -L 2>&1); then
        if [[ $answer == GPU* ]]; then GPU=yes; fi
        return 0
    fi
    answer=$(head -n 1 <<<"$answer")
    case $answer in
        *"Driver/library version mismatch"*)
            fail "nvidia-smi says: $answer" \
                "The driver was upgraded while its old module was loaded: reboot this machine," \
                "or go on without the GPU: --no-gpu"
            ;;
        *) fail "nvidia-smi says: $answer" \
            "Make 'nvidia-smi' work on this machine, or go on without the GPU: --no-gpu" ;;
    esac
}

# Try --gpus once with the image itself, since its failures have many causes and one remedy each.
check_gpus_flag() {
    local answer
    [[ $GPU == yes ]] && ((! DRY_RUN)) || return 0
    if answer=$(docker run --rm --gpus all --entrypoint true "$IMAGE" 2>&1); then return 0; fi
    case $answer in
        *"could not select device driver"* | *"failed to discover GPU vendor"* | *"nvidia-container-runtime"*)
            fail "this machine has a GPU, but docker cannot give it to containers" \
                "Install the NVIDIA container toolkit (package nvidia-container-toolkit), then run" \
                "  sudo nvidia-ctk runtime configure --runtime=docker && sudo systemctl restart docker" \
                "or go on without the GPU: --no-gpu"
            ;;
        *"Driver/library version mismatch"*)
            fail "the NVIDIA driver and its libraries have different versions" \
                "Reboot this machine, or go on without the GPU: --no-gpu"
            ;;
        *) fail "docker run --gpus all fails:" "$answer" \
            "Go on without the GPU: --no-gpu" ;;
    esac
}

check_engine() {
    ((! DRY_RUN)) || return 0
    docker version >/dev/null 2>&1 \
        || fail "no docker engine answers" \
            "Start it (sudo systemctl start docker), and see that you may use it: docker version"
    docker image inspect "$IMAGE" >/dev/null 2>&1 \
        || fail "there is no image $IMAGE" "Build it: invoke build-stage3"
}

shm_size() {
    local kilobytes=
    kilobytes=$(awk '/^MemTotal:/ {print $2}' /proc/meminfo 2>/dev/null || true)
    # No /proc: the engine runs in a virtual machine of unknown size.
    if [[ -z $kilobytes ]]; then
        echo 2g
        return
    fi
    local megabytes=$((kilobytes / 2048))
    echo "$((megabytes < 16384 ? megabytes : 16384))m"
}

open_files() {
    local hard
    hard=$(ulimit -Hn)
    [[ $hard != unlimited ]] && ((hard < 1048576)) || hard=1048576
    echo "$hard"
}

# In a rootless engine the container's root is the user.
user_ids() {
    local options=
    ((DRY_RUN)) || options=$(docker info --format '{{.SecurityOptions}}')
    if [[ $options == *rootless* ]]; then echo 0 0; else echo "$(id -u) $(id -g)"; fi
}

# Windows on the screen of this machine, where it has one.
add_display() {
    if [[ -n ${DISPLAY:-} && -d /tmp/.X11-unix ]]; then
        FLAGS+=(-e "DISPLAY=$DISPLAY" -v /tmp/.X11-unix:/tmp/.X11-unix:ro)
        if [[ -f ${XAUTHORITY:-} ]]; then
            FLAGS+=(-e XAUTHORITY=/tmp/.Xauthority -v "$XAUTHORITY:/tmp/.Xauthority:ro")
        fi
    fi
    local wayland=${XDG_RUNTIME_DIR:-/nonexistent}/${WAYLAND_DISPLAY:-none}
    if [[ -S $wayland ]]; then
        FLAGS+=(-e WAYLAND_DISPLAY=wayland-host -e XDG_RUNTIME_DIR=/tmp
            -v "$wayland:/tmp/wayland-host")
    fi
    if [[ -d /mnt/wslg ]]; then FLAGS+=(-v /mnt/wslg:/mnt/wslg); fi
}

port_is_free() { ! (exec 3<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null; }

add_ports() {
    local port
    for port in ${PUFFER_PORTS-6006}; do
        if port_is_free "$port"; then
            FLAGS+=(-p "127.0.0.1:$port:$port")
        else
            say "note: port $port is in use on this machine, so it is not published"
        fi
    done
}

collect_flags() {
    local uid gid
    read -r uid gid < <(user_ids)
    FLAGS=(--rm -i --init --name "$NAME" --hostname "$NAME")
    if [[ -t 0 && -t 1 ]]; then FLAGS+=(-t); fi
    FLAGS+=(--shm-size "${PUFFER_SHM:-$(shm_size)}" --ulimit "nofile=${PUFFER_NOFILE:-$(open_files)}")
    FLAGS+=(-e "PUFFER_UID=$uid" -e "PUFFER_GID=$gid")
    local home=/home/puffer
    if ((uid == 0)); then home=/root; fi
    FLAGS+=(-v "$ROOT:/puffer" -v "$NAME-home:$home")
    if [[ $GPU == yes ]]; then FLAGS+=(--gpus all); fi
    add_display
    add_ports
}

main() {
    parse_arguments "$@"
    find_gpu
    if [[ -z $IMAGE ]]; then
        IMAGE=puffertank/tank:cpu
        if [[ $GPU == yes ]]; then IMAGE=puffertank/tank:cuda; fi
    fi
    check_engine
    check_gpus_flag
    collect_flags
    local line=(docker run "${FLAGS[@]}" "$IMAGE" "${COMMAND[@]}")
    if ((DRY_RUN)); then
        printf '%q ' "${line[@]}"
        echo
    else
        exec "${line[@]}"
    fi
}

main "$@"
