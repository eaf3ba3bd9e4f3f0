# shellcheck shell=bash
# The only ways in which a step changes the machine. With DRY_RUN=1 each prints "would ..." instead;
# a step whose apply prints no such line has nothing left to do, which is what is_done asks.
#
# SYSROOT is put before every path (empty but in tests).

BACKUPS=/var/backups/tank
STATE=/var/lib/tank

# change TEXT COMMAND...: say what is done and do it; without a terminal, input or output. TEXT is an
# infinitive ("start docker"). The end of the output is shown when COMMAND fails.
change() {
    local text=$1 output status=0
    shift
    if [[ $DRY_RUN == 1 ]]; then
        printf 'would %s\n' "$text"
        return 0
    fi
    say "$text"
    output=$("$@" 2>&1 </dev/null) || status=$?
    [[ -z $output ]] || log debug "$output"
    ((status == 0)) || fail "$text: exit status $status" "$(tail -n 15 <<<"$output")"
}

# has_content PATH MODE: whether PATH is a file of that mode with the content of stdin.
has_content() {
    [[ -f $SYSROOT$1 && $(stat -c %a "$SYSROOT$1") == "${2#0}" ]] \
        && cmp -s - "$SYSROOT$1"
}

# back_up PATH: keep what is there, under its own path and the time.
back_up() {
    [[ -e $SYSROOT$1 ]] || return 0
    local kept
    kept=$SYSROOT$BACKUPS$1.$(date -u +%Y%m%dT%H%M%S)
    mkdir -p "$(dirname "$kept")"
    # Some of what is replaced may be secret.
    chmod 0700 "$SYSROOT$BACKUPS"
    cp -a "$SYSROOT$1" "$kept"
}

# write_file PATH MODE: make PATH exactly the content of stdin, owned by root. Compares, backs up and
# replaces the whole file in one move, so that nobody ever reads half of it.
write_file() {
    local path=$1 mode=$2 new
    new=$(mktemp)
    cat >"$new"
    if has_content "$path" "$mode" <"$new"; then
        say "unchanged $path"
        rm -f "$new"
        return 0
    fi
    if [[ $DRY_RUN == 1 ]]; then
        printf 'would write %s\n' "$path"
        [[ ${PLANNING:-0} == 1 ]] || show_difference "$path" "$new"
        rm -f "$new"
        return 0
    fi
    back_up "$path"
    mkdir -p "$(dirname "$SYSROOT$path")"
    # In the same directory: a move across file systems would not be one step.
    if ! install -m "$mode" "$new" "$SYSROOT$path.tank-new" \
        || ! mv "$SYSROOT$path.tank-new" "$SYSROOT$path"; then
        rm -f "$new" "$SYSROOT$path.tank-new"
        fail "cannot write $path" "$(df -h "$(dirname "$SYSROOT$path")" | tail -n 1)"
    fi
    rm -f "$new"
    say "written $path"
}

show_difference() {
    local old=$SYSROOT$1
    [[ -e $old ]] || old=/dev/null
    diff -u --label "$1 (now)" --label "$1 (new)" "$old" "$2" | sed 's/^/  /' || true
}

# remove_file PATH: a copy stays among the backups.
remove_file() {
    [[ -e $SYSROOT$1 || -L $SYSROOT$1 ]] || return 0
    if [[ $DRY_RUN == 1 ]]; then
        printf 'would remove %s\n' "$1"
        return 0
    fi
    back_up "$1"
    rm -f "$SYSROOT$1"
    say "removed $1"
}

# enable_unit UNIT: enabled at boot and running now.
enable_unit() {
    systemctl is-enabled --quiet "$1" 2>/dev/null || change "enable $1" systemctl enable "$1"
    systemctl is-active --quiet "$1" || change "start $1" systemctl start "$1"
}

# restart_after UNIT PATH...: restart UNIT if one of the files is younger than its start. Asks the
# clock, not this run: also right when a run was interrupted between writing and restarting.
restart_after() {
    local unit=$1 started path
    shift
    systemctl is-active --quiet "$unit" || return 0
    started=$(systemctl show --timestamp=us+utc -P ActiveEnterTimestamp "$unit")
    for path in "$@"; do
        [[ -e $SYSROOT$path ]] || continue
        # Microseconds, as numbers of one length.
        if [[ $(date -r "$SYSROOT$path" +%s%6N) > $(date -d "$started" +%s%6N) ]]; then
            change "restart $unit ($path changed)" systemctl restart "$unit"
            return 0
        fi
    done
}

# needs_reboot REASON: end the run with status 3. A run after the reboot goes on where this one ended.
needs_reboot() {
    if [[ $DRY_RUN == 1 ]]; then
        printf 'would ask for a reboot: %s\n' "$1"
        return 0
    fi
    # The one in /run is gone after the reboot, the other stays.
    mkdir -p "$SYSROOT$STATE" "$SYSROOT/run/tank"
    printf '%s\n' "$1" | tee "$SYSROOT$STATE/reboot" >"$SYSROOT/run/tank/reboot"
    say "reboot needed: $1"
    exit 3
}

# Whether a reboot that needs_reboot asked for has happened since.
rebooted_since() { [[ -e $SYSROOT$STATE/reboot && ! -e $SYSROOT/run/tank/reboot ]]; }
