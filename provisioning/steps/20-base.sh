# shellcheck shell=bash
# What every machine has: tools, the right time, security upgrades, a firewall, a lasting journal.

TOOLS=(
    build-essential ca-certificates curl git gnupg htop iproute2 nftables openssh-server pciutils
    python3 rsync tmux unattended-upgrades util-linux-extra vim zstd
)

apply() {
    install_packages "${TOOLS[@]}"
    care_for_the_hardware
    keep_the_time
    unattended_settings | write_file /etc/apt/apt.conf.d/52tank 0644
    printf '[Journal]\nStorage=persistent\nSystemMaxUse=2G\n' \
        | write_file /etc/systemd/journald.conf.d/tank.conf 0644
    restart_after systemd-journald.service /etc/systemd/journald.conf.d/tank.conf
    apply_firewall
}

# Microcode and the watch over disks and memory, where there is real hardware.
care_for_the_hardware() {
    local microcode
    is_virtual && return 0
    case $(awk '$1 == "vendor_id" {print $3; exit}' "$SYSROOT/proc/cpuinfo") in
        GenuineIntel) microcode=intel-microcode ;;
        *) microcode=amd64-microcode ;;
    esac
    enable_components non-free-firmware
    install_packages "$microcode" mokutil rasdaemon smartmontools
    [[ $DRY_RUN == 1 ]] || enable_unit rasdaemon.service
}

# A container has its host's clock. Another program for it that an administrator chose stays.
keep_the_time() {
    local other
    is_container && return 0
    for other in chrony ntpsec; do is_installed "$other" && return 0; done
    install_packages systemd-timesyncd
    [[ $DRY_RUN == 1 ]] || enable_unit systemd-timesyncd.service
}

# Debian's defaults choose the security suite alone; this adds what must never change by itself.
unattended_settings() {
    local daily=1
    [[ $UNATTENDED_UPGRADES == yes ]] || daily=0
    cat <<EOT
// Written by provisioning (UNATTENDED_UPGRADES of tank.conf).
APT::Periodic::Update-Package-Lists "$daily";
APT::Periodic::Unattended-Upgrade "$daily";
Unattended-Upgrade::Automatic-Reboot "false";
// Kernel module and libraries of the driver must change together, with no job running, and so must
// the engine: provision.sh upgrade-driver.
Unattended-Upgrade::Package-Blacklist {
    "nvidia";
    "libnvidia";
    "libcuda";
    "cuda-";
    "xserver-xorg-video-nvidia";
    "docker";
    "containerd";
    "runc";
};
EOT
}
