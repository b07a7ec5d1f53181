// Vectors as wide as the machine's, and what many of them make up.

#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace markovlens {

#if defined(__AVX512F__)
constexpr int W = 16;
#elif defined(__AVX__)
constexpr int W = 8;
#else
constexpr int W = 4;
#endif
typedef float Vec __attribute__((vector_size(4 * W)));

inline Vec load(const float* p) {
  Vec x;
  __builtin_memcpy(&x, p, sizeof x);
  return x;
}
inline void store(float* p, Vec x) { __builtin_memcpy(p, &x, sizeof x); }

// The same, in a register: GCC would rather load a number again for each of its uses.
inline Vec held(Vec x) {
#if defined(__x86_64__)
  asm("" : "+v"(x));
#endif
  return x;
}

inline Vec positive_part(Vec x) { return x < 0.0f ? Vec{} : x; }  // not a number stays one

template <int... I>
inline void interleave(Vec a, Vec b, Vec& low, Vec& high, std::integer_sequence<int, I...>) {
  low = __builtin_shufflevector(a, b, (I / 2 + I % 2 * W)...);
  high = __builtin_shufflevector(a, b, (W / 2 + I / 2 + I % 2 * W)...);
}

// W rows of W numbers, `stride` apart, into the columns of a block whose rows are `to_stride` apart.
inline void transpose(const float* rows, size_t stride, float* to, size_t to_stride) {
  // Interleaving the first half of the rows with the second half, log2 W times, transposes.
  Vec block[2][W];
  for (int i = 0; i < W; ++i) block[0][i] = load(rows + i * stride);
  int now = 0;
  for (int stage = 1; stage < W; stage *= 2, now = 1 - now)
    for (int i = 0; i < W / 2; ++i)
      interleave(block[now][i], block[now][i + W / 2], block[1 - now][2 * i],
                 block[1 - now][2 * i + 1], std::make_integer_sequence<int, W>());
  for (int i = 0; i < W; ++i) store(to + i * to_stride, block[now][i]);
}

// Memory of a thread's own that is kept from call to call: asking for it anew costs page faults.
inline float* scratch(size_t size) {
  thread_local std::vector<float> kept;
  if (kept.size() < size + W) kept.resize(size + W);
  const size_t off = reinterpret_cast<uintptr_t>(kept.data()) / 4 % W;
  return kept.data() + (W - off) % W;
}

}  // namespace markovlens
