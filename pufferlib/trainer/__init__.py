"""PPO: storage, mathematics, the parts of the loop, checkpoints, configuration and display."""
