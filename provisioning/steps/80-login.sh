# shellcheck shell=bash
# The way of the group tank into its containers: login shell, the one privileged helper, sshd and PAM.

LOGIN=$REPOSITORY/provisioning/login
SFTP_SERVER=/usr/lib/openssh/sftp-server

apply() {
    install_packages openssh-server openssh-sftp-server sudo libpam-net iproute2
    write_file /usr/local/lib/tank/tank-session 0755 <"$LOGIN/tank-session"
    write_file /usr/local/lib/tank/tank-network 0755 <"$LOGIN/tank-network"
    write_file /usr/local/lib/tank/tank-tailnet 0755 <"$LOGIN/tank-tailnet"
    write_file /usr/local/bin/tank-login 0755 <"$LOGIN/tank-login"
    grep -qx /usr/local/bin/tank-login "$SYSROOT/etc/shells" \
        || change "allow tank-login as a login shell" add-shell /usr/local/bin/tank-login
    check_sudoers
    write_file /etc/sudoers.d/tank 0440 <"$LOGIN/sudoers"
    write_file /usr/local/lib/tank/tank-verbs 0755 <"$LOGIN/tank-verbs"
    write_units
    enable_unit tank-verbs.socket
    enable_unit tank-tailnet.timer
    write_file /etc/pam.d/sshd 0644 <"$LOGIN/pam-sshd"
    configure_sshd
}

write_units() {
    local name path changed=0
    for name in tank-verbs.socket tank-verbs@.service tank-tailnet.timer tank-tailnet.service \
        user@.service.d/tank.conf; do
        path=/etc/systemd/system/$name
        has_content "$path" 0644 <"$LOGIN/units/$name" || changed=1
        write_file "$path" 0644 <"$LOGIN/units/$name"
    done
    ((changed == 0)) || change "let systemd read its units again" systemctl daemon-reload
}

# A mistake in sudoers would lock administrators out of sudo.
check_sudoers() {
    [[ $DRY_RUN == 1 ]] || visudo -cqf "$LOGIN/sudoers" \
        || fail "sudo does not accept $LOGIN/sudoers" "visudo -cf $LOGIN/sudoers"
}

# sshd runs an external sftp-server through the login shell, so in the container; internal-sftp would
# serve the machine's own files.
configure_sshd() {
    local main=/etc/ssh/sshd_config drop_in=/etc/ssh/sshd_config.d/tank.conf new
    if [[ $DRY_RUN == 0 || -e $SYSROOT$main ]]; then
        new=$(with_sftp_server <"$SYSROOT$main")
        # Tabs and spaces are no reason to write it anew.
        diff -bq "$SYSROOT$main" - <<<"$new" >/dev/null || write_file "$main" 0644 <<<"$new"
    fi
    write_file "$drop_in" 0644 <"$LOGIN/sshd.conf"
    check_sshd "$main" "$drop_in"
    restart_after ssh.service "$main" "$drop_in"
}

# The configuration on stdin, with exactly one subsystem sftp.
with_sftp_server() {
    awk -v program="$SFTP_SERVER" '
        tolower($1) == "subsystem" && tolower($2) == "sftp" {
            if (!found++) print "Subsystem sftp " program
            next
        }
        tolower($1) == "match" && !found++ { print "Subsystem sftp " program }
        { print }
        END { if (!found) print "Subsystem sftp " program }'
}

# check_sshd PATH...: take the files back if sshd does not accept them, before it is told of them.
check_sshd() {
    [[ $DRY_RUN == 0 ]] || return 0
    mkdir -p "$SYSROOT/run/sshd"
    local answer
    if answer=$(sshd -t 2>&1); then return 0; fi
    local path
    for path in "$@"; do restore "$path"; done
    fail "sshd does not accept its new configuration; the old one is back" "$answer" \
        "look at all files of /etc/ssh: sshd -t"
}

# restore PATH: the newest copy that write_file kept, or nothing if there was nothing.
restore() {
    local copies
    copies=("$SYSROOT$BACKUPS$1".*)
    if ((${#copies[@]})); then cp -a "${copies[-1]}" "$SYSROOT$1"; else rm -f "$SYSROOT$1"; fi
}

check() {
    local sftp module=(/usr/lib/*/security/pam_usernet.so)
    sftp=$(sshd -T 2>/dev/null | sed -n 's/^subsystem sftp //p')
    expect "sftp goes through the login shell" "${sftp:-sshd has none}" test "$sftp" = "$SFTP_SERVER"
    expect "sshd accepts its configuration" "$(sshd -t 2>&1 | head -n 1)" sshd -t
    expect "sshd asks PAM" "UsePAM" grep -qx 'usepam yes' <<<"$(sshd -T 2>/dev/null)"
    expect "sudo accepts its rules" "$(visudo -cq 2>&1 | head -n 1)" visudo -cq
    expect "forwarded ports reach containers" "${module[*]:-libpam-net is not installed}" test -n "${module[*]}"
    expect "verbs inside containers" tank-verbs.socket systemctl is-active tank-verbs.socket
    expect "sessions from the tailnet are asked about again" tank-tailnet.timer \
        systemctl is-active tank-tailnet.timer
}
