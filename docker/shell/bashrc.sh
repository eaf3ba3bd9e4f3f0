# shellcheck shell=bash
# An interactive shell says where it is: [tank] user directory (branch).
if [ -n "${PS1:-}" ] && [ -n "${BASH_VERSION:-}" ]; then
    tank_branch() {
        local branch
        branch=$(git symbolic-ref --short -q HEAD 2>/dev/null) && printf ' (%s)' "$branch"
    }
    PS1='\[\e[36m\][tank]\[\e[0m\] \u \[\e[34m\]\w\[\e[0m\]$(tank_branch) \$ '
fi
