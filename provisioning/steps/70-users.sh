# shellcheck shell=bash
# The command `tank`, the groups of users that live in containers, and what new ones get.

TANK_LIBRARY=/usr/local/lib/tank

apply() {
    local file group
    install_packages python3 passwd iproute2 openssh-client procps e2fsprogs quota
    for group in tank tank-tailnet; do
        getent group "$group" >/dev/null || change "make the group $group" groupadd --system "$group"
    done
    for file in "$REPOSITORY"/provisioning/tank/*.py; do
        write_file "$TANK_LIBRARY/tank/${file##*/}" 0644 <"$file"
    done
    compile_library
    write_file /usr/local/bin/tank 0755 <"$REPOSITORY/provisioning/login/tank"
    users_json | write_file /etc/tank/users.json 0644
}

# Else the first program that runs as root does it: verify.sh, which changes nothing, or the first login,
# which waits.
compile_library() {
    local file name compiled stale=0
    for file in "$SYSROOT$TANK_LIBRARY"/tank/*.py; do
        name=${file##*/}
        compiled=("${file%/*}/__pycache__/${name%.py}".*.pyc)
        [[ ! ${compiled[0]-} -ot $file ]] || stale=1 # images keep whole seconds: equal is fresh
    done
    ((stale == 0)) || change "compile the command tank" python3 -m compileall -qf "$SYSROOT$TANK_LIBRARY"
}

# What the command reads: the image and quota of new users, and whom they ask.
users_json() {
    cat <<EOT
{
  "image": $(json "$TANK_IMAGE"),
  "contact": $(json "$TANK_CONTACT"),
  "quota": {
    "cpus": ${USER_CPUS:-null},
    "memory": $(json_or_null "$USER_MEMORY"),
    "shm": $(json_or_null "$USER_SHM"),
    "pids": $USER_PIDS,
    "gpus": $(json "$USER_GPUS"),
    "disk": $(json_or_null "${USER_DISK,,}")
  }
}
EOT
}

# json TEXT: as a string of JSON.
json() {
    local text=${1//\\/\\\\}
    printf '"%s"' "${text//\"/\\\"}"
}

json_or_null() { if [[ -n $1 ]]; then json "$1"; else printf null; fi; }

# members GROUP: one a line, sorted.
members() { getent group "$1" | cut -d: -f4 | tr , '\n' | LC_ALL=C sort; }

check() {
    local member both=() asked mapped
    for member in $(members tank); do
        [[ ! $(id -nG "$member") =~ (^| )(sudo|docker|root)( |$) ]] || both+=("$member")
    done
    expect "nobody whose login is a container is root outside" "${both[*]}" test ${#both[@]} -eq 0
    asked=$(members tank-tailnet)
    mapped=$(tank user list --json 2>/dev/null | python3 -c '
import json, sys
users = json.load(sys.stdin)["users"]
print(*sorted(name for name, user in users.items() if user["credential"] != "key"), sep="\n")')
    expect "whose credential is the tailnet is asked for it" "$(paste -sd ' ' - <<<"$mapped")" \
        test "$asked" = "$mapped"
    expect "tank reads its state" "$(tank user list 2>&1 | head -n 1)" tank user list
}
