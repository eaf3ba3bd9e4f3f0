// Many worlds of one of Ocean's games, stepped together into rows that belong to somebody else.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "crew.hpp"

extern "C" {
#include "../environments/ocean/native/game.h"
#include "../environments/ocean/native/random.h"
}

namespace puffer {

class Worlds {
   public:
    // `game` and `options` are right: see `find_game` and `Game::state_size`.
    Worlds(const Game &game, std::vector<std::int32_t> options, std::size_t num_worlds,
           std::size_t threads)
        : game_(game),
          options_(std::move(options)),
          num_worlds_(num_worlds),
          state_size_(game.state_size(options_.data())),
          agents_(game.num_agents(options_.data())),
          states_(num_worlds * state_size_ / sizeof(std::uint64_t)),
          crew_(std::min(threads, num_worlds)),
          ends_(crew_.size()) {}

    const Game &game() const { return game_; }
    std::size_t num_worlds() const { return num_worlds_; }
    std::size_t num_agents() const { return num_worlds_ * agents_; }
    std::size_t observation_size() const { return game_.observation_size(options_.data()); }
    std::size_t picture_rows() const { return game_.picture_rows(options_.data()); }
    std::size_t picture_columns() const { return game_.picture_columns(options_.data()); }
    std::size_t state_bytes() const { return states_.size() * sizeof(std::uint64_t); }
    const void *states() const { return states_.data(); }
    bool started() const { return started_; }

    void bind(const Rows &rows) {
        rows_ = rows;
        if (started_) observe();
    }

    // World i plays on the stream whose seed is output i of the stream `seed`.
    void seed(std::uint64_t seed) {
        for (std::size_t i = 0; i < num_worlds_; ++i)
            states_[offset(i)] = random_next(&seed);
    }

    void reset() {
        started_ = true;
        game_.reset(options_.data(), states_.data(), num_worlds_);
        std::fill_n(rows_.rewards, num_agents(), 0.0f);
        clear_flags(rows_, num_agents());
        observe();
    }

    void set_states(const void *states) {
        std::memcpy(states_.data(), states, state_bytes());
        started_ = true;
        observe();
    }

    // Write the picture of a world: rows × columns × 3 bytes.
    void draw(std::size_t world, std::uint8_t *rgb) const {
        game_.draw(options_.data(), states_.data() + offset(world), rgb);
    }

    // The index of the first action that is none, or num_agents.
    std::size_t find_bad_action(const std::int64_t *actions) const {
        const auto last = static_cast<std::uint64_t>(game_.num_actions - 1);
        std::uint64_t bad = 0;  // its highest bit is set by an action below 0 or above `last`
        for (std::size_t i = 0; i < num_agents(); ++i) {
            const auto action = static_cast<std::uint64_t>(actions[i]);
            bad |= action | (last - action);
        }
        if (!(bad >> 63)) return num_agents();
        const auto *found = std::find_if(actions, actions + num_agents(), [last](std::int64_t a) {
            return static_cast<std::uint64_t>(a) > last;
        });
        return static_cast<std::size_t>(found - actions);
    }

    // Returns how many episodes ended; their records are in the order of the rows.
    std::size_t step(const std::int64_t *actions) {
        rows_.actions = actions;
        crew_.run([this](std::size_t part) { step_part(part); });
        Record *end = ends_[0];
        for (std::size_t part = 1; part < ends_.size(); ++part)
            end = std::copy(records_of(part), ends_[part], end);
        return static_cast<std::size_t>(end - rows_.records);
    }

   private:
    // Of a world's state, in words.
    std::size_t offset(std::size_t world) const {
        return world * state_size_ / sizeof(std::uint64_t);
    }

    std::size_t first_world(std::size_t part) const { return num_worlds_ * part / crew_.size(); }

    Record *records_of(std::size_t part) const {
        return rows_.records + first_world(part) * agents_;
    }

    void step_part(std::size_t part) {
        const std::size_t first = first_world(part), count = first_world(part + 1) - first;
        const Rows rows = rows_from(first * agents_);
        clear_flags(rows, count * agents_);
        ends_[part] = game_.step(options_.data(), states_.data() + offset(first), count, rows);
    }

    Rows rows_from(std::size_t row) const {
        const std::size_t bytes = row * observation_size();
        return {static_cast<char *>(rows_.observations) + bytes,
                static_cast<char *>(rows_.final_observations) + bytes,
                rows_.actions + row,
                rows_.rewards + row,
                rows_.terminals + row,
                rows_.truncations + row,
                rows_.masks + row,
                rows_.records + row};
    }

    static void clear_flags(const Rows &rows, std::size_t count) {
        std::fill_n(rows.terminals, count, false);
        std::fill_n(rows.truncations, count, false);
    }

    void observe() { game_.observe(options_.data(), states_.data(), num_worlds_, rows_); }

    const Game &game_;
    std::vector<std::int32_t> options_;
    std::size_t num_worlds_, state_size_, agents_;
    std::vector<std::uint64_t> states_;
    LazyCrew crew_;
    std::vector<Record *> ends_;  // of each part's records
    Rows rows_{};
    bool started_ = false;
};

inline const Game *find_game(const std::string &name) {
    const auto *end = GAMES + NUM_GAMES;
    const auto *found =
        std::find_if(GAMES, end, [&name](const Game *game) { return name == game->name; });
    return found == end ? nullptr : *found;
}

}  // namespace puffer
