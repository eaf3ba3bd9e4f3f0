# shellcheck shell=bash
# GPUs for containers: NVIDIA's toolkit, and the list of devices that Docker reads (CDI), made anew at
# every boot, so that it always belongs to the driver that is loaded.

UNIT=/etc/systemd/system/tank-gpu-devices.service

skip_reason() { has_gpu || echo "no NVIDIA GPU"; }

apply() {
    add_repository toolkit "$TOOLKIT_URI" "$TOOLKIT_SUITE" "$TOOLKIT_COMPONENTS" "$TOOLKIT_KEY" \
        "$TOOLKIT_FINGERPRINT"
    install_packages nvidia-container-toolkit
    hold_nvidia_packages
    devices_unit | write_file "$UNIT" 0644
    [[ $DRY_RUN == 0 || -n $(command -v nvidia-ctk) ]] || return 0
    enable_unit tank-gpu-devices.service
    restart_after tank-gpu-devices.service "$UNIT"
}

# The links in /dev/char let systemd find the devices of a container again after daemon-reload, where
# its groups are managed by systemd after all.
devices_unit() {
    cat <<'EOT'
[Unit]
Description=Devices of the NVIDIA GPUs for containers
After=systemd-modules-load.service nvidia-persistenced.service
Before=docker.service

[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=/usr/bin/env nvidia-ctk system create-dev-char-symlinks --create-all
ExecStart=/usr/bin/env nvidia-ctk cdi generate --output=/run/cdi/nvidia.yaml

[Install]
WantedBy=multi-user.target
EOT
}

check() {
    expect "GPUs are listed for containers" /run/cdi/nvidia.yaml \
        test -s "$SYSROOT/run/cdi/nvidia.yaml"
    expect "toolkit answers" "$(nvidia-ctk --version 2>&1 | head -n 1)" nvidia-ctk --version
}
