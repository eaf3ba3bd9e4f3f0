#!/usr/bin/env bash
# Set up pufferlib in a virtual environment and run a command in it.
#
#   provisioning/venv.sh [--venv DIR] [--lock FILE] EXTRAS [-- COMMAND [ARGUMENT...]]
#
#   provisioning/venv.sh nethack -- puffer train nethack
#   provisioning/venv.sh dev -- pytest -n auto
#
# EXTRAS are names from pyproject.toml, separated by commas. The versions are those of
# constraints.txt, or of the file of the repository that --lock names: 'constraints/rllib.txt' for
# the extra rllib. A second run with nothing new to install starts the command at once.
#
# Variables:
#   PUFFER_TORCH_INDEX     package index to take torch from. Set it to PyTorch's CPU wheel index on
#                          a machine without a GPU, to avoid gigabytes of CUDA libraries.
#   PUFFER_REQUIRE_NATIVE  1: fail where the native core cannot be compiled; 0: go on without it.
#                          Default: 1 with the extra 'dev', else 0.
#   PUFFER_PYTHON          Python interpreter to use (default: the first 3.11 or newer on PATH).
set -euo pipefail

ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
VENV=$ROOT/.venv
LOCK=constraints.txt
# Debian 12's own pip is of 2023 and takes three times as long to find out what to install.
PIP=pip==26.3
EXTRAS=
COMMAND=()
PYTHON=

say() { printf '%s\n' "$*" >&2; }

fail() {
    say "error: $1"
    shift
    local line
    for line in "$@"; do say "  $line"; done
    exit 1
}

usage() {
    sed -n '2,/^set -euo/{/^#/s/^# \{0,1\}//p;}' "${BASH_SOURCE[0]}"
}

usage_error() {
    say "error: $1"
    say "usage: provisioning/venv.sh [--venv DIR] [--lock FILE] EXTRAS [-- COMMAND [ARGUMENT...]]"
    exit 2
}

parse_arguments() {
    while (($#)); do
        case $1 in
            -h | --help)
                usage
                exit 0
                ;;
            --venv)
                (($# > 1)) || usage_error "--venv: expected a directory"
                VENV=$2
                shift 2
                ;;
            --lock)
                (($# > 1)) || usage_error "--lock: expected a file, such as constraints/rllib.txt"
                LOCK=$2
                shift 2
                ;;
            --)
                shift
                (($#)) || usage_error "--: expected a command after it"
                COMMAND=("$@")
                break
                ;;
            -*) usage_error "$1: unknown option" ;;
            *)
                [[ -z $EXTRAS ]] || usage_error "$1: expected -- between extras and command"
                EXTRAS=$1
                shift
                ;;
        esac
    done
    [[ -n $EXTRAS ]] || usage_error "EXTRAS: expected at least one, such as nethack or dev"
    [[ $VENV == /* ]] || VENV=$PWD/$VENV
    [[ -f $ROOT/$LOCK ]] || usage_error "--lock: $LOCK is no file of the repository"
}

# What the system lacks, and the one line that brings it.
how_to_install() {
    if command -v apt-get >/dev/null 2>&1; then
        printf 'install: sudo apt-get install -y %s' "$*"
    else
        printf 'install with your package manager what Debian calls: %s' "$*"
    fi
}

find_python() {
    local candidate
    local candidates=(python3.11 python3.12 python3.13 python3)
    [[ -z ${PUFFER_PYTHON:-} ]] || candidates=("$PUFFER_PYTHON")
    for candidate in "${candidates[@]}"; do
        if "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
            PYTHON=$candidate
            return
        fi
    done
    fail "expected Python 3.11 or newer, found none as: ${candidates[*]}" \
        "$(how_to_install python3 python3-venv python3-dev g++)" \
        "or name one with PUFFER_PYTHON=/path/to/python3.11"
}

check_venv_module() {
    "$PYTHON" -c 'import ensurepip, venv' 2>/dev/null \
        || fail "$PYTHON has no complete venv module (Debian packages it apart)" \
            "$(how_to_install python3-venv)"
}

check_extras() {
    "$PYTHON" - "$ROOT/pyproject.toml" "$EXTRAS" <<'PYTHON' || exit 2
import difflib, sys, tomllib

with open(sys.argv[1], "rb") as file:
    known = tomllib.load(file)["project"]["optional-dependencies"]
for extra in sys.argv[2].split(","):
    if extra not in known:
        near = difflib.get_close_matches(extra, known, 1)
        hint = f"; did you mean {near[0]}?" if near else ""
        print(f"error: unknown extra {extra!r}{hint}", file=sys.stderr)
        print(f"  extras: {' '.join(sorted(known))}", file=sys.stderr)
        sys.exit(1)
PYTHON
}

check_compiler() {
    if [[ ,$EXTRAS, == *,dev,* ]]; then
        export PUFFER_REQUIRE_NATIVE=${PUFFER_REQUIRE_NATIVE:-1}
    fi
    local missing=()
    command -v "${CXX:-c++}" >/dev/null 2>&1 || command -v g++ >/dev/null 2>&1 \
        || command -v clang++ >/dev/null 2>&1 || missing+=(g++)
    "$PYTHON" -c 'import pathlib, sys, sysconfig
header = pathlib.Path(sysconfig.get_path("include"), "Python.h")
sys.exit(not header.exists())' || missing+=(python3-dev)
    ((${#missing[@]})) || return 0
    if [[ ${PUFFER_REQUIRE_NATIVE:-0} != 0 ]]; then
        fail "the native core needs a C++ compiler and Python's headers (missing: ${missing[*]})" \
            "$(how_to_install "${missing[@]}")" \
            "or go on without it, slower: PUFFER_REQUIRE_NATIVE=0"
    fi
    say "note: no native core, the slower NumPy functions are used (missing: ${missing[*]})"
    say "  $(how_to_install "${missing[@]}")"
}

# One line that changes whenever something must be installed again.
lock_state() {
    "$PYTHON" - "$ROOT" "$LOCK" "${PUFFER_TORCH_INDEX:-}" <<'PYTHON'
import hashlib, pathlib, sys

root, lock, index = pathlib.Path(sys.argv[1]), *sys.argv[2:]
digest = hashlib.sha256(f"{sys.version}|{root}|{index}".encode())
native = sorted(p for p in (root / "pufferlib" / "native").iterdir() if p.suffix != ".py")
names = [root / lock, root / "pyproject.toml", root / "CMakeLists.txt", *native]
for path in filter(pathlib.Path.is_file, names):
    digest.update(path.read_bytes())
print(digest.hexdigest())
PYTHON
}

has_nvidia_gpu() {
    [[ -e /proc/driver/nvidia/version || -e /dev/nvidia0 || -e /dev/dxg ]]
}

# Run pip with its output in the log; show the end of it when it fails.
pip_install() {
    local log=$VENV/install.log
    if ! "$VENV/bin/python" -m pip install --disable-pip-version-check "$@" >>"$log" 2>&1; then
        tail -n 30 "$log" >&2
        fail "pip install failed; the whole log is $log"
    fi
}

install_torch() {
    if [[ -n ${PUFFER_TORCH_INDEX:-} ]]; then
        say "torch from $PUFFER_TORCH_INDEX ..."
        # Dependencies come from the usual index: this one has few versions of them. Forced,
        # because another variant of the same version would count as installed.
        pip_install --no-compile --no-deps --force-reinstall --index-url "$PUFFER_TORCH_INDEX" \
            -c "$LOCK" torch
    elif ! has_nvidia_gpu && ! compgen -G "$VENV/lib/python*/site-packages/torch" >/dev/null; then
        say "note: no NVIDIA GPU here; torch with CUDA takes gigabytes, PUFFER_TORCH_INDEX=..." \
            "(PyTorch's CPU wheel index, see README) avoids that"
    fi
}

install() {
    say "installing pufferlib[$EXTRAS] into $VENV (log: install.log there) ..."
    : >"$VENV/install.log"
    # Relative, since pip splits these variables at spaces; they lock the isolated build as well.
    cd "$ROOT"
    export PIP_CONSTRAINT=$LOCK PIP_BUILD_CONSTRAINT=constraints.txt
    pip_install "$PIP"
    install_torch
    # pip would compile ten times the modules that are ever imported.
    pip_install --no-compile -c "$LOCK" -e ".[$EXTRAS]"
    "$VENV/bin/python" -c 'import pufferlib.commands.train
from pufferlib import native
print("native core:", "compiled" if native.available else "not built, NumPy is used")' >&2
}

prepare_venv() {
    local stamp=$VENV/.pufferlib-installed
    local state
    state=$(lock_state)
    if ! "$VENV/bin/python" -c '' 2>/dev/null; then
        # It will be emptied: never a directory that is something else.
        [[ ! -e $VENV || -e $VENV/pyvenv.cfg ]] \
            || fail "$VENV exists and is no virtual environment; choose another with --venv"
        say "making a virtual environment in $VENV with $("$PYTHON" --version) ..."
        "$PYTHON" -m venv --clear "$VENV"
    fi
    # First line: the state. Then one line for each list of extras installed since.
    if [[ $(head -n 1 "$stamp" 2>/dev/null) != "$state" ]]; then
        rm -f "$stamp"
    elif tail -n +2 "$stamp" | grep -qxF -- "$EXTRAS"; then
        return
    fi
    (install)
    [[ -e $stamp ]] || printf '%s\n' "$state" >"$stamp"
    printf '%s\n' "$EXTRAS" >>"$stamp"
}

run_command() {
    if ((${#COMMAND[@]} == 0)); then
        say "ready: source $VENV/bin/activate"
        return
    fi
    export VIRTUAL_ENV=$VENV PATH=$VENV/bin:$PATH
    unset PYTHONHOME
    command -v "${COMMAND[0]}" >/dev/null 2>&1 \
        || fail "${COMMAND[0]}: no such command in $VENV or on PATH" \
            "an extra that brings it may be missing; installed: $EXTRAS"
    exec "${COMMAND[@]}"
}

main() {
    parse_arguments "$@"
    # What pip has not compiled is compiled at its first import. Where that may not be written, every
    # process does it again: three seconds instead of one for each of Ray's workers.
    unset PYTHONDONTWRITEBYTECODE
    find_python
    check_venv_module
    check_extras
    check_compiler
    prepare_venv
    run_command
}

main "$@"
