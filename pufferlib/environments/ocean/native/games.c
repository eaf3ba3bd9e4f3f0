// All native environments.
#include "game.h"

const Game *const GAMES[] = {&BREAKOUT, &PONG, &SQUARED};
const size_t NUM_GAMES = sizeof GAMES / sizeof *GAMES;
