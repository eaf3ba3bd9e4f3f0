// Plays Squared with random actions and writes the rows of every step to the standard output:
//
//     play_worlds DISTANCE TARGETS WORLDS STEPS SEED THREADS
//
// The arrays are of the exact size, so that a sanitizer sees what is written beyond their ends.
#include <cstdio>
#include <cstdlib>
#include <memory>

#include "worlds.hpp"

int main(int, char **arguments) {
    const auto argument = [arguments](int i) { return std::strtoull(arguments[i], nullptr, 10); };
    const std::vector<std::int32_t> options{static_cast<std::int32_t>(argument(1)),
                                            static_cast<std::int32_t>(argument(2))};
    const std::size_t n = argument(3), cells = SQUARED.observation_size(options.data());
    puffer::Worlds worlds(SQUARED, options, n, argument(6));
    const auto observations = std::make_unique<char[]>(n * cells);
    const auto rewards = std::make_unique<float[]>(n);
    const auto terminals = std::make_unique<bool[]>(n), truncations = std::make_unique<bool[]>(n);
    const auto records = std::make_unique<Record[]>(n);
    const auto actions = std::make_unique<std::int64_t[]>(n);
    worlds.bind({observations.get(), nullptr, nullptr, rewards.get(), terminals.get(),
                 truncations.get(), nullptr, records.get()});
    worlds.seed(argument(5));
    worlds.reset();
    std::uint64_t stream = argument(5) + 1;
    for (std::size_t step = 0; step < argument(4); ++step) {
        for (std::size_t i = 0; i < n; ++i) actions[i] = random_below(&stream, 8);
        const std::size_t episodes = worlds.step(actions.get());
        std::fwrite(observations.get(), cells, n, stdout);
        std::fwrite(rewards.get(), sizeof(float), n, stdout);
        std::fwrite(terminals.get(), 1, n, stdout);
        std::fwrite(records.get(), sizeof(Record), episodes, stdout);
    }
    return 0;
}
