# shellcheck shell=bash
# The command `tank`, the group of users that live in containers, and what new ones get.

TANK_LIBRARY=/usr/local/lib/tank

apply() {
    local file
    install_packages python3 passwd iproute2 openssh-client procps
    getent group tank >/dev/null || change "make the group tank" groupadd --system tank
    for file in "$REPOSITORY"/provisioning/tank/*.py; do
        write_file "$TANK_LIBRARY/tank/${file##*/}" 0644 <"$file"
    done
    write_file /usr/local/bin/tank 0755 <"$REPOSITORY/provisioning/login/tank"
    users_json | write_file /etc/tank/users.json 0644
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
    "gpus": $(json "$USER_GPUS")
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

check() {
    local member both=()
    for member in $(getent group tank | cut -d: -f4 | tr , ' '); do
        [[ ! $(id -nG "$member") =~ (^| )(sudo|docker|root)( |$) ]] || both+=("$member")
    done
    expect "nobody whose login is a container is root outside" "${both[*]}" test ${#both[@]} -eq 0
    expect "tank reads its state" "$(tank user list 2>&1 | head -n 1)" tank user list
}
