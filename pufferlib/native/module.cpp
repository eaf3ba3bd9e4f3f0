// The extension module pufferlib._native: thin bindings, no logic.
//
// nanobind converts array arguments silently: a float64 array would be copied and the caller's
// buffer stay unwritten. Every array parameter is therefore noconvert.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <cstddef>

#include "advantage_scan.hpp"
#include "ocean.hpp"
#include "row_step.hpp"
#include "vtrace_scan.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace {

template <typename Scalar>
using Rows = nb::ndarray<Scalar, nb::ndim<2>, nb::c_contig, nb::device::cpu>;

template <typename Array>
void require_shape(const Array &array, std::size_t segments, std::size_t horizon,
                   const char *name) {
    if (array.shape(0) != segments || array.shape(1) != horizon) {
        PyErr_Format(PyExc_ValueError, "%s: expected shape (%zu, %zu) like rewards, got (%zu, %zu)",
                     name, segments, horizon, array.shape(0), array.shape(1));
        throw nb::python_error();
    }
}

void advantage_scan(const Rows<const float> &rewards, const Rows<const float> &values,
                    const Rows<const float> &next_values, const Rows<const bool> &terminals,
                    const Rows<const bool> &dones, const Rows<const bool> &valid, double gamma,
                    double lam, const Rows<float> &out) {
    const std::size_t segments = rewards.shape(0);
    const std::size_t horizon = rewards.shape(1);
    require_shape(values, segments, horizon, "values");
    require_shape(next_values, segments, horizon, "next_values");
    require_shape(terminals, segments, horizon, "terminals");
    require_shape(dones, segments, horizon, "dones");
    require_shape(valid, segments, horizon, "valid");
    require_shape(out, segments, horizon, "out");
    const nb::gil_scoped_release release;
    puffer::advantage_scan(segments, horizon, rewards.data(), values.data(), next_values.data(),
                           terminals.data(), dones.data(), valid.data(),
                           static_cast<float>(gamma), static_cast<float>(gamma * lam), out.data());
}

void vtrace_scan(const Rows<const float> &rewards, const Rows<const float> &values,
                 const Rows<const float> &next_values, const Rows<const bool> &terminals,
                 const Rows<const bool> &dones, const Rows<const bool> &valid,
                 const Rows<const float> &ratios, double gamma, double lam, double rho_clip,
                 double c_clip, const Rows<float> &out, const Rows<float> &errors) {
    const std::size_t segments = rewards.shape(0);
    const std::size_t horizon = rewards.shape(1);
    require_shape(values, segments, horizon, "values");
    require_shape(next_values, segments, horizon, "next_values");
    require_shape(terminals, segments, horizon, "terminals");
    require_shape(dones, segments, horizon, "dones");
    require_shape(valid, segments, horizon, "valid");
    require_shape(ratios, segments, horizon, "ratios");
    require_shape(out, segments, horizon, "out");
    require_shape(errors, segments, horizon, "errors");
    const nb::gil_scoped_release release;
    puffer::vtrace_scan(segments, horizon, rewards.data(), values.data(), next_values.data(),
                        terminals.data(), dones.data(), valid.data(), ratios.data(),
                        static_cast<float>(gamma), static_cast<float>(gamma * lam),
                        static_cast<float>(rho_clip), static_cast<float>(c_clip), out.data(),
                        errors.data());
}

}  // namespace

NB_MODULE(_native, module) {
    // Whoever keeps an environment until the interpreter ends has done nothing wrong.
    nb::set_leak_warnings(false);
    module.attr("SOURCES") = PUFFER_SOURCES;
    module.attr("SOURCE_HASH") = PUFFER_SOURCE_HASH;
    module.def("advantage_scan", &advantage_scan, "rewards"_a.noconvert(), "values"_a.noconvert(),
               "next_values"_a.noconvert(), "terminals"_a.noconvert(), "dones"_a.noconvert(),
               "valid"_a.noconvert(), "gamma"_a, "lam"_a, "out"_a.noconvert());
    module.def("vtrace_scan", &vtrace_scan, "rewards"_a.noconvert(), "values"_a.noconvert(),
               "next_values"_a.noconvert(), "terminals"_a.noconvert(), "dones"_a.noconvert(),
               "valid"_a.noconvert(), "ratios"_a.noconvert(), "gamma"_a, "lam"_a, "rho_clip"_a,
               "c_clip"_a, "out"_a.noconvert(), "errors"_a.noconvert());
    bind_ocean(module);
    puffer::bind_row_step(module);
}
