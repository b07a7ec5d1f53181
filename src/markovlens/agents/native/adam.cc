// A step of Adam for many numbers, all in one pass: every number is read and written once.
//
//     m ← β₁ m + (1 - β₁) s g,  v ← β₂ v + (1 - β₂) (s g)²,  p ← p - rate c₁ m / (√(c₂ v) + ε)

#include <algorithm>

#include "pair.h"
#include "vectors.h"
#include "xla/ffi/api/ffi.h"

namespace ffi = xla::ffi;
using namespace markovlens;

namespace {

constexpr int ENOUGH = 1 << 15;  // numbers: with fewer a second thread is no gain

using Array1 = ffi::Buffer<ffi::F32, 1>;
using Arrays = ffi::AnyBuffer;

inline Vec root(Vec x) {
  for (int i = 0; i < W; ++i) x[i] = __builtin_sqrtf(x[i]);  // becomes one instruction
  return x;
}

ffi::Error adam(double decay1, double decay2, double eps, Arrays p, Arrays m, Arrays v, Arrays g,
                Array1 scales, ffi::Result<Arrays> p_new, ffi::Result<Arrays> m_new,
                ffi::Result<Arrays> v_new) {
  const float* by = scales.typed_data();
  const float shrink = by[0], step = by[1] * by[2], spread = by[3];
  const float keep1 = float(decay1), add1 = float(1.0 - decay1);
  const float keep2 = float(decay2), add2 = float(1.0 - decay2), least = float(eps);
  const bool moves = by[4] > 0.0f;
  const float *p0 = p.typed_data<float>(), *m0 = m.typed_data<float>(), *v0 = v.typed_data<float>();
  const float* slope = g.typed_data<float>();
  float *p1 = p_new->typed_data<float>(), *m1 = m_new->typed_data<float>();
  float* v1 = v_new->typed_data<float>();
  const int n = int(p.element_count());
  if (!moves) {
    if (p1 != p0) std::copy(p0, p0 + n, p1);
    if (m1 != m0) std::copy(m0, m0 + n, m1);
    if (v1 != v0) std::copy(v0, v0 + n, v1);
    return ffi::Error::Success();
  }
  divide(n, W, ENOUGH, [=](const Share& share) {
    auto move = [=](auto x, auto old_m, auto old_v, auto old_p, auto sqrt, auto done) {
      x *= shrink;
      const auto new_m = keep1 * old_m + add1 * x;
      const auto new_v = keep2 * old_v + add2 * (x * x);
      done(old_p - step * new_m / (sqrt(spread * new_v) + least), new_m, new_v);
    };
    int i = share.from;
    for (; i + W <= share.to; i += W)
      move(load(slope + i), load(m0 + i), load(v0 + i), load(p0 + i), root, [=](Vec p, Vec m, Vec v) {
        store(p1 + i, p);
        store(m1 + i, m);
        store(v1 + i, v);
      });
    for (; i < share.to; ++i)
      move(slope[i], m0[i], v0[i], p0[i], [](float x) { return __builtin_sqrtf(x); },
           [=](float p, float m, float v) { p1[i] = p, m1[i] = m, v1[i] = v; });
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
                                  .Arg<Arrays>()
                                  .Arg<Arrays>()
                                  .Arg<Arrays>()
                                  .Arg<Arrays>()
                                  .Arg<Array1>()
                                  .Ret<Arrays>()
                                  .Ret<Arrays>()
                                  .Ret<Arrays>());
