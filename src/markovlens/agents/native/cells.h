// What a step of a recurrent cell does to W units, forwards and backwards.
//
// A cell has GATES sums g = h U + b a unit and a memory of STATES numbers, the last of which is h. Of a
// step it keeps SAVED numbers for the way back. All pointers are to the first of the W units; the next
// number of a unit is `apart` further on.

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

// r = σ(x_r + g_r),  z = σ(x_z + g_z),  n = tanh(x_n + r g_n),  h' = (1 - z) n + z h
struct Gru {
  static constexpr int GATES = 3, STATES = 1, SAVED = 4;

  Vec r, z, n, after;

  Gru(int apart, const float* x, const float* before, const Vec* g) {
    const Vec h = load(before);
    r = sigmoid(load(x) + g[0]);
    z = sigmoid(load(x + apart) + g[1]);
    n = tanh(load(x + 2 * apart) + r * g[2]);
    after = n + z * (h - n);
  }

  static void forward(int apart, const float* x, const float* before, const Vec* g, float* after,
                      float* saved) {
    const Gru step(apart, x, before, g);
    store(after, step.after);
    store(saved, step.r);
    store(saved + apart, step.z);
    store(saved + 2 * apart, step.n);
    store(saved + 3 * apart, g[2]);
  }

  // From what is wanted of the memory after the step to what is wanted of the one before, but for what
  // goes through the gates.
  static void backward(int apart, const float* saved, Vec h, Vec* d, float* d_x, float* d_g) {
    const Vec r = load(saved), z = load(saved + apart);
    const Vec n = load(saved + 2 * apart), g_n = load(saved + 3 * apart);
    const Vec d_n = d[0] * (1.0f - z) * (1.0f - n * n);
    const Vec d_r = d_n * g_n * r * (1.0f - r);
    const Vec d_z = d[0] * (h - n) * z * (1.0f - z);
    store(d_x, d_r);
    store(d_x + apart, d_z);
    store(d_x + 2 * apart, d_n);
    store(d_g, d_r);
    store(d_g + apart, d_z);
    store(d_g + 2 * apart, d_n * r);
    d[0] = d[0] * z;
  }
};

// i, f, o = σ(x + g),  n = tanh(x_n + g_n),  c' = f c + i n,  h' = o tanh(c')
struct Lstm {
  static constexpr int GATES = 4, STATES = 2, SAVED = 6;

  static void forward(int apart, const float* x, const float* before, const Vec* g, float* after,
                      float* saved) {
    const Vec c = load(before), i = sigmoid(load(x) + g[0]), f = sigmoid(load(x + apart) + g[1]);
    const Vec o = sigmoid(load(x + 2 * apart) + g[2]), n = tanh(load(x + 3 * apart) + g[3]);
    const Vec kept = f * c + i * n, shown = tanh(kept);
    store(after, kept);
    store(after + apart, o * shown);
    const Vec all[SAVED] = {i, f, o, n, shown, c};
    for (int k = 0; k < SAVED; ++k) store(saved + k * apart, all[k]);
  }

  static void backward(int apart, const float* saved, Vec, Vec* d, float* d_x, float* d_g) {
    Vec all[SAVED];
    for (int k = 0; k < SAVED; ++k) all[k] = load(saved + k * apart);
    const auto [i, f, o, n, shown, c] = all;
    const Vec d_c = d[0] + d[1] * o * (1.0f - shown * shown);
    const Vec by[GATES] = {d_c * n * i * (1.0f - i), d_c * c * f * (1.0f - f),
                           d[1] * shown * o * (1.0f - o), d_c * i * (1.0f - n * n)};
    for (int k = 0; k < GATES; ++k) {
      store(d_x + k * apart, by[k]);
      store(d_g + k * apart, by[k]);
    }
    d[0] = d_c * f;
    d[1] = Vec{};
  }
};

}  // namespace markovlens
