#!/usr/bin/env bash
# Look at this machine and change nothing: is it as provision.sh would make it, and is it well?
#
#   provisioning/verify.sh [--json] [--only STEP] [--config FILE]
#
# Prints one row for each check. The exit status is the number of failed ones (100 at most); 2 may
# also be wrong usage, which says so. Needs root.
set -euo pipefail

PROVISIONING=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=provisioning/lib/load.sh disable=SC1091
source "$PROVISIONING/lib/load.sh"

export DRY_RUN=1 CONFIG_FILE='' SYSROOT RUN_DIR
ONLY=
JSON=0
ROWS=()

usage_error() {
    printf 'error: %s\n' "$1" >&2
    echo "usage: provisioning/verify.sh [--json] [--only STEP] [--config FILE]" >&2
    exit 2
}

parse_arguments() {
    while (($#)); do
        case $1 in
            -h | --help)
                sed -n '2,/^set -euo/{/^#/s/^# \{0,1\}//p;}' "${BASH_SOURCE[0]}"
                exit 0
                ;;
            --json)
                JSON=1
                shift
                ;;
            --only | --config)
                (($# > 1)) || usage_error "$1: expected a value"
                if [[ $1 == --only ]]; then ONLY=$2; else CONFIG_FILE=$(realpath "$2"); fi
                shift 2
                ;;
            *) usage_error "$1: unknown argument" ;;
        esac
    done
}

# collect FILE: the rows of one step, as result, step, name and detail.
collect() {
    local file=$1 step reason result name detail
    step=$(basename "$file" .sh)
    [[ $step == "$ONLY"* ]] || return 0
    reason=$("$PROVISIONING/lib/run_step.sh" "$file" skip_reason)
    if [[ -n $reason ]]; then
        ROWS+=("skipped"$'\t'"$step"$'\t'"$reason"$'\t')
        return 0
    fi
    ROWS+=("$(as_provisioned "$file" "$step")")
    while IFS=$'\t' read -r result name detail; do
        ROWS+=("$result"$'\t'"$step"$'\t'"$name"$'\t'"$detail")
    done < <("$PROVISIONING/lib/run_step.sh" "$file" check)
}

as_provisioned() {
    local result=FAILED detail
    if detail=$("$PROVISIONING/lib/run_step.sh" "$1" is_done 2>&1); then
        result=ok
        detail=
    else
        detail=${detail:-"provision.sh --dry-run --only $2 says what differs"}
    fi
    printf '%s\t%s\tas provisioned\t%s\n' "$result" "$2" "$(paste -sd ' ' - <<<"$detail")"
}

print_table() {
    local row result step name detail
    for row in "${ROWS[@]}"; do
        IFS=$'\t' read -r result step name detail <<<"$row"
        printf '%-8s %-27s %s%s\n' "$result" "$step" "$name" "${detail:+: $detail}"
    done
    printf '%d checks, %d failed\n' "${#ROWS[@]}" "$(failures)"
}

# {"host": ..., "failed": n, "checks": [{"result", "step", "name", "detail"}, ...]}
print_json() {
    printf '%s\n' "${ROWS[@]}" | python3 -c '
import json, sys
keys = ("result", "step", "name", "detail")
checks = [dict(zip(keys, line.rstrip("\n").split("\t"))) for line in sys.stdin]
print(json.dumps({"host": sys.argv[1], "failed": int(sys.argv[2]), "checks": checks}, indent=1))
' "$(hostname)" "$(failures)"
}

failures() { printf '%s\n' "${ROWS[@]}" | grep -c '^FAILED' || true; }

main() {
    local file count
    parse_arguments "$@"
    (($(id -u) == 0)) || fail "verifying needs root" "sudo $0 $*"
    load_configuration
    RUN_DIR=$(mktemp -d)
    trap 'rm -rf "$RUN_DIR"' EXIT
    for file in "$PROVISIONING"/steps/[0-9][0-9]-*.sh "$PROVISIONING/checks/machine.sh"; do
        collect "$file"
    done
    ((${#ROWS[@]})) || usage_error "$ONLY: no such step"
    if ((JSON)); then print_json; else print_table; fi
    count=$(failures)
    exit "$((count < 100 ? count : 100))"
}

main "$@"
