// A step of Adam for all arrays of a network in one call: once over the gradient for its length, then
// every number is read and written once.
//
//     s = min(1, longest / |g|)
//     m ← β₁ m + (1 - β₁) s g,  v ← β₂ v + (1 - β₂) (s g)²,  p ← p - rate c₁ m / (√(c₂ v) + ε)
//
// Nothing moves if the gradient is not finite.

#include <algorithm>
#include <cmath>
#include <vector>

#include "pair.h"
#include "vectors.h"
#include "xla/ffi/api/ffi.h"

namespace ffi = xla::ffi;
using namespace markovlens;

namespace {

constexpr size_t ENOUGH = 1 << 15;  // numbers: with fewer a second thread is no gain

struct Numbers {
  const float *p, *m, *v, *g;
  float *p_new, *m_new, *v_new;
  int size;

  // A half or the whole. The sums over the halves are added last, whoever makes them.
  int from(int half) const { return half == 0 ? 0 : size / 2 / W * W; }
  int to(int half) const { return half == 0 ? from(1) : size; }
};

inline Vec root(Vec x) {
  for (int i = 0; i < W; ++i) x[i] = __builtin_sqrtf(x[i]);  // becomes one instruction
  return x;
}

float square_sum(const float* x, int n) {
  constexpr int MANY = 4;  // sums, so that none waits for the last
  Vec sums[MANY] = {};
  int i = 0;
  for (; i + MANY * W <= n; i += MANY * W)
    for (int s = 0; s < MANY; ++s) sums[s] += load(x + i + s * W) * load(x + i + s * W);
  float total = 0.0f;
  for (; i < n; ++i) total += x[i] * x[i];
  const Vec together = (sums[0] + sums[1]) + (sums[2] + sums[3]);
  for (int j = 0; j < W; ++j) total += together[j];
  return total;
}

struct Adam {
  float keep1, add1, keep2, add2, least;
  float rate, scale1, scale2;

  void move(const Numbers& x, int from, int to, float shrink) const {
    const float step = rate * scale1, spread = scale2;
    const auto one = [=](auto g, auto m, auto v, auto p, auto sqrt, auto done) {
      g *= shrink;
      m = keep1 * m + add1 * g;
      v = keep2 * v + add2 * (g * g);
      done(p - step * m / (sqrt(spread * v) + least), m, v);
    };
    int i = from;
    for (; i + W <= to; i += W)
      one(load(x.g + i), load(x.m + i), load(x.v + i), load(x.p + i), root, [&](Vec p, Vec m, Vec v) {
        store(x.p_new + i, p);
        store(x.m_new + i, m);
        store(x.v_new + i, v);
      });
    for (; i < to; ++i)
      one(x.g[i], x.m[i], x.v[i], x.p[i], [](float v) { return __builtin_sqrtf(v); },
          [&](float p, float m, float v) { x.p_new[i] = p, x.m_new[i] = m, x.v_new[i] = v; });
  }
};

void stay(const Numbers& x) {
  if (x.p_new != x.p) std::copy(x.p, x.p + x.size, x.p_new);
  if (x.m_new != x.m) std::copy(x.m, x.m + x.size, x.m_new);
  if (x.v_new != x.v) std::copy(x.v, x.v + x.size, x.v_new);
}

using F32_0 = ffi::Buffer<ffi::F32, 0>;
using F32_1 = ffi::Buffer<ffi::F32, 1>;

// The arrays of p, then those of m, of v and of g; results likewise, without g.
ffi::Error adam(double decay1, double decay2, double eps, F32_1 scales, ffi::RemainingArgs given,
                ffi::Result<F32_0> norm, ffi::RemainingRets made) {
  const size_t n = made.size() / 3;
  if (given.size() != 4 * n) return ffi::Error::InvalidArgument("adam takes p, m, v and g alike");
  thread_local std::vector<Numbers> kept;
  kept.clear();
  size_t all = 0;
  for (size_t i = 0; i < n; ++i) {
    const auto in = [&](size_t k) { return given.get<ffi::AnyBuffer>(k * n + i)->typed_data<float>(); };
    const auto out = [&](size_t k) { return (*made.get<ffi::AnyBuffer>(k * n + i))->typed_data<float>(); };
    const int size = int(given.get<ffi::AnyBuffer>(i)->element_count());
    kept.push_back({in(0), in(1), in(2), in(3), out(0), out(1), out(2), size});
    all += size;
  }
  const std::vector<Numbers>& arrays = kept;
  const float* by = scales.typed_data();
  const float longest = by[3];
  const bool may_move = by[4] > 0.0f;
  const Adam rule{float(decay1), float(1.0 - decay1), float(decay2), float(1.0 - decay2), float(eps),
                  by[0], by[1], by[2]};
  float* length = norm->typed_data();
  float sums[2];
  divide(2, 1, all >= ENOUGH ? 2 : 3, [&, length](const Share& share) {
    for (int half = share.from; half < share.to; ++half) {
      float sum = 0.0f;
      for (const Numbers& x : arrays) sum += square_sum(x.g + x.from(half), x.to(half) - x.from(half));
      sums[half] = sum;
    }
    share.meet();
    const float found = std::sqrt(sums[0] + sums[1]);
    const bool moves = may_move && std::isfinite(found);
    const float shrink = std::min(1.0f, longest / (found + 1e-12f));
    for (int half = share.from; half < share.to; ++half)
      for (const Numbers& x : arrays)
        if (moves) rule.move(x, x.from(half), x.to(half), shrink);
        else if (half == 1) stay(x);
    if (share.to == 2) *length = found;
    share.meet();
  });
  return ffi::Error::Success();
}

}  // namespace

XLA_FFI_DEFINE_HANDLER_SYMBOL(markovlens_adam, adam,
                              ffi::Ffi::Bind()
                                  .Attr<double>("decay1")
                                  .Attr<double>("decay2")
                                  .Attr<double>("eps")
                                  .Arg<F32_1>()
                                  .RemainingArgs()
                                  .Ret<F32_0>()
                                  .RemainingRets());
