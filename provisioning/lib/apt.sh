# shellcheck shell=bash
# Packages and their sources. Mirrors that are configured on the machine stay as they are.

KEYRINGS=/etc/apt/keyrings

is_installed() {
    [[ $(dpkg-query -W -f '${db:Status-Status}' "$1" 2>/dev/null) == installed ]]
}

# The installed version of a package; nothing if it is not installed.
package_version() {
    is_installed "$1" && dpkg-query -W -f '${Version}' "$1"
}

# Run apt-get without questions, keeping configuration files that were changed by hand. A failure is
# explained by what apt printed.
apt_get() {
    local output status=0
    output=$(DEBIAN_FRONTEND=noninteractive NEEDRESTART_SUSPEND=1 apt-get -q -y \
        -o DPkg::Lock::Timeout=300 -o Dpkg::Options::=--force-confdef \
        -o Dpkg::Options::=--force-confold "$@" 2>&1 </dev/null) || status=$?
    log debug "$output"
    # 'update' warns and exits with 0 when an index could not be had.
    if ((status == 0)) && ! grep -qE '^(W: Failed to fetch|E:)' <<<"$output"; then return 0; fi
    tail -n 12 <<<"$output" >&2
    fail "apt-get $1 failed (status $status)" "$(explain_apt "$output")"
}

# explain_apt OUTPUT: what to do about a failure.
explain_apt() {
    local case
    for case in "${APT_FAILURES[@]}"; do
        if grep -qE -- "${case%%=>*}" <<<"$1"; then
            printf '%s\n' "${case##*=>}"
            return
        fi
    done
    printf 'repeat by hand: apt-get update; apt-get -f install\n'
}

APT_FAILURES=(
    'No space left on device=>free space (df -h / /var; apt-get clean) and run again'
    "don't have enough free space=>free space (df -h / /var; apt-get clean) and run again"
    'Conflicting values set for option Signed-By=>two entries name one repository with different keys; keep one: grep -rn URI /etc/apt/sources.list.d'
    'NO_PUBKEY|EXPKEYSIG|is not signed|were invalid=>the repository is not signed by the key of tank.conf; check URL and fingerprint there'
    'Could not get lock=>another package manager runs; wait for it (ps -C apt-get,dpkg,unattended-upgr)'
    'dpkg was interrupted=>dpkg --configure -a'
    'Temporary failure resolving|Could not connect|Connection timed out|Could not resolve=>check network and proxy (/etc/apt/apt.conf.d), then run again'
    'Unable to locate package|has no installation candidate=>the configured mirrors lack it; check components in /etc/apt and the URLs of tank.conf'
    'unmet dependencies|held broken packages=>apt-get -f install; apt-mark showhold'
    'Failed to fetch=>the repository does not answer as expected; check its URL in tank.conf or /etc/apt'
)

# Refresh the package lists, once in a run unless a source changes.
update_lists() {
    [[ ! -e $RUN_DIR/lists-are-new ]] || return 0
    apt_get update
    touch "$RUN_DIR/lists-are-new"
}

# missing_packages NAME...: those that are not installed, one a line. Asks once: dpkg reads all it knows
# for every question.
missing_packages() {
    local installed
    installed=$(dpkg-query -W -f '${db:Status-Status} ${Package}\n' "$@" 2>/dev/null || true)
    printf 'installed %s\n' "$@" | grep -vxFf <(printf '%s\n' "$installed") | cut -d' ' -f2 || true
}

# install_packages NAME...: those of them that are not installed yet, without recommended ones.
install_packages() {
    local name missing
    mapfile -t missing < <(missing_packages "$@")
    ((${#missing[@]})) || return 0
    if [[ $DRY_RUN == 1 ]]; then
        printf 'would install %s\n' "${missing[*]}"
        return 0
    fi
    say "install ${missing[*]}"
    repair_packages
    update_lists
    apt_get install --no-install-recommends "${missing[@]}"
    for name in $(missing_packages "${missing[@]}"); do
        fail "$name is not installed, although apt-get reports success" "apt-get install $name"
    done
}

# Finish what an interrupted dpkg left half done.
repair_packages() {
    [[ -n $(dpkg --audit 2>/dev/null) ]] || return 0
    say "finish packages that an interruption left half installed"
    DEBIAN_FRONTEND=noninteractive dpkg --force-confdef --force-confold --configure -a \
        >/dev/null 2>&1 </dev/null || true
    apt_get -f install
}

# enable_components NAME...: add them to the entries of Debian itself, in either format of sources.
enable_components() {
    local file
    for file in "$SYSROOT"/etc/apt/sources.list "$SYSROOT"/etc/apt/sources.list.d/*; do
        [[ -s $file && $file =~ \.(list|sources)$ ]] || continue
        with_components "$file" "$@" | write_source "${file#"$SYSROOT"}"
    done
}

# with_components FILE NAME...: the text of FILE with the components added to the entries that have
# 'main' of this release and are signed by Debian's keyring, or by default.
with_components() {
    awk -v wanted="${*:2}" -v release="$DEBIAN_RELEASE" -v one_line="${1/*.list/1}" '
        function is_debian(entry) {
            if (entry ~ /^#/ || entry !~ "[ \t]" release "([-/ ]|\n)" || entry !~ /[ \t]main/)
                return 0
            if (entry ~ /[Ss]igned-[Bb]y/) return entry ~ /debian-archive/
            return entry ~ /\/debian(-security)?\/?[ \n]/
        }
        function add(line,    names, count, i) {
            count = split(wanted, names, " ")
            for (i = 1; i <= count; i++)
                if (index(line " ", " " names[i] " ") == 0) line = line " " names[i]
            return line
        }
        function flush(    lines, count, i) {
            count = split(entry, lines, "\n") - 1
            for (i = 1; i <= count; i++)
                print is_debian(entry) && (one_line == 1 || lines[i] ~ /^Components:/) \
                    ? add(lines[i]) : lines[i]
            entry = ""
        }
        { entry = entry $0 "\n" }
        one_line == 1 || /^[ \t]*$/ { flush() }
        END { flush() }' "$1"
}

# write_source PATH: a file of apt sources (stdin); what it names is fetched before the next install.
write_source() {
    local new
    new=$(cat)
    if printf '%s\n' "$new" | has_content "$1" 0644; then return 0; fi
    printf '%s\n' "$new" | write_file "$1" 0644
    rm -f "$RUN_DIR/lists-are-new"
}

# add_repository NAME URI SUITE COMPONENTS KEY FINGERPRINT: a vendor's repository, signed by the key
# at KEY (URL or path), which must have that fingerprint. Entries for the same URI that others wrote
# are switched off: with another key beside ours, apt refuses to do anything.
add_repository() {
    local name=$1 uri=$2 suite=$3 components=$4 key=$KEYRINGS/tank-$1
    fetch_key "$name" "$5" "$6"
    [[ -e $SYSROOT$key.gpg ]] && key+=.gpg || key+=.asc
    switch_off_entries "$uri"
    {
        printf 'Types: deb\nURIs: %s\nSuites: %s\n' "$uri" "$suite"
        [[ -z $components ]] || printf 'Components: %s\n' "$components"
        printf 'Signed-By: %s\n' "$key"
    } | write_source "/etc/apt/sources.list.d/tank-$name.sources"
}

# fetch_key NAME KEY FINGERPRINT: into the directory of keyrings, unless it is there already.
fetch_key() {
    local kept=$SYSROOT$KEYRINGS/tank-$1 new found
    if has_fingerprint "$3" "$kept.asc" || has_fingerprint "$3" "$kept.gpg"; then return 0; fi
    if [[ $DRY_RUN == 1 ]]; then
        printf 'would fetch the key of the %s repository\n' "$1"
        return 0
    fi
    new=$(mktemp)
    fetch "$2" "$new" || fail "cannot fetch the key of the $1 repository from $2" \
        "check the network, or the URL in tank.conf"
    if ! has_fingerprint "$3" "$new"; then
        found=$(fingerprints "$new")
        rm -f "$new"
        fail "the key of the $1 repository is refused: expected fingerprint $3, got ${found:-no key}" \
            "if the vendor really has a new key, put its fingerprint into tank.conf"
    fi
    # apt tells the two formats apart by the name alone.
    if grep -q 'BEGIN PGP' "$new"; then kept+=.asc; else kept+=.gpg; fi
    write_file "${kept#"$SYSROOT"}" 0644 <"$new"
    rm -f "$new"
}

# fetch URL FILE
fetch() {
    case $1 in
        https://*) curl --fail --silent --show-error --location --max-time 60 -o "$2" "$1" ;;
        *) cp "${1#file://}" "$2" ;;
    esac
}

fingerprints() {
    gpg --batch --quiet --with-colons --show-keys "$1" 2>/dev/null \
        | awk -F: '$1 == "fpr" { print $10 }' | head -n 1
}

has_fingerprint() { [[ -s $2 && $(fingerprints "$2") == "$1" ]]; }

# switch_off_entries URI: entries of apt for this repository in files that are not ours.
switch_off_entries() {
    local file
    for file in "$SYSROOT"/etc/apt/sources.list "$SYSROOT"/etc/apt/sources.list.d/*; do
        [[ -s $file && $file =~ \.(list|sources)$ && $(basename "$file") != tank-* ]] || continue
        grep -qF -- "${1%/}" "$file" || continue
        without_entry "$file" "${1%/}" | write_source "${file#"$SYSROOT"}"
    done
}

# without_entry FILE URI: the text of FILE with the entries for URI commented out.
without_entry() {
    awk -v uri="$2" -v one_line="${1/*.list/1}" '
        function flush(    lines, count, i, ours) {
            count = split(entry, lines, "\n") - 1
            ours = index(entry, uri " ") || index(entry, uri "/ ") \
                || index(entry, uri "\n") || index(entry, uri "/\n")
            for (i = 1; i <= count; i++)
                print (ours && lines[i] !~ /^(#|[ \t]*$)/ ? "# off, see tank-*.sources: " : "") lines[i]
            entry = ""
        }
        { entry = entry $0 "\n" }
        one_line == 1 || /^[ \t]*$/ { flush() }
        END { flush() }' "$1"
}
