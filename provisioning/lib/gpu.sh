# shellcheck shell=bash
# The NVIDIA driver: its packages, its hold, and whether its halves agree.

NVIDIA_PATTERN='^(nvidia-|libnvidia-|lib[a-z0-9]+-nvidia|libcuda1|cuda-drivers|firmware-nvidia|xserver-xorg-video-nvidia)'

# Installed packages of the driver and the toolkit.
nvidia_packages() {
    dpkg-query -W -f '${db:Status-Status} ${Package}\n' 2>/dev/null \
        | awk -v pattern="$NVIDIA_PATTERN" '$1 == "installed" && $2 ~ pattern {print $2}'
}

# Those among them that an upgrade could change.
unheld_nvidia_packages() {
    comm -23 <(nvidia_packages | sort -u) <(apt-mark showhold 2>/dev/null | sort -u)
}

hold_nvidia_packages() {
    local unheld
    mapfile -t unheld < <(unheld_nvidia_packages)
    ((${#unheld[@]} == 0)) || change "hold ${unheld[*]}" apt-mark hold "${unheld[@]}"
}

# The package whose version is the driver's.
driver_package() {
    if [[ $DRIVER == vendor ]]; then echo "${DRIVER_PACKAGES_VENDOR%% *}"; else echo nvidia-driver; fi
}

# Version of the installed packages, without Debian's revision.
packaged_driver() {
    local version
    version=$(package_version "$(driver_package)") || return 0
    printf '%s\n' "${version%-*}"
}

# What is wrong between the three versions of the driver; nothing if they are one.
driver_disagreement() {
    local loaded built packaged
    loaded=$(loaded_driver)
    built=$(built_driver)
    packaged=$(packaged_driver)
    if [[ -z $built ]]; then
        echo "no module was built for kernel $(uname -r)"
    elif [[ -n $packaged && $built != "$packaged" ]]; then
        echo "the module is $built, the packages are $packaged"
    elif [[ -z $loaded ]]; then
        echo "the module $built is not loaded"
    elif [[ $loaded != "$built" ]]; then
        echo "loaded is $loaded, installed $built"
    fi
}
