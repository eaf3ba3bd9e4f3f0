#!/usr/bin/env bash
# Turn a bare Debian 12 machine into a training machine, in steps that can be repeated at any time.
#
#   provisioning/provision.sh [--dry-run] [--only STEP] [--from STEP] [--config FILE]
#   provisioning/provision.sh upgrade-driver [--no-reboot] [--dry-run]
#   provisioning/provision.sh list
#
#   provisioning/provision.sh --dry-run     # what would change, with the differences of files
#   provisioning/provision.sh               # do it; a second run changes nothing
#
# upgrade-driver brings the newest NVIDIA driver of the configured branch: it stops all containers,
# upgrades, reboots, proves that the driver works and starts the containers again.
#
# STEP is a name such as 40-docker, or its beginning. What can be configured is explained in
# provisioning/tank.conf. Needs root. Everything said here is also in the journal:
# journalctl -t tank-provision
#
# Exit status: 0 done · 1 a step failed · 2 wrong usage · 3 reboot, then run again · 4 another run is
# going on.
set -euo pipefail

PROVISIONING=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=provisioning/lib/load.sh disable=SC1091
source "$PROVISIONING/lib/load.sh"

export DRY_RUN=0 CONFIG_FILE='' SYSROOT RUN_DIR
PREFLIGHT=10-preflight
ONLY=
FROM=
VERB=run
REBOOT=1
CHANGED=0

usage_error() {
    printf 'error: %s\n' "$1" >&2
    echo "usage: provisioning/provision.sh [--dry-run] [--only STEP] [--from STEP] [--config FILE]" >&2
    exit 2
}

parse_arguments() {
    while (($#)); do
        case $1 in
            -h | --help)
                sed -n '2,/^set -euo/{/^#/s/^# \{0,1\}//p;}' "${BASH_SOURCE[0]}"
                exit 0
                ;;
            --dry-run)
                DRY_RUN=1
                shift
                ;;
            --only | --from | --config)
                (($# > 1)) || usage_error "$1: expected a value"
                case $1 in
                    --only) ONLY=$(find_step "$1" "$2") ;;
                    --from) FROM=$(find_step "$1" "$2") ;;
                    --config) CONFIG_FILE=$(realpath "$2") ;;
                esac
                shift 2
                ;;
            --no-reboot)
                REBOOT=0
                shift
                ;;
            list)
                steps
                exit 0
                ;;
            upgrade-driver | after-upgrade)
                VERB=$1
                shift
                ;;
            *) usage_error "$1: unknown argument" ;;
        esac
    done
}

steps() {
    local file
    for file in "$PROVISIONING"/steps/[0-9][0-9]-*.sh; do basename "$file" .sh; done
}

# find_step OPTION START: the one step whose name begins with START.
find_step() {
    local found
    mapfile -t found < <(steps | awk -v start="$2" 'index($0, start) == 1')
    ((${#found[@]} == 1)) || usage_error "$1: expected one step, got $2; the steps are: $(steps \
        | paste -sd ' ' -)"
    printf '%s\n' "${found[0]}"
}

# call STEP FUNCTION
call() { "$PROVISIONING/lib/run_step.sh" "$PROVISIONING/steps/$1.sh" "$2"; }

# One step: skipped, already done, or applied and then looked at again.
run_step() {
    local step=$1 status=0 reason
    reason=$(call "$step" skip_reason)
    if [[ -n $reason ]]; then
        say "$step: skipped ($reason)"
        return 0
    fi
    if call "$step" is_done >/dev/null 2>"$RUN_DIR/why"; then
        say "$step: nothing to do"
        return 0
    fi
    say "$step: ..."
    CHANGED=1
    call "$step" apply || status=$?
    ((status == 0)) || give_up "$step" "$status"
    [[ $DRY_RUN == 1 ]] && return 0
    call "$step" is_done >"$RUN_DIR/why" 2>&1 || {
        cat "$RUN_DIR/why" >&2
        printf 'error: [%s] something is left to do after it ran\n' "$step" >&2
        give_up "$step" 1
    }
    say "$step: done"
}

# give_up STEP STATUS: say where to go on.
give_up() {
    if (($2 == 3)); then
        say "reboot this machine, then go on: $PROVISIONING/provision.sh"
        exit 3
    fi
    printf 'provision: step %s failed; mend what is said above, then go on: %s --from %s\n' \
        "$1" "$PROVISIONING/provision.sh" "$1" >&2
    log err "step $1 failed"
    exit 1
}

become_the_only_run() {
    mkdir -p "$SYSROOT/run/lock"
    exec 9>"$SYSROOT/run/lock/tank-provision"
    # Not inherited by what steps start: a daemon would keep the lock.
    flock --nonblock 9 || {
        echo "error: another run of provision.sh is going on (journalctl -f -t tank-provision)" >&2
        exit 4
    }
}

# Stops at the reboot, which it starts itself unless told otherwise.
upgrade_driver() {
    local status=0
    call 30-nvidia-driver upgrade 9>&- || status=$?
    ((status == 3)) || exit "$status"
    if [[ $REBOOT == 1 ]]; then
        say "rebooting; after it: journalctl -u tank-after-upgrade"
        systemctl reboot
    else
        say "reboot this machine; the upgrade then finishes by itself"
    fi
    exit 3
}

run_steps() {
    local step
    for step in $(steps); do
        is_wanted "$step" || continue
        run_step "$step" 9>&-
    done
    if [[ $CHANGED == 0 ]]; then
        say "nothing changed: this machine is as it should be"
    elif [[ $DRY_RUN == 1 ]]; then
        say "dry run: nothing was changed"
    else
        say "done; look at it with $PROVISIONING/verify.sh"
    fi
}

# Whether the arguments ask for a step. Preflight always comes first: it refuses before anything is
# touched.
is_wanted() {
    [[ $1 != "$PREFLIGHT" ]] || return 0
    [[ -z $ONLY || $1 == "$ONLY" ]] && [[ -z $FROM || ! $1 < $FROM ]]
}

main() {
    parse_arguments "$@"
    (($(id -u) == 0)) || fail "provisioning needs root" "sudo $0 $*"
    load_configuration
    become_the_only_run
    RUN_DIR=$(mktemp -d)
    trap 'rm -rf "$RUN_DIR"' EXIT
    case $VERB in
        run) run_steps ;;
        upgrade-driver) upgrade_driver ;;
        after-upgrade) call 30-nvidia-driver after_upgrade 9>&- ;;
    esac
}

# One line: bash reads no further, should this file be replaced while it runs.
{
    main "$@"
    exit
}
