// Plays a game with random actions and writes the rows of every step to the standard output:
//
//     play_worlds GAME WORLDS STEPS SEED THREADS OPTION…
//
// After the last step the pictures of all worlds follow. The arrays are of the exact size, so that a
// sanitizer sees what is written beyond their ends.
#include <cstdio>
#include <cstdlib>
#include <memory>

#include "worlds.hpp"

namespace {

template <typename T>
void put(const T *array, std::size_t count) {
    std::fwrite(array, sizeof(T), count, stdout);
}

}  // namespace

int main(int count, char **arguments) {
    const auto argument = [arguments](int i) { return std::strtoull(arguments[i], nullptr, 10); };
    std::vector<std::int32_t> options;
    for (int i = 6; i < count; ++i) options.push_back(static_cast<std::int32_t>(argument(i)));
    const Game &game = *puffer::find_game(arguments[1]);
    puffer::Worlds worlds(game, options, argument(2), argument(5));
    const std::size_t n = worlds.num_agents(), size = worlds.observation_size();
    const auto observations = std::make_unique<char[]>(n * size);
    const auto finals = std::make_unique<char[]>(n * size);
    const auto rewards = std::make_unique<float[]>(n);
    const auto terminals = std::make_unique<bool[]>(n), truncations = std::make_unique<bool[]>(n);
    const auto masks = std::make_unique<bool[]>(n);
    const auto records = std::make_unique<Record[]>(n);
    const auto actions = std::make_unique<std::int64_t[]>(n);
    std::fill_n(masks.get(), n, true);
    worlds.bind({observations.get(), finals.get(), nullptr, rewards.get(), terminals.get(),
                 truncations.get(), masks.get(), records.get()});
    worlds.seed(argument(4));
    worlds.reset();
    std::uint64_t stream = argument(4) + 1;
    for (std::size_t step = 0; step < argument(3); ++step) {
        for (std::size_t i = 0; i < n; ++i)
            actions[i] = random_below(&stream, static_cast<std::uint32_t>(game.num_actions));
        const std::size_t episodes = worlds.step(actions.get());
        put(observations.get(), n * size);
        put(rewards.get(), n);
        put(terminals.get(), n);
        put(truncations.get(), n);
        put(masks.get(), n);
        put(records.get(), episodes);
    }
    const std::size_t pixels = worlds.picture_rows() * worlds.picture_columns();
    const auto picture = std::make_unique<std::uint8_t[]>(3 * pixels);
    for (std::size_t i = 0; i < worlds.num_worlds(); ++i) {
        worlds.draw(i, picture.get());
        put(picture.get(), 3 * pixels);
    }
    return 0;
}
