// mix.h: mixes words into a running number, for streams of random numbers and for fingerprints that people compare.
//
// Different words may give one number: it never stands for what it was made from.
#ifndef MDL_BASE_MIX_H
#define MDL_BASE_MIX_H

#include <stdint.h>

static inline uint64_t mix_word(uint64_t mixed, uint64_t word) {
  mixed ^= word + 0x9e3779b97f4a7c15u + (mixed << 6) + (mixed >> 2);
  mixed = (mixed ^ (mixed >> 30)) * 0xbf58476d1ce4e5b9u;
  mixed = (mixed ^ (mixed >> 27)) * 0x94d049bb133111ebu;
  return mixed ^ (mixed >> 31);
}

#endif
