# shellcheck shell=bash
# Refuse what cannot work, all reasons at once, before anything is touched. Each check prints what is
# wrong and one remedy, separated by a tab; nothing if all is well.

CHECKS=(
    check_release check_systemd check_disk check_network check_address_pool check_driver_knob
    check_secure_boot check_headers check_nouveau check_loaded_driver check_compute_capability
)

is_done() {
    local check
    for check in "${CHECKS[@]}"; do
        [[ -z $("$check") ]] || return 1
    done
}

apply() {
    local check problem lines=()
    for check in "${CHECKS[@]}"; do
        problem=$("$check")
        [[ -n $problem ]] || continue
        lines+=("- ${problem%%$'\t'*}" "    ${problem#*$'\t'}")
    done
    ((${#lines[@]} == 0)) || fail "this machine cannot be provisioned; nothing was changed" "${lines[@]}"
}

problem() { printf '%s\t%s\n' "$1" "$2"; }

check_release() {
    local id version
    id=$(os_release ID)
    version=$(os_release VERSION_ID)
    [[ $id == debian && $version == "$DEBIAN_VERSION" ]] \
        || problem "expected Debian $DEBIAN_VERSION, found $(os_release PRETTY_NAME)" \
            "install Debian $DEBIAN_VERSION ($DEBIAN_RELEASE)"
}

check_systemd() {
    [[ -d $SYSROOT/run/systemd/system ]] \
        || problem "systemd is not running" "boot the machine with systemd as its init"
}

check_disk() {
    local free
    free=$(df --output=avail -B 1G "$SYSROOT/var" | tail -n 1 | tr -d ' ')
    ((free >= MINIMUM_DISK_GB)) \
        || problem "/var has $free GB free, expected $MINIMUM_DISK_GB (MINIMUM_DISK_GB)" \
            "free space, or give /var a larger file system"
}

# The first of the configured mirrors must answer apt's own downloader, which alone knows its proxies.
check_network() {
    local uris address target status=0
    # Sources that apt refuses to read are explained by the step that needs them, or mended there.
    uris=$(apt-get update --print-uris 2>/dev/null) || return 0
    address=$(awk -F"'" -v end="/dists/$DEBIAN_RELEASE/InRelease" 'index($2, end) {print $2}' \
        <<<"$uris" | sed -n 1p)
    if [[ -z $address ]]; then
        problem "apt has no package source for $DEBIAN_RELEASE" \
            "name a Debian mirror in /etc/apt/sources.list"
        return
    fi
    target=$(mktemp -u)
    PATH=$PATH:/usr/lib/apt apt-helper download-file "$address" "$target" >/dev/null 2>&1 || status=$?
    rm -f "$target"
    ((status == 0)) || problem "the package mirror does not answer: $address" \
        "check cable, name server (/etc/resolv.conf) and proxy (/etc/apt/apt.conf.d)"
}

# Docker's networks must not hide one that this machine talks to.
check_address_pool() {
    local route overlap=()
    while read -r route _; do
        [[ $route == */* ]] || continue
        if overlaps "$route" "$DOCKER_ADDRESS_POOL"; then overlap+=("$route"); fi
    done < <(ip -4 route show 2>/dev/null | grep -vE ' dev (docker|br-)')
    ((${#overlap[@]} == 0)) \
        || problem "DOCKER_ADDRESS_POOL=$DOCKER_ADDRESS_POOL overlaps the network ${overlap[*]}" \
            "set DOCKER_ADDRESS_POOL to a range that your site does not use"
}

# overlaps A/BITS B/BITS: whether two IPv4 networks share an address.
overlaps() {
    local bits=${1#*/}
    ((${2#*/} >= bits)) || bits=${2#*/}
    (($(as_number "${1%/*}") >> (32 - bits) == $(as_number "${2%/*}") >> (32 - bits)))
}

as_number() {
    local a b c d
    IFS=. read -r a b c d <<<"$1"
    echo $(((a << 24) + (b << 16) + (c << 8) + d))
}

check_driver_knob() {
    local minimum
    minimum=$(minimum_driver)
    case $DRIVER in
        vendor)
            ((DRIVER_BRANCH >= minimum)) \
                || problem "DRIVER_BRANCH=$DRIVER_BRANCH is older than the lock's CUDA needs ($minimum)" \
                    "set DRIVER_BRANCH to $minimum or newer"
            ;;
        debian)
            ((minimum <= 535)) || ! has_gpu \
                || problem "DRIVER=debian brings driver 535, the lock's CUDA needs $minimum" \
                    "set DRIVER=vendor, or use a lock whose torch was built for CUDA 12"
            ;;
        none) ;;
        *) problem "DRIVER=$DRIVER: expected vendor, debian or none" "correct it in tank.conf" ;;
    esac
}

installs_driver() { [[ $DRIVER != none ]] && has_gpu; }

check_secure_boot() {
    local answer
    installs_driver && secure_boot || return 0
    # A key that the firmware knows, and that dkms signs with. The exit status differs between versions.
    answer=$(mokutil --test-key "$SYSROOT/var/lib/dkms/mok.pub" 2>/dev/null || true)
    [[ $answer == *'already enrolled'* ]] \
        || problem "Secure Boot is on and no machine-owner key of dkms is enrolled: the kernel would refuse the NVIDIA module" \
            "switch Secure Boot off in the firmware, or: apt-get install dkms mokutil; dkms generate_mok; mokutil --import /var/lib/dkms/mok.pub; reboot and confirm"
}

check_headers() {
    local headers
    headers=linux-headers-$(uname -r)
    installs_driver || return 0
    is_installed "$headers" || apt-cache show --no-all-versions "$headers" >/dev/null 2>&1 \
        || problem "$headers is neither installed nor in the package lists: the module for the running kernel cannot be built" \
            "apt-get update; then boot the newest kernel: apt-get install linux-image-amd64; reboot"
}

# In use means that a console or a display runs on it; only then does the blacklist need a reboot
# before the driver can be loaded.
check_nouveau() {
    local users
    installs_driver || return 0
    users=$(awk '$1 == "nouveau" {print $3}' "$SYSROOT/proc/modules" 2>/dev/null || true)
    ((${users:-0} == 0)) \
        || problem "the module nouveau drives this GPU and $users users hold it" \
            "printf 'blacklist nouveau\noptions nouveau modeset=0\n' >/etc/modprobe.d/tank-nouveau.conf; update-initramfs -u; reboot"
}

# A driver that was installed in another way: it stays with DRIVER=none, and must then be new enough.
check_loaded_driver() {
    local loaded
    loaded=$(loaded_driver)
    [[ $DRIVER == none && -n $loaded ]] || return 0
    ((${loaded%%.*} >= $(minimum_driver))) \
        || problem "driver $loaded is older than the lock's CUDA needs ($(minimum_driver))" \
            "install driver $(minimum_driver) or newer, or let provisioning do it (DRIVER=vendor)"
}

check_compute_capability() {
    local found needed
    needed=$(minimum_compute_capability)
    found=$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader 2>/dev/null | sort -V | sed -n 1p) || return 0
    [[ $found =~ ^[0-9.]+$ ]] || return 0
    at_least "$found" "$needed" \
        || problem "a GPU has compute capability $found, the lock's CUDA needs $needed (Turing) or newer" \
            "use a newer GPU, or a lock whose torch was built for CUDA 12"
}
