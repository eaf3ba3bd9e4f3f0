# The bare server of the other tests as a machine of its own: with Debian's kernel for virtual machines
# and a network card. vm.py makes a disk of its files.
#
# Emulated processors take minutes to unpack what test_provision.py installs on a bare server, so most
# of it is here from the start: the tools, the kernel's headers and an engine as its packages leave it.
ARG BOX_IMAGE=puffertank-test/box:bare

FROM ${BOX_IMAGE}
SHELL ["/bin/bash", "-euo", "pipefail", "-c"]
COPY files /
# hadolint ignore=DL3008,DL3009
RUN apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -yqq --no-install-recommends \
        build-essential curl git gnupg htop initramfs-tools iptables linux-headers-cloud-amd64 \
        linux-image-cloud-amd64 nftables openssh-client pciutils python3 rsync sudo systemd-timesyncd \
        tmux unattended-upgrades util-linux-extra vim zstd /srv/repository/docker/*.deb >/dev/null \
    && rm -rf /srv/repository/docker/*.deb /var/cache/apt/* /usr/share/{doc,info,locale,man}/* \
    && systemctl unmask systemd-udevd.service systemd-udev-trigger.service systemd-modules-load.service \
    && systemctl enable systemd-networkd.service \
    && systemctl mask quotaon.service  # as the page for administrators says
# What a boot, a login and every daemon-reload can do without, at a second or more each.
WORKDIR /etc/systemd/system-generators
RUN systemctl disable e2scrub_reap.service systemd-pstore.service unattended-upgrades.service \
    && systemctl mask modprobe@drm.service modprobe@efi_pstore.service user@0.service \
    && for name in cryptsetup debug gpt-auto hibernate-resume integritysetup rc-local run system-update sysv \
        veritysetup; do ln -s /dev/null "systemd-$name-generator"; done
# The rest comes from a repository of its own: to read Debian's list of sixty thousand packages would
# take half a minute in every step. Of the mirror, which preflight asks for, the shortest list stays.
WORKDIR /srv/debian
# hadolint ignore=DL3008,DL3009
RUN apt-get install -yqq --download-only --no-install-recommends -o Dir::Cache::archives="${PWD}" \
        apparmor dkms libpam-net quota >/dev/null \
    && rm -rf lock partial && dpkg-scanpackages . >Packages \
    && echo 'deb [trusted=yes] file:///srv/debian ./' >/etc/apt/sources.list.d/debian-few.list \
    && sed -i 's/^Components:.*/Components: contrib/' /etc/apt/sources.list.d/*.sources \
    && apt-get update -qq
