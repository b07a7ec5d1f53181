// Vectors as wide as the machine's, and a few functions of them.

#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace markovlens {

#if defined(__AVX512F__)
constexpr int W = 16;
#elif defined(__AVX__)
constexpr int W = 8;
#else
constexpr int W = 4;
#endif
typedef float Vec __attribute__((vector_size(4 * W), aligned(4), may_alias));
typedef int32_t IVec __attribute__((vector_size(4 * W)));

inline Vec load(const float* p) { return *reinterpret_cast<const Vec*>(p); }
inline void store(float* p, Vec x) { *reinterpret_cast<Vec*>(p) = x; }

// e^y - 1 = 2^k (e^f - 1) + 2^k - 1 with y = k ln 2 + f: accurate near 0 too. |y| < 40.
inline Vec expm1(Vec y) {
  const Vec scaled = y * 1.44269504f;
  const IVec k = __builtin_convertvector(scaled + (scaled < 0.0f ? Vec{} - 0.5f : Vec{} + 0.5f), IVec);
  const Vec whole = __builtin_convertvector(k, Vec);
  const Vec f = (y - whole * 0.693359375f) + whole * 2.12194440e-4f;  // ln 2 in two parts
  Vec p = f * (1.0f / 5040) + 1.0f / 720;
  p = p * f + 1.0f / 120;
  p = p * f + 1.0f / 24;
  p = p * f + 1.0f / 6;
  p = p * f + 0.5f;
  p = p * f * f + f;
  const Vec power = (Vec)((k + 127) << 23);
  return power * p + (power - 1.0f);
}

// e^2x - 1 over e^2x + 1; beyond ±9 it is ±1 in single precision.
inline Vec tanh(Vec x) {
  const Vec low = Vec{} - 9.0f, high = Vec{} + 9.0f;
  const Vec bounded = x < low ? low : (x > high ? high : x);
  const Vec e = expm1(bounded + bounded);
  const Vec t = e / (e + 2.0f);
  return x == x ? t : x;  // not a number stays one, so that divergence is seen
}

inline Vec sigmoid(Vec x) { return tanh(x * 0.5f) * 0.5f + 0.5f; }

// Memory of a thread's own that is kept from call to call: asking for it anew costs page faults.
inline float* scratch(size_t size) {
  thread_local std::vector<float> kept;
  if (kept.size() < size + W) kept.resize(size + W);
  const size_t off = reinterpret_cast<uintptr_t>(kept.data()) / 4 % W;
  return kept.data() + (W - off) % W;
}

}  // namespace markovlens
