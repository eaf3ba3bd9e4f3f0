#!/bin/bash
# What a tank must be able to do, after all that its parents must.
set -euo pipefail

bash "$(dirname "${BASH_SOURCE[0]}")/deps.sh"

fail() {
    echo "tank: $*" >&2
    exit 1
}

for command in git htop nvim nvtop rsync scp ssh tini tmux vim; do
    command -v "$command" >/dev/null || fail "no $command"
done
[[ -x /usr/lib/openssh/sftp-server ]] || fail "no sftp-server, so scp and sftp into it fail"
python -W error -c '
import pufferlib, pufferlib.native
assert pufferlib.__file__ == "/puffer/pufferlib/__init__.py", pufferlib.__file__
assert pufferlib.native.available, "no native core"'
# Every environment that this image can run, each in a process of its own.
families=$(python -c 'from pufferlib.environments import ROWS
print(*(row.name for row in ROWS.values() if row.installed and not row.remedies))')
for family in $families; do
    python -c 'import sys
from pufferlib import environments, testing, vector
with vector.make(environments.load(sys.argv[1]).env_creator()) as envs:
    testing.rollout(envs, 300, seed=1)' "$family" >/dev/null || fail "$family does not play"
done
[[ $(cd / && puffer --version) == *"$PUFFERTANK_VERSION"* ]] || [[ $PUFFERTANK_VERSION == 0 ]] \
    || fail "this image is labelled $PUFFERTANK_VERSION, but has $(puffer --version)"
echo "tank: plays $families"
echo "tank: ok"
