# shellcheck shell=bash
# What this machine is. Everything here only reads; SYSROOT goes before every path.

# The value of a key of os-release.
os_release() {
    sed -n "s/^$1=\"\?\([^\"]*\)\"\?\$/\1/p" "$SYSROOT/etc/os-release" 2>/dev/null
}

# NVIDIA graphics and compute devices on the PCI bus; one address a line. GPU=yes or no in the
# configuration overrules what is found.
nvidia_gpus() {
    local device
    for device in "$SYSROOT"/sys/bus/pci/devices/*; do
        [[ $(cat "$device/vendor" 2>/dev/null) == 0x10de ]] || continue
        [[ $(cat "$device/class") == 0x03* ]] && basename "$device"
    done
    return 0
}

has_gpu() {
    case $GPU in
        auto) [[ -n $(nvidia_gpus) ]] ;;
        *) [[ $GPU == yes ]] ;;
    esac
}

# A number that pufferlib/lock.py defines: the lock and this machine must agree.
lock_number() { sed -n "s/^$1 = \([0-9]*\)\$/\1/p" "$REPOSITORY/pufferlib/lock.py"; }

minimum_driver() { lock_number MIN_DRIVER; }

# "7.5" from the pair (7, 5).
minimum_compute_capability() {
    sed -n 's/^MIN_COMPUTE_CAPABILITY = (\([0-9]*\), \([0-9]*\))$/\1.\2/p' \
        "$REPOSITORY/pufferlib/lock.py"
}

# Version of the NVIDIA kernel module that is loaded; nothing if none is.
loaded_driver() {
    sed -n 's/^NVRM version:.* \([0-9][0-9.]*\)  .*/\1/p' \
        "$SYSROOT/proc/driver/nvidia/version" 2>/dev/null || true
}

# Version of the NVIDIA kernel module that the next load takes. Debian's own packages give it another
# name, under which modprobe finds it.
built_driver() {
    modinfo -F version nvidia 2>/dev/null || modinfo -F version nvidia-current 2>/dev/null || true
}

# Whether the module is loaded, by its name.
has_module() { grep -q "^$1 " "$SYSROOT/proc/modules" 2>/dev/null; }

secure_boot() { mokutil --sb-state 2>/dev/null | grep -q 'SecureBoot enabled'; }

is_container() { systemd-detect-virt --quiet --container 2>/dev/null; }

is_virtual() { systemd-detect-virt --quiet 2>/dev/null; }

# at_least A B: whether version A is B or newer.
at_least() { [[ $(printf '%s\n%s\n' "$1" "$2" | sort -V | head -n 1) == "$2" ]]; }
