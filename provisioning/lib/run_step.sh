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

# By default: whether apply has nothing left to do.
is_done() {
    local plan
    plan=$(DRY_RUN=1 PLANNING=1 apply)
    ! grep -q '^would ' <<<"$plan"
}

# shellcheck disable=SC1090
source "$1"
"$2"
