// All native environments.
#include "game.h"

const Game *const GAMES[] = {&BREAKOUT, &CONNECT_FOUR, &MAZE, &PONG, &SNAKE, &SQUARED};
const size_t NUM_GAMES = sizeof GAMES / sizeof *GAMES;
