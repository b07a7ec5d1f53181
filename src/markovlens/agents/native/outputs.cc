// The last layers: a row of hidden numbers is the actor's and then each critic's.
//
//     y = h_0 W + b,   v_c = h_c · w_c + b_c,   c = 1, 2, …
//
// All of dh is written in one pass, where every product apart would have to be put in its place.

#include <algorithm>

#include "product.h"
#include "vectors.h"
#include "xla/ffi/api/ffi.h"

namespace ffi = xla::ffi;
using namespace markovlens;

namespace {

using Array1 = ffi::Buffer<ffi::F32, 1>;
using Array2 = ffi::Buffer<ffi::F32, 2>;
template <typename T>
using Out = ffi::Result<T>;

float dot(const float* x, const float* y, int n) {
  Vec sums = {};
  int i = 0;
  for (; i + W <= n; i += W) sums += load(x + i) * load(y + i);
  float total = 0.0f;
  for (; i < n; ++i) total += x[i] * y[i];
  for (int j = 0; j < W; ++j) total += sums[j];
  return total;
}

// to += by * x
void add(float by, const float* x, int n, float* to) {
  int i = 0;
  for (; i + W <= n; i += W) store(to + i, load(to + i) + by * load(x + i));
  for (; i < n; ++i) to[i] += by * x[i];
}

ffi::Error forward(Array2 hidden, Array2 weight, Array1 bias, Array2 critics, Array1 critics_bias,
                   Out<Array2> action, Out<Array2> value) {
  const int rows = int(hidden.dimensions()[0]), stride = int(hidden.dimensions()[1]);
  const int size = int(weight.dimensions()[0]), width = int(weight.dimensions()[1]);
  const int n = int(critics.dimensions()[0]);
  const float *h = hidden.typed_data(), *w = critics.typed_data(), *b = critics_bias.typed_data();
  float *y = action->typed_data(), *v = value->typed_data();
  const Matrix last{weight.typed_data(), width, nullptr}, shift{bias.typed_data(), width, nullptr};
  float* packed = scratch(size_t(size + 1) * PANEL);
  float* shifts = packed + size_t(size) * PANEL;
  for (int from = 0; from < width; from += PANEL) {
    pack(last, size, from, packed);
    pack(shift, 1, from, shifts);
    times_panel<false>(h, stride, rows, size, packed, [=](int row, Vec left, Vec right) {
      put(y + size_t(row) * width, from, width, left + load(shifts), right + load(shifts + W));
    });
  }
  for (int row = 0; row < rows; ++row)
    for (int c = 0; c < n; ++c)
      v[row * n + c] = b[c] + dot(h + size_t(row) * stride + (c + 1) * size, w + c * size, size);
  return ffi::Error::Success();
}

ffi::Error backward(Array2 hidden, Array2 d_action, Array2 d_value, Array2 weight, Array2 critics,
                    Out<Array2> d_hidden, Out<Array2> d_weight, Out<Array1> d_bias,
                    Out<Array2> d_critics, Out<Array1> d_critics_bias) {
  const int rows = int(hidden.dimensions()[0]), stride = int(hidden.dimensions()[1]);
  const int size = int(weight.dimensions()[0]), width = int(weight.dimensions()[1]);
  const int n = int(critics.dimensions()[0]);
  const float *h = hidden.typed_data(), *dy = d_action.typed_data(), *dv = d_value.typed_data();
  const float *w = critics.typed_data(), *last = weight.typed_data();
  float *dh = d_hidden->typed_data(), *dw = d_critics->typed_data();
  float *d_last = d_weight->typed_data(), *db = d_bias->typed_data(), *dc = d_critics_bias->typed_data();
  float* packed = scratch(size_t(std::max(rows, width)) * PANEL);
  for (int from = 0; from < size; from += PANEL) {
    pack_transposed(last, size, width, from, packed);
    times_panel<false>(dy, width, rows, width, packed, [=](int row, Vec left, Vec right) {
      put(dh + size_t(row) * stride, from, size, left, right);
    });
  }
  for (int from = 0; from < width; from += PANEL) {
    pack(Matrix{dy, width, nullptr}, rows, from, packed);
    put_sum(packed, rows, db, from, width);
    times_panel<true>(h, stride, size, rows, packed, [=](int row, Vec left, Vec right) {
      put(d_last + size_t(row) * width, from, width, left, right);
    });
  }
  std::fill(dw, dw + size_t(n) * size, 0.0f);
  std::fill(dc, dc + n, 0.0f);
  for (int row = 0; row < rows; ++row)
    for (int c = 0; c < n; ++c) {
      const float by = dv[row * n + c];
      const size_t at = size_t(row) * stride + (c + 1) * size;
      std::fill(dh + at, dh + at + size, 0.0f);
      add(by, w + c * size, size, dh + at);
      add(by, h + at, size, dw + c * size);
      dc[c] += by;
    }
  return ffi::Error::Success();
}

}  // namespace

XLA_FFI_DEFINE_HANDLER_SYMBOL(markovlens_outputs_forward, forward,
                              ffi::Ffi::Bind()
                                  .Arg<Array2>()
                                  .Arg<Array2>()
                                  .Arg<Array1>()
                                  .Arg<Array2>()
                                  .Arg<Array1>()
                                  .Ret<Array2>()
                                  .Ret<Array2>());

XLA_FFI_DEFINE_HANDLER_SYMBOL(markovlens_outputs_backward, backward,
                              ffi::Ffi::Bind()
                                  .Arg<Array2>()
                                  .Arg<Array2>()
                                  .Arg<Array2>()
                                  .Arg<Array2>()
                                  .Arg<Array2>()
                                  .Ret<Array2>()
                                  .Ret<Array2>()
                                  .Ret<Array1>()
                                  .Ret<Array2>()
                                  .Ret<Array1>());
