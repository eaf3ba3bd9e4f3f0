#!/usr/bin/env bash
# facts.sh CHECKOUT: what this machine is, a name and a value on each line, - where there is none.
# Reads only. Sent over ssh as text, so that it answers before anything was copied.
set -uo pipefail

checkout=$1

fact() { printf '%s\t%s\n' "$1" "${2:--}"; }

state() {
    if [[ -e /run/tank/reboot ]]; then
        echo "reboot needed"
    elif [[ ! -x $checkout/provisioning/provision.sh ]]; then
        echo bare
    elif [[ -x /usr/local/bin/tank-login ]]; then
        echo provisioned
    else
        echo unfinished
    fi
}

# NVIDIA graphics and compute devices, whether they have a driver or not.
gpus() {
    local device count=0
    for device in /sys/bus/pci/devices/*; do
        [[ $(cat "$device/vendor" 2>/dev/null) == 0x10de ]] || continue
        [[ $(cat "$device/class") != 0x03* ]] || count=$((count + 1))
    done
    echo "$count"
}

# The image of new users.
image() {
    python3 -c 'import json; print(json.load(open("/etc/tank/users.json"))["image"])' 2>/dev/null
}

name=$(image)
fact state "$(state)"
fact lock "$(python3 "$checkout/pufferlib/lock.py" 2>/dev/null)"
fact image "$(docker image inspect -f '{{.Id}}' "${name:-puffertank/tank:cpu}" 2>/dev/null)"
fact driver "$(sed -n 's/^NVRM version:.* \([0-9][0-9.]*\)  .*/\1/p' \
    /proc/driver/nvidia/version 2>/dev/null)"
fact load "$(cut -d ' ' -f 1 /proc/loadavg) of $(nproc)"
fact gpus "$(gpus)"
fact users "$(tank user list --json 2>/dev/null | tr -d '\n')"
