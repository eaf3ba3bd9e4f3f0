#!/usr/bin/env bash
# Run one function of one step: lib/run_step.sh STEP_FILE FUNCTION. A process of its own, so that any
# command that fails ends it (in a function called from a condition, the shell would go on).
#
# From provision.sh: RUN_DIR, CONFIG_FILE, DRY_RUN, SYSROOT.
set -euo pipefail
shopt -s inherit_errexit nullglob

PROVISIONING=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
# shellcheck source=provisioning/lib/load.sh disable=SC1091
source "$PROVISIONING/lib/load.sh"
load_configuration

# What messages name.
export STEP
STEP=$(basename "$1" .sh)

# A step that says nothing about it is wanted on every machine.
skip_reason() { :; }

# Rows for verify.sh beyond "nothing to do"; each is one call of expect.
check() { :; }

# expect NAME DETAIL COMMAND...: one row of verify.sh, passed if COMMAND succeeds.
expect() {
    local name=$1 detail=$2 result=FAILED
    shift 2
    if "$@" >/dev/null 2>&1; then result=ok; fi
    printf '%s\t%s\t%s\n' "$result" "$name" "$detail"
}

# By default: whether apply has nothing left to do.
is_done() {
    local plan
    plan=$(DRY_RUN=1 PLANNING=1 apply)
    ! grep -q '^would ' <<<"$plan"
}

# shellcheck disable=SC1090
source "$1"
# A check goes on after a program that fails: that is what it tells.
[[ $2 != check* ]] || set +e
"$2"
