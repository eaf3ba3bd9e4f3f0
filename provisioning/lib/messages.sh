# shellcheck shell=bash
# Messages of steps and scripts: on the terminal and in the journal.

# log PRIORITY TEXT...: one line to the journal (tag tank-provision).
log() {
    [[ ${DRY_RUN:-0} == 1 ]] && return 0
    local priority=$1
    shift
    logger -t tank-provision -p "daemon.$priority" -- "${STEP:+[$STEP] }$*" 2>/dev/null || true
}

# say TEXT...: progress. Silent while a plan is made.
say() {
    [[ ${PLANNING:-0} == 1 ]] && return 0
    printf '%s\n' "$*"
    log info "$*"
}

warn() {
    printf 'warning: %s\n' "$*" >&2
    log warning "$*"
}

# fail MESSAGE [REMEDY...]: end the step. Each remedy is one line of what to do.
fail() {
    printf 'error: %s%s\n' "${STEP:+[$STEP] }" "$1" >&2
    log err "$1"
    shift
    local line
    for line in "$@"; do
        printf '  %s\n' "$line" >&2
        log err "  $line"
    done
    exit 1
}
