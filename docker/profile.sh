# shellcheck shell=sh
# For login shells: /etc/profile has reset PATH. The home has what users outside the group `venv`
# install with pip.
export PATH="/opt/venv/bin:$HOME/.local/bin:/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin:/usr/local/cuda/bin"
export VIRTUAL_ENV=/opt/venv
