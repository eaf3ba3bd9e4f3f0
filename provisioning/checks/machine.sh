# shellcheck shell=bash
# What labs learnt to look at in a machine, by no means all of it done by provisioning. Rows for
# verify.sh; read-only.

skip_reason() {
    if is_virtual; then echo "a container or a virtual machine"; fi
}

is_done() { :; }

check() {
    check_microcode
    check_errors
    check_reboots
    check_throttling
    check_disks
    check_slow_cores
    check_space
}

check_microcode() {
    local open
    open=$(grep -l '^Vulnerable' "$SYSROOT"/sys/devices/system/cpu/vulnerabilities/* 2>/dev/null \
        | xargs -rn 1 basename | paste -sd ' ' -)
    expect "microcode and mitigations" "${open:+open: $open}" test -z "$open"
}

# Corrected errors count too: they come before those that cannot be.
check_errors() {
    local events memory
    events=$(journalctl -k -b -q -o cat -g 'Hardware Error|Machine check events' 2>/dev/null | wc -l)
    memory=$(cat "$SYSROOT"/sys/devices/system/edac/mc/mc*/[cu]e_count 2>/dev/null \
        | awk '{sum += $1} END {print sum + 0}')
    expect "machine checks since boot" "$events" test "$events" -eq 0
    expect "memory errors since boot" "$memory" test "$memory" -eq 0
}

# A boot whose journal does not end with a shutdown ended by a crash, a power cut or a reset.
check_reboots() {
    local boot crashed=0 boots
    mapfile -t boots < <(journalctl --list-boots -q 2>/dev/null | awk '$1 < 0 {print $2}' | tail -n 10)
    for boot in "${boots[@]}"; do
        journalctl -q -b "$boot" -n 200 -o cat 2>/dev/null \
            | grep -qE 'Shutting down|Reached target .*(Reboot|Power|shutdown)|Journal stopped' \
            || crashed=$((crashed + 1))
    done
    expect "unexpected reboots" "$crashed of the last ${#boots[@]}" test "$crashed" -eq 0
}

check_throttling() {
    local cpu gpu
    cpu=$(cat "$SYSROOT"/sys/devices/system/cpu/cpu*/thermal_throttle/core_throttle_count 2>/dev/null \
        | awk '{sum += $1} END {print sum + 0}')
    expect "CPU throttled by heat" "$cpu times since boot" test "$cpu" -eq 0
    [[ -n $(command -v nvidia-smi) ]] || return
    gpu=$(nvidia-smi --format=csv,noheader --query-gpu=clocks_event_reasons.hw_slowdown 2>&1)
    expect "GPU slowed down by heat or power" "$(paste -sd ' ' - <<<"$gpu")" \
        test -z "$(grep -vx 'Not Active' <<<"$gpu")"
}

check_disks() {
    local disk answer status errors
    for disk in $(lsblk -dno NAME,TYPE 2>/dev/null | awk '$2 == "disk" {print $1}'); do
        answer=$(smartctl -H "/dev/$disk" 2>&1)
        status=$?
        if ((status == 127)); then
            expect "disks" "smartmontools is not installed" false
            break
        fi
        grep -qE 'SMART overall-health|SMART Health Status' <<<"$answer" || continue
        expect "disk $disk" "$(grep -oE '(PASSED|OK|FAILED.*)$' <<<"$answer" | head -n 1)" \
            grep -qE '(PASSED|OK)$' <<<"$answer"
    done
    errors=$(cat "$SYSROOT"/sys/fs/ext4/*/errors_count 2>/dev/null \
        | awk '{sum += $1} END {print sum + 0}')
    expect "file system errors" "$errors" test "$errors" -eq 0
}

# Twice: a core that is busy for a moment is not slow.
check_slow_cores() {
    local slow
    slow=$(comm -12 <(slow_cores | sort) <(slow_cores | sort) | paste -sd ' ' -)
    expect "slow cores" "${slow:+$slow (below 70 % of their kind)}" test -z "$slow"
}

# Cores that reach less than 70 % of the median of those with the same highest frequency.
slow_cores() {
    python3 - "$SYSROOT" <<'EOT'
import os
import pathlib
import statistics
import sys
import time


def speed(core):
    os.sched_setaffinity(0, {core})
    end, count = time.perf_counter() + 0.03, 0
    while time.perf_counter() < end:
        count += 1
    return count


def kind(core):
    path = pathlib.Path(f"{sys.argv[1]}/sys/devices/system/cpu/cpu{core}/cpufreq/cpuinfo_max_freq")
    return path.read_text() if path.exists() else ""


kinds = {}
for core in os.sched_getaffinity(0):
    kinds.setdefault(kind(core), {})[core] = speed(core)
for speeds in kinds.values():
    median = statistics.median(speeds.values())
    for core, value in speeds.items():
        if value < 0.7 * median:
            print(core)
EOT
}

check_space() {
    local used
    used=$(df --output=pcent "$SYSROOT/var" | tail -n 1 | tr -d ' %')
    expect "space on /var" "$used % used" test "$used" -lt 90
}
