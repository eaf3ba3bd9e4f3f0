#pragma once

#include <nanobind/nanobind.h>

// Add Ocean's environments to pufferlib._native.
void bind_ocean(nanobind::module_ &module);
