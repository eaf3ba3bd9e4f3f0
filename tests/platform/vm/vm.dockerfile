# The bare server of the other tests as a machine of its own: with Debian's kernel for virtual machines
# and a network card. vm.py makes a disk of its files.
ARG BOX_IMAGE=puffertank-test/box:bare

FROM ${BOX_IMAGE}
SHELL ["/bin/bash", "-euo", "pipefail", "-c"]
COPY files /
# As an administrator installs a server, with compiler, git and the headers of its kernel: unpacking
# their twenty thousand files takes emulated processors minutes, and test_provision.py does it.
# hadolint ignore=DL3008
RUN apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -yqq --no-install-recommends \
        build-essential git gnupg initramfs-tools linux-headers-cloud-amd64 linux-image-cloud-amd64 \
        python3 vim >/dev/null \
    && rm -rf /var/lib/apt/lists/* \
    && systemctl unmask systemd-udevd.service systemd-udev-trigger.service systemd-modules-load.service \
    && systemctl enable systemd-networkd.service
