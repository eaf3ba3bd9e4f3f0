// Ocean's native environments in pufferlib._native: checks of arguments, no logic. Every array
// parameter is noconvert, as module.cpp says.
#include "ocean.hpp"

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <optional>

#include "worlds.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace {

template <typename... Properties>
using Array = nb::ndarray<nb::c_contig, nb::device::cpu, Properties...>;

// Worlds and the arrays that they write, which stay alive with them.
struct Bound {
    puffer::Worlds worlds;
    std::vector<nb::ndarray<>> arrays;
};

void require(bool condition, const char *message) {
    if (!condition) throw nb::value_error(message);
}

template <typename Given>
void require_bytes(const Given &array, std::size_t bytes, const char *name) {
    if (array.nbytes() == bytes) return;
    PyErr_Format(PyExc_ValueError, "%s: expected %zu bytes, got %zu", name, bytes, array.nbytes());
    throw nb::python_error();
}

void make(Bound *self, const std::string &name, std::vector<std::int32_t> options,
          std::size_t num_worlds, std::size_t threads) {
    const Game *game = puffer::find_game(name);
    require(game != nullptr, "game: there is none of this name");
    require(options.size() == static_cast<std::size_t>(game->num_options), "options: wrong number");
    require(game->state_size(options.data()) > 0, "options: impossible for this game");
    require(num_worlds > 0 && threads > 0, "num_worlds, threads: expected at least 1");
    new (self) Bound{puffer::Worlds(*game, std::move(options), num_worlds, threads), {}};
}

void bind(Bound &self, const Array<> &observations, const Array<> &final_observations,
          const Array<float> &rewards, const Array<bool> &terminals, const Array<bool> &truncations,
          const Array<bool> &masks, const Array<> &records) {
    const std::size_t n = self.worlds.num_agents(), size = self.worlds.observation_size();
    require_bytes(observations, n * size, "observations");
    require_bytes(final_observations, n * size, "final_observations");
    require_bytes(rewards, n * sizeof(float), "rewards");
    require_bytes(terminals, n, "terminals");
    require_bytes(truncations, n, "truncations");
    require_bytes(masks, n, "masks");
    require_bytes(records, n * sizeof(Record), "records");
    self.arrays = {nb::ndarray<>(observations), nb::ndarray<>(final_observations),
                   nb::ndarray<>(rewards),      nb::ndarray<>(terminals),
                   nb::ndarray<>(truncations),  nb::ndarray<>(masks),
                   nb::ndarray<>(records)};
    self.worlds.bind({observations.data(), final_observations.data(), nullptr, rewards.data(),
                      terminals.data(), truncations.data(), masks.data(),
                      static_cast<Record *>(records.data())});
}

void reset(Bound &self, std::optional<std::uint64_t> seed) {
    require(!self.arrays.empty(), "reset() before bind()");
    require(seed || self.worlds.started(), "seed: expected one for the first reset");
    const nb::gil_scoped_release release;
    if (seed) self.worlds.seed(*seed);
    self.worlds.reset();
}

std::size_t step(Bound &self, const Array<const std::int64_t, nb::ndim<1>> &actions) {
    require(self.worlds.started(), "step() before reset()");
    require_bytes(actions, self.worlds.num_agents() * sizeof(std::int64_t), "actions");
    const nb::gil_scoped_release release;
    const std::size_t bad = self.worlds.find_bad_action(actions.data());
    if (bad == self.worlds.num_agents()) return self.worlds.step(actions.data());
    const nb::gil_scoped_acquire acquire;
    PyErr_Format(PyExc_ValueError, "actions[%zu]: expected 0 to %d, got %lld", bad,
                 self.worlds.game().num_actions - 1,
                 static_cast<long long>(actions.data()[bad]));
    throw nb::python_error();
}

nb::bytes get_state(const Bound &self) {
    require(self.worlds.started(), "an environment has no state before its first reset");
    return nb::bytes(self.worlds.states(), self.worlds.state_bytes());
}

void set_state(Bound &self, const nb::bytes &state) {
    require(!self.arrays.empty(), "set_state() before bind()");
    require(state.size() == self.worlds.state_bytes(), "state: of another number of worlds");
    self.worlds.set_states(state.data());
}

nb::ndarray<nb::numpy, std::uint8_t, nb::ndim<3>> picture(const Bound &self, std::size_t world) {
    require(self.worlds.started(), "picture() before reset()");
    require(world < self.worlds.num_worlds(), "world: there are not so many");
    const std::size_t rows = self.worlds.picture_rows(), columns = self.worlds.picture_columns();
    auto *pixels = new std::uint8_t[rows * columns * 3];
    const nb::capsule owner(pixels, [](void *memory) noexcept {
        delete[] static_cast<std::uint8_t *>(memory);
    });
    self.worlds.draw(world, pixels);
    return {pixels, {rows, columns, 3}, owner};
}

}  // namespace

void bind_ocean(nb::module_ &module) {
    nb::class_<Bound>(module, "Worlds")
        .def("__init__", &make, "game"_a, "options"_a, "num_worlds"_a, "threads"_a)
        .def("bind", &bind, "observations"_a.noconvert(), "final_observations"_a.noconvert(),
             "rewards"_a.noconvert(), "terminals"_a.noconvert(), "truncations"_a.noconvert(),
             "masks"_a.noconvert(), "records"_a.noconvert())
        .def("reset", &reset, "seed"_a.none())
        .def("step", &step, "actions"_a.noconvert())
        .def("get_state", &get_state)
        .def("set_state", &set_state, "state"_a)
        .def("picture", &picture, "world"_a)
        .def_prop_ro("num_agents", [](const Bound &self) { return self.worlds.num_agents(); })
        .def_prop_ro("started", [](const Bound &self) { return self.worlds.started(); });
}
