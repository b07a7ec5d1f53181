// The gates of a gated recurrent unit.

#pragma once

#include "vectors.h"

namespace markovlens {

// x P(x²) / Q(x²), the best of this form up to 9, where single precision has reached ±1; off by at most
// 4e-7 with its own rounding. What is not a number stays one, so that divergence is seen.
inline Vec tanh(Vec x) {
  const Vec low = Vec{} - 9.0f, high = Vec{} + 9.0f;
  x = x < low ? low : x;
  x = x > high ? high : x;
  const Vec s = x * x;
  Vec p = s * 1.33543487e-8f + 2.06088498e-5f;
  p = p * s + 3.49557376e-3f;
  p = p * s + 0.133810133f;
  Vec q = s * 7.77642811e-7f + 3.28561146e-4f;
  q = q * s + 0.0258769281f;
  q = q * s + 0.467143297f;
  return x * (p * s + 1.0f) / (q * s + 1.0f);
}

inline Vec sigmoid(Vec x) { return tanh(x * 0.5f) * 0.5f + 0.5f; }

// A step for W units, from h, what the input says to each gate, and the three sums (h U)_g + b_g:
//
//     r = σ(x_r + g_r),  z = σ(x_z + g_z),  n = tanh(x_n + r g_n),  h' = (1 - z) n + z h
struct GruStep {
  Vec r, z, n, memory;
};

inline GruStep gru_step(Vec h, Vec x_r, Vec x_z, Vec x_n, Vec g_r, Vec g_z, Vec g_n) {
  const Vec r = sigmoid(x_r + g_r), z = sigmoid(x_z + g_z), n = tanh(x_n + r * g_n);
  return {r, z, n, n + z * (h - n)};
}

}  // namespace markovlens
