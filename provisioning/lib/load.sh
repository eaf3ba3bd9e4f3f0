# shellcheck shell=bash disable=SC1090,SC1091
# Everything in this directory, and the configuration.

REPOSITORY=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
SYSROOT=${SYSROOT:-}
DRY_RUN=${DRY_RUN:-0}
LOCAL_CONFIGURATION=/etc/tank/tank.conf

source "$REPOSITORY/provisioning/lib/messages.sh"
source "$REPOSITORY/provisioning/lib/changes.sh"
source "$REPOSITORY/provisioning/lib/apt.sh"
source "$REPOSITORY/provisioning/lib/facts.sh"
source "$REPOSITORY/provisioning/lib/firewall.sh"
source "$REPOSITORY/provisioning/lib/gpu.sh"

# Names that a file of the configuration sets.
configuration_names() { sed -n 's/^\([A-Z][A-Z0-9_]*\)=.*/\1/p' "$1"; }

# The shipped tank.conf, then the machine's own (CONFIG_FILE, or /etc/tank/tank.conf if it exists),
# which may set the same names and no other.
load_configuration() {
    local shipped=$REPOSITORY/provisioning/tank.conf own=${CONFIG_FILE:-} unknown
    source "$shipped"
    [[ -n $own || ! -e $SYSROOT$LOCAL_CONFIGURATION ]] || own=$SYSROOT$LOCAL_CONFIGURATION
    [[ -n $own ]] || return 0
    [[ -r $own ]] || fail "cannot read the configuration $own"
    # It runs as root.
    [[ -O $own && -z $(find -L "$own" -perm /022) ]] \
        || fail "$own can be changed by others than root" "chown root $own; chmod go-w $own"
    unknown=$(grep -vxFf <(configuration_names "$shipped") <(configuration_names "$own") || true)
    [[ -z $unknown ]] || fail "$own sets what tank.conf does not know: ${unknown//$'\n'/ }" \
        "the names are explained in $shipped"
    source "$own"
}
