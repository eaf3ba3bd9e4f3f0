# shellcheck shell=bash
# The NVIDIA driver, built for every kernel by dkms. That apt succeeded proves nothing: the step is done
# when the module that is loaded, the module on disk and the packages are one version.

AFTER_UPGRADE=/etc/systemd/system/tank-after-upgrade.service

skip_reason() {
    if [[ $DRIVER == none ]]; then
        echo "DRIVER=none"
    elif ! has_gpu; then
        echo "no NVIDIA GPU"
    fi
}

apply() {
    install_headers
    refuse_nouveau
    add_driver_source
    pin_driver
    # shellcheck disable=SC2046
    install_packages dkms $(driver_packages)
    hold_nvidia_packages
    boot_without_display
    [[ $DRY_RUN == 1 ]] || check_build
    load_driver
}

driver_packages() {
    if [[ $DRIVER == vendor ]]; then
        echo "$DRIVER_PACKAGES_VENDOR"
    else
        echo "$DRIVER_PACKAGES_DEBIAN"
    fi
}

# The meta-package, so that the next kernel comes with its headers; and those of the running one.
install_headers() {
    local meta=$KERNEL_HEADERS
    if [[ $meta == auto ]]; then
        case $(uname -r) in
            *-cloud-amd64) meta=linux-headers-cloud-amd64 ;;
            *-rt-amd64) meta=linux-headers-rt-amd64 ;;
            *) meta=linux-headers-amd64 ;;
        esac
    fi
    install_packages "$meta" "linux-headers-$(uname -r)"
}

refuse_nouveau() {
    local file=/etc/modprobe.d/tank-nouveau.conf
    printf 'blacklist nouveau\noptions nouveau modeset=0\n' | write_file "$file" 0644
    # The initial file system has its own copy.
    command -v update-initramfs >/dev/null || return 0
    compgen -G "$SYSROOT/boot/initrd.img-*" >/dev/null || return 0
    if [[ -n $(find "$SYSROOT$file" -newer "$SYSROOT/boot/initrd.img-$(uname -r)" 2>/dev/null) ]]; then
        change "put it into the initial file system" update-initramfs -u -k "$(uname -r)"
    fi
}

add_driver_source() {
    if [[ $DRIVER == vendor ]]; then
        add_repository nvidia "$NVIDIA_URI" "$NVIDIA_SUITE" "$NVIDIA_COMPONENTS" "$NVIDIA_KEY" \
            "$NVIDIA_FINGERPRINT"
    else
        enable_components contrib non-free non-free-firmware
    fi
}

# One branch and no other, whatever the repository offers; nothing of unstable or experimental.
pin_driver() {
    local names="nvidia-* libnvidia-* libcuda1 libcudadebugger1 cuda-drivers* firmware-nvidia-gsp"
    {
        echo "# Written by provisioning (DRIVER and DRIVER_BRANCH of tank.conf)."
        printf 'Package: *\nPin: release a=unstable\nPin-Priority: -1\n\n'
        printf 'Package: *\nPin: release a=experimental\nPin-Priority: -1\n'
        if [[ $DRIVER == vendor ]]; then
            printf '\nPackage: nvidia-container-* nvidia-ctk* libnvidia-container*\n'
            printf 'Pin: version *\nPin-Priority: 500\n'
            printf '\nPackage: %s\nPin: version %s.*\nPin-Priority: 1001\n' "$names" "$DRIVER_BRANCH"
            # Other branches; not what merely has such a name (libnvidia-egl-wayland1 1.1).
            printf '\nPackage: %s\nPin: version /^[0-9]{3}\\./\nPin-Priority: -1\n' "$names"
        fi
    } | write_file /etc/apt/preferences.d/tank-nvidia 0644
}

# Training machines need no desktop on a GPU's memory.
boot_without_display() {
    local status
    [[ $HEADLESS != no ]] || return 0
    if [[ $HEADLESS == auto ]]; then
        for status in "$SYSROOT"/sys/class/drm/*/status; do
            [[ $(<"$status") != connected ]] || return 0
        done
    fi
    [[ $(systemctl get-default) == multi-user.target ]] \
        || change "boot without a graphical login" systemctl set-default multi-user.target
}

# dkms can fail while apt succeeds.
check_build() {
    local built log
    built=$(dkms status -k "$(uname -r)" 2>/dev/null | grep '^nvidia' || true)
    [[ $built != *installed* ]] || return 0
    log=$(compgen -G "$SYSROOT/var/lib/dkms/nvidia*/*/build/make.log" | tail -n 1 || true)
    fail "no NVIDIA module was built for kernel $(uname -r) (dkms: ${built:-nothing})" \
        "${log:+see $log}" "build again: dkms autoinstall -k $(uname -r)"
}

load_driver() {
    local wrong
    wrong=$(driver_disagreement)
    [[ -n $wrong ]] || return 0
    if [[ $DRY_RUN == 1 ]]; then
        echo "would load the driver ($wrong)"
        return 0
    fi
    modprobe nvidia 2>/dev/null || true
    wrong=$(driver_disagreement)
    if [[ -n $wrong ]]; then
        ! rebooted_since || refuse_after_reboot "$wrong"
        needs_reboot "the NVIDIA driver: $wrong"
    fi
    remove_file "$STATE/reboot"
    if systemctl cat nvidia-persistenced.service >/dev/null 2>&1; then
        enable_unit nvidia-persistenced.service
    fi
}

refuse_after_reboot() {
    rm -f "$SYSROOT$STATE/reboot"
    fail "the driver does not work after the reboot: $1" \
        "what the kernel says: journalctl -k -g 'nvidia|NVRM|nouveau'" \
        "Secure Boot: mokutil --sb-state"
}

# --- provision.sh upgrade-driver

# The newest version of the branch, with no container running, ready for the reboot that it needs.
upgrade() {
    local reason packages newest
    reason=$(skip_reason)
    [[ -z $reason ]] || fail "no driver to upgrade here: $reason"
    update_lists
    newest=$(apt-cache policy "$(driver_package)" | awk '$1 == "Candidate:" {print $2}')
    if [[ $newest == "$(package_version "$(driver_package)")" ]]; then
        say "driver $newest is the newest of branch $DRIVER_BRANCH"
        return 0
    fi
    if [[ $DRY_RUN == 1 ]]; then
        echo "would stop all containers, upgrade the driver to $newest and reboot"
        return 0
    fi
    drain
    trap give_back EXIT
    mapfile -t packages < <(nvidia_packages)
    change "release the hold of NVIDIA's packages" apt-mark unhold "${packages[@]}"
    say "upgrade the driver to $newest"
    apt_get install --only-upgrade --no-install-recommends "${packages[@]}"
    hold_nvidia_packages
    check_build
    trap - EXIT
    go_on_after_reboot
    needs_reboot "the NVIDIA driver $newest"
}

# Stop the containers and remember which ran.
drain() {
    local names
    [[ -n $(command -v docker) ]] || return 0
    mapfile -t names < <(docker ps --format '{{.Names}}')
    ((${#names[@]})) || return 0
    mkdir -p "$SYSROOT$STATE"
    printf '%s\n' "${names[@]}" >"$SYSROOT$STATE/drained"
    wall "This machine restarts for a new GPU driver. Containers are being stopped." 2>/dev/null || true
    change "stop ${names[*]} (they start again after the reboot)" docker stop --time 60 "${names[@]}"
}

# What a failed upgrade leaves: the packages held, the containers running again.
give_back() {
    local names
    hold_nvidia_packages
    [[ -s $SYSROOT$STATE/drained ]] || return 0
    mapfile -t names <"$SYSROOT$STATE/drained"
    rm -f "$SYSROOT$STATE/drained"
    change "start ${names[*]} again" docker start "${names[@]}"
}

go_on_after_reboot() {
    write_file "$AFTER_UPGRADE" 0644 <<EOT
[Unit]
Description=Finish the upgrade of the NVIDIA driver
After=docker.service tank-gpu-devices.service

[Service]
Type=oneshot
ExecStart=$REPOSITORY/provisioning/provision.sh after-upgrade

[Install]
WantedBy=multi-user.target
EOT
    change "finish the upgrade after the reboot" systemctl enable tank-after-upgrade.service
}

# Run by the unit above: prove that the new driver works, then start what was stopped.
after_upgrade() {
    load_driver
    nvidia-smi -L >/dev/null || fail "nvidia-smi fails with the new driver; containers stay stopped" \
        "journalctl -k -g NVRM; then: docker start $(paste -sd ' ' "$SYSROOT$STATE/drained")"
    give_back
    systemctl disable --quiet tank-after-upgrade.service
    remove_file "$AFTER_UPGRADE"
    say "the driver is upgraded to $(loaded_driver)"
}

check() {
    local wrong loaded minimum unheld
    minimum=$(minimum_driver)
    wrong=$(driver_disagreement)
    loaded=$(loaded_driver)
    unheld=$(unheld_nvidia_packages | paste -sd ' ' -)
    expect "driver versions agree" "${wrong:-$loaded}" test -z "$wrong"
    expect "driver fits the lock" "the lock needs $minimum, loaded is ${loaded:-none}" \
        test "0${loaded%%.*}" -ge "$minimum"
    expect "driver is held" "$unheld" test -z "$unheld"
    expect "nvidia-smi answers" "$(nvidia-smi -L 2>&1 | head -n 1)" nvidia-smi -L
}
