// Few rows times a few columns of a matrix, which are packed in the order in which they are read.

#pragma once

#include "vectors.h"

namespace markovlens {

// out[l][v] = Σ rows[l][k] packed[k][v], k < depth; in as many sums as keep the multipliers busy.
template <int L, int V>
inline void multiply(const float* const* rows, const float* packed, int depth, Vec (&out)[L][V]) {
  constexpr int SPLIT = L * V > 12 ? 1 : (L * V > 4 ? 2 : 4);
  Vec sums[SPLIT][L][V] = {};
  const auto add = [&](int k, int s) {
    Vec w[V];
    for (int v = 0; v < V; ++v) w[v] = held(load(packed + (size_t(k) * V + v) * W));
    for (int l = 0; l < L; ++l)
      for (int v = 0; v < V; ++v) sums[s][l][v] += rows[l][k] * w[v];
  };
  int k = 0;
  for (; k + SPLIT <= depth; k += SPLIT)
    for (int s = 0; s < SPLIT; ++s) add(k + s, s);
  for (; k < depth; ++k) add(k, 0);
  for (int l = 0; l < L; ++l)
    for (int v = 0; v < V; ++v) {
      Vec sum = sums[0][l][v];
      for (int s = 1; s < SPLIT; ++s) sum += sums[s][l][v];
      out[l][v] = sum;
    }
}

}  // namespace markovlens
