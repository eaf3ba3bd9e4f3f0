# shellcheck shell=bash
# The firewall: one table of its own, so that the rules of Docker and Tailscale stay as they are.

FIREWALL_RULES=/etc/tank/firewall.nft
FIREWALL_UNIT=/etc/systemd/system/tank-firewall.service

apply_firewall() {
    if [[ $FIREWALL == no ]]; then
        systemctl is-enabled --quiet tank-firewall 2>/dev/null || return 0
        change "switch the firewall off" systemctl disable --now tank-firewall
        return 0
    fi
    # Where nftables is missing still, a dry run has said so.
    [[ $DRY_RUN == 0 || -n $(command -v nft) ]] || return 0
    local rules
    rules=$(firewall_rules)
    [[ $DRY_RUN == 1 ]] || nft -c -f - <<<"$rules" \
        || fail "nft does not accept the firewall's rules" "check OPEN_PORTS in tank.conf: $OPEN_PORTS"
    write_file "$FIREWALL_RULES" 0644 <<<"$rules"
    firewall_unit | write_file "$FIREWALL_UNIT" 0644
    enable_unit tank-firewall.service
    restart_after tank-firewall.service "$FIREWALL_RULES" "$FIREWALL_UNIT"
}

# Not nftables.service: stopping that one deletes the rules of everybody, Docker's too.
firewall_unit() {
    cat <<'EOT'
[Unit]
Description=Firewall of this machine: ssh and Tailscale from outside, nothing else
Before=network-pre.target
Wants=network-pre.target

[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=/usr/sbin/nft -f /etc/tank/firewall.nft
ExecStop=/usr/sbin/nft delete table inet tank

[Install]
WantedBy=multi-user.target
EOT
}

firewall_rules() {
    local ports port interface=''
    ports=$(ssh_ports)
    [[ -n $ports ]] || fail "cannot tell on which port sshd listens; the firewall would lock you out" \
        "sshd -T | grep ^port"
    if ssh_through_tailnet_only; then interface='iifname "tailscale0" '; fi
    cat <<EOT
# Written by provisioning (FIREWALL, SSH_FROM, OPEN_PORTS and PUBLISHED_PORTS of tank.conf).
table inet tank
delete table inet tank
table inet tank {
    chain input {
        type filter hook input priority filter; policy drop;
        ct state established,related accept
        ct state invalid drop
        iifname "lo" accept
        meta l4proto { icmp, icmpv6 } accept
        udp dport { 68, 546 } accept comment "answers to this machine's requests for an address"
        udp dport 41641 accept comment "direct connections of Tailscale, encrypted"
        iifname "tailscale0" accept
        ${interface}tcp dport { $ports } accept comment "ssh"
EOT
    for port in $OPEN_PORTS; do
        printf '        %s dport %s accept\n' "${port#*/}" "${port%/*}"
    done
    printf '    }\n'
    [[ $PUBLISHED_PORTS == open ]] || published_ports_rule
    printf '}\n'
}

# Ports that containers publish are forwarded, so no rule for input sees them.
published_ports_rule() {
    cat <<'EOT'
    chain forward {
        type filter hook forward priority filter - 1; policy accept;
        ct state established,related accept
        iifname "tailscale0" accept
        iifname "docker0" accept
        iifname "br-*" accept
        ct status dnat drop comment "ports of containers, from outside"
    }
EOT
}

# Where sshd listens, and where the running session came in.
ssh_ports() {
    {
        # sshd asks for this directory, which its service makes.
        [[ $DRY_RUN == 1 ]] || mkdir -p "$SYSROOT/run/sshd"
        { sshd -T 2>/dev/null || true; } | awk '$1 == "port" {print $2}'
        awk '{print $4}' <<<"$(session_connection)"
    } | sort -nu | paste -sd, - | sed 's/^,//; s/,/, /g'
}

# SSH_CONNECTION of the session that this run belongs to: sudo takes it out of the environment, so the
# processes above are asked.
session_connection() {
    local pid=$$ found=${SSH_CONNECTION:-}
    while [[ -z $found ]] && ((pid > 1)) && [[ -r $SYSROOT/proc/$pid/environ ]]; do
        found=$(tr '\0' '\n' <"$SYSROOT/proc/$pid/environ" | sed -n 's/^SSH_CONNECTION=//p')
        pid=$(awk '$1 == "PPid:" {print $2}' "$SYSROOT/proc/$pid/status")
    done
    printf '%s\n' "$found"
}

# Only when this run itself came in through the tailnet, or the rule stands already.
ssh_through_tailnet_only() {
    [[ $SSH_FROM == tailnet ]] || return 1
    grep -q '^ *iifname "tailscale0" tcp dport' "$SYSROOT$FIREWALL_RULES" 2>/dev/null && return 0
    [[ $(session_connection) =~ ^100\.(6[4-9]|[7-9][0-9]|1[01][0-9]|12[0-7])\. ]]
}
