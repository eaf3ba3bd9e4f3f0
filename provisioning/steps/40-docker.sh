# shellcheck shell=bash
# The container engine.

DAEMON_JSON=/etc/docker/daemon.json

apply() {
    add_repository docker "$DOCKER_URI" "$DOCKER_SUITE" "$DOCKER_COMPONENTS" "$DOCKER_KEY" \
        "$DOCKER_FINGERPRINT"
    # Written first: the engine's first start finds it.
    keep_other_settings
    daemon_json | write_file "$DAEMON_JSON" 0644
    # Debian's kernel has AppArmor on, and there no container starts without its parser, which the
    # engine's packages merely recommend.
    # shellcheck disable=SC2086
    install_packages apparmor iptables $DOCKER_PACKAGES
    replace_old_engine
    [[ $DRY_RUN == 0 || -n $(command -v dockerd) ]] || return 0
    enable_unit containerd.service
    enable_unit docker.service
    restart_engine
}

# cgroupfs: systemd does not know the devices that a container was given, and takes a GPU away from
# running containers with its next daemon-reload if the groups are its own.
# live-restore: containers survive an upgrade of the engine. icc: users' containers do not meet.
daemon_json() {
    cat <<EOT
{
  "default-address-pools": [
    {
      "base": "$DOCKER_ADDRESS_POOL",
      "size": 24
    }
  ],
  "exec-opts": ["native.cgroupdriver=cgroupfs"],
  "features": {
    "cdi": true
  },
  "icc": false,
  "live-restore": true,
  "log-driver": "json-file",
  "log-opts": {
    "max-file": "$DOCKER_LOG_FILES",
    "max-size": "$DOCKER_LOG_SIZE"
  }$(printf '%s' "${DOCKER_SETTINGS:+,
  $DOCKER_SETTINGS}")
}
EOT
}

# A data-root or a mirror that somebody set must not vanish in silence.
keep_other_settings() {
    local lost
    [[ -s $SYSROOT$DAEMON_JSON && -n $(command -v python3) ]] || return 0
    lost=$(
        python3 -c '
import json, sys
old, new = (set(json.loads(text)) for text in sys.argv[1:])
print(" ".join(sorted(old - new)))' "$(<"$SYSROOT$DAEMON_JSON")" "$(daemon_json)" 2>&1
    ) || fail "$DAEMON_JSON or DOCKER_SETTINGS is not JSON" "${lost##*$'\n'}"
    [[ -z $lost ]] || fail "$DAEMON_JSON has settings that provisioning would drop: $lost" \
        "add them to DOCKER_SETTINGS in tank.conf, or take them out of $DAEMON_JSON"
}

engine_version() {
    { dockerd --version 2>/dev/null || true; } \
        | sed -n 's/^Docker version \([0-9][0-9.]*\).*/\1/p'
}

# Debian's own engine has the same package name as a newer one of another repository.
replace_old_engine() {
    local version
    version=$(engine_version)
    [[ -n $version ]] || return 0
    ((${version%%.*} < DOCKER_MINIMUM)) || return 0
    # shellcheck disable=SC2086
    change "replace engine $version, older than $DOCKER_MINIMUM" apt_get install \
        --no-install-recommends $DOCKER_PACKAGES
    [[ $DRY_RUN == 1 ]] || ((${version%%.*} < $(engine_version | cut -d. -f1))) \
        || fail "expected engine $DOCKER_MINIMUM or newer, the repositories have $version" \
            "check DOCKER_URI and DOCKER_PACKAGES in tank.conf"
}

# Containers keep running through a restart, if the engine knows of live-restore before; but not
# through a change of who manages their groups.
restart_engine() {
    [[ $DRY_RUN == 0 ]] || return 0
    if [[ $(docker info -f '{{.CgroupDriver}}') != cgroupfs && -n $(docker ps -q) ]]; then
        fail "containers run under the old settings of the engine" \
            "stop them (docker ps), then run again"
    fi
    [[ $(docker info -f '{{.LiveRestoreEnabled}}') == true ]] \
        || change "let containers outlive the engine" systemctl reload docker.service
    restart_after docker.service "$DAEMON_JSON"
}

check() {
    local version driver restore members
    version=$(docker version -f '{{.Server.Version}}' 2>/dev/null)
    driver=$(docker info -f '{{.CgroupDriver}}' 2>/dev/null)
    restore=$(docker info -f '{{.LiveRestoreEnabled}}' 2>/dev/null)
    members=$(getent group docker | cut -d: -f4)
    expect "engine $DOCKER_MINIMUM or newer" "${version:-does not answer}" \
        test "0${version%%.*}" -ge "$DOCKER_MINIMUM"
    expect "devices survive daemon-reload" "cgroup driver ${driver:-unknown}" test "$driver" = cgroupfs
    expect "containers outlive the engine" "live-restore ${restore:-unknown}" test "$restore" = true
    expect "docker buildx" "$(docker buildx version 2>&1 | head -n 1)" docker buildx version
    expect "docker compose" "$(docker compose version 2>&1 | head -n 1)" docker compose version
    expect "nobody is root by the group docker" "$members" test -z "$members"
}
