# shellcheck shell=bash
# Join the tailnet. Ordinary ssh stays open until a run has come in through the tailnet (SSH_FROM), no
# routes or name servers of others are accepted, and Tailscale's own ssh stays off, because its file
# transfer would serve the machine instead of the user's container.

skip_reason() { [[ $TAILSCALE == yes ]] || echo "TAILSCALE=no"; }

apply() {
    add_repository tailscale "$TAILSCALE_URI" "$TAILSCALE_SUITE" "$TAILSCALE_COMPONENTS" \
        "$TAILSCALE_KEY" "$TAILSCALE_FINGERPRINT"
    install_packages tailscale
    [[ $DRY_RUN == 0 || -n $(command -v tailscale) ]] || return 0
    enable_unit tailscaled.service
    join
    forget_key
    apply_firewall
}

# tailscale_field NAME: of this machine's state; nothing where there is no such field.
tailscale_field() {
    tailscale status --json 2>/dev/null | python3 -c '
import json, sys
status = json.load(sys.stdin)
print({**status, **(status.get("Self") or {})}.get(sys.argv[1]) or "")' "$1"
}

is_joined() { [[ $(tailscale_field BackendState) == Running ]]; }

join() {
    local key=$TAILSCALE_AUTH_KEY_FILE answer
    if is_joined; then return 0; fi
    if [[ $DRY_RUN == 1 ]]; then
        echo "would join the tailnet with the key in $key"
        return 0
    fi
    check_key_file "$key"
    say "join the tailnet"
    # The program reads the key itself: arguments are visible to everybody.
    answer=$(tailscale up "--auth-key=file:$key" --ssh=false --accept-routes=false \
        --accept-dns=false --timeout=60s ${TAILSCALE_HOSTNAME:+"--hostname=$TAILSCALE_HOSTNAME"} \
        ${TAILSCALE_TAGS:+"--advertise-tags=$TAILSCALE_TAGS"} 2>&1 </dev/null) \
        || fail "Tailscale refused: ${answer//$(<"$key")/(key)}" \
            "make a new auth key in the admin console, put it into $key (mode 0600), run again" \
            "ssh is as reachable as before"
    is_joined || fail "Tailscale accepted the key but is not connected" "tailscale status"
}

check_key_file() {
    [[ -s $SYSROOT$1 ]] || fail "no auth key in $1" \
        "make one in Tailscale's admin console and: install -m 0600 /dev/stdin $1"
    [[ -z $(find "$SYSROOT$1" -perm /077) ]] || fail "$1 can be read by others than root" \
        "chmod 0600 $1; consider the key known and revoke it"
}

# Used up or not, it need not lie about. Not by remove_file: no copy may stay.
forget_key() {
    [[ -e $SYSROOT$TAILSCALE_AUTH_KEY_FILE ]] || return 0
    change "delete the auth key" shred -u "$SYSROOT$TAILSCALE_AUTH_KEY_FILE"
}

check() {
    local expiry days
    expiry=$(tailscale_field KeyExpiry)
    expect "joined the tailnet" "$(tailscale_field BackendState)" is_joined
    expect "connected to the tailnet" "" test "$(tailscale_field Online)" = True
    # Its file transfer serves the machine's files, and it asks neither PAM nor tank who comes.
    expect "Tailscale's own ssh is off" "" test -z "$(tailscale_field sshHostKeys)"
    check_owner
    if [[ -z $expiry ]]; then
        expect "machine key" "does not expire" true
        return
    fi
    days=$((($(date -d "$expiry" +%s) - $(date +%s)) / 86400))
    expect "machine key" "expires in $days days ($expiry)" \
        test "$days" -gt "$TAILSCALE_EXPIRY_WARNING_DAYS"
}

# To other machines, whoever works here comes with this machine's identity. A person's would let them in
# as that person; a machine with tags is nobody's.
check_owner() {
    local tags
    [[ -n $(getent group tank-tailnet | cut -d: -f4) ]] || return 0
    tags=$(tailscale_field Tags)
    expect "this machine is no person's device" "${tags:-no tags; see TAILSCALE_TAGS}" test -n "$tags"
}
