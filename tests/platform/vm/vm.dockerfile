# The bare server of the other tests as a machine of its own: with Debian's kernel for virtual machines
# and a network card. vm.py makes a disk of its files.
ARG BOX_IMAGE=puffertank-test/box:bare

FROM ${BOX_IMAGE}
SHELL ["/bin/bash", "-euo", "pipefail", "-c"]
COPY files /
# The kernel's headers are there as on a machine that was installed with them: unpacking their ten
# thousand files takes emulated processors a minute.
# hadolint ignore=DL3008
RUN apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -yqq --no-install-recommends \
        initramfs-tools linux-headers-cloud-amd64 linux-image-cloud-amd64 >/dev/null \
    && rm -rf /var/lib/apt/lists/* \
    && systemctl unmask systemd-udevd.service systemd-udev-trigger.service systemd-modules-load.service \
    && systemctl enable systemd-networkd.service
