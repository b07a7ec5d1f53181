// Dense layers of many rows: y = x W + b, or its positive part, and the derivatives.

#include <algorithm>

#include "pair.h"
#include "product.h"
#include "vectors.h"
#include "xla/ffi/api/ffi.h"

namespace ffi = xla::ffi;
using namespace markovlens;

namespace {

constexpr double ENOUGH = 8e6;  // multiplications: with fewer a second thread is no gain

using Array1 = ffi::Buffer<ffi::F32, 1>;
using Array2 = ffi::Buffer<ffi::F32, 2>;
template <typename T>
using Out = ffi::Result<T>;

int enough(double rows, double depth, int width) {
  return rows * depth * width >= ENOUGH ? 2 : panels(width) + 1;
}

ffi::Error forward(bool positive, Array2 x, Array2 weight, Array1 bias,
                   Out<Array2> y) {
  const int rows = int(x.dimensions()[0]), depth = int(x.dimensions()[1]);
  const int width = int(bias.dimensions()[0]);
  const float *input = x.typed_data(), *shift = bias.typed_data();
  const Matrix w{weight.typed_data(), width, nullptr}, b{shift, width, nullptr};
  float* out = y->typed_data();
  divide(panels(width), 1, enough(rows, depth, width), [=](const Share& share) {
    float* packed = scratch(size_t(depth + 1) * PANEL);
    float* shifts = packed + size_t(depth) * PANEL;
    for (int p = share.from; p < share.to; ++p) {
      pack(w, depth, p * PANEL, packed);
      pack(b, 1, p * PANEL, shifts);
      times_panel<false>(input, depth, rows, depth, packed, [=](int row, Vec left, Vec right) {
        left += load(shifts);
        right += load(shifts + W);
        if (positive) left = positive_part(left), right = positive_part(right);
        put(out + size_t(row) * width, p * PANEL, width, left, right);
      });
    }
    share.meet();
  });
  return ffi::Error::Success();
}

// dx = dy Wᵀ; dy counts only where y is positive, if there is a y.
ffi::Error by_input(bool positive, Array2 d_y, Array2 y, Array2 weight,
                    Out<Array2> d_x) {
  const int rows = int(d_y.dimensions()[0]), depth = int(d_y.dimensions()[1]);
  const int width = int(weight.dimensions()[0]);
  const Matrix d{d_y.typed_data(), depth, positive ? y.typed_data() : nullptr};
  const float* w = weight.typed_data();
  float* out = d_x->typed_data();
  divide(panels(width), 1, enough(rows, depth, width), [=](const Share& share) {
    const size_t counted = positive ? size_t(rows) * depth : 0;
    float* packed = scratch(size_t(depth) * PANEL + counted);
    const float* a = d.entries;
    if (positive) {
      float* kept = packed + size_t(depth) * PANEL;
      size_t i = 0;
      for (; i + W <= counted; i += W) store(kept + i, d.vector(0, i));
      for (; i < counted; ++i) kept[i] = d.one(0, i);
      a = kept;
    }
    for (int p = share.from; p < share.to; ++p) {
      pack_transposed(w, width, depth, p * PANEL, packed);
      times_panel<false>(a, depth, rows, depth, packed, [=](int row, Vec left, Vec right) {
        put(out + size_t(row) * width, p * PANEL, width, left, right);
      });
    }
    share.meet();
  });
  return ffi::Error::Success();
}

// dW = xᵀ dy and db = the sum of dy's rows, with dy as above.
ffi::Error by_parameters(bool positive, Array2 x, Array2 d_y, Array2 y,
                         Out<Array2> d_weight, Out<Array1> d_bias) {
  const int depth = int(x.dimensions()[0]), rows = int(x.dimensions()[1]);
  const int width = int(d_y.dimensions()[1]);
  const float* input = x.typed_data();
  const Matrix d{d_y.typed_data(), width, positive ? y.typed_data() : nullptr};
  float *out = d_weight->typed_data(), *sum = d_bias->typed_data();
  divide(panels(width), 1, enough(rows, depth, width), [=](const Share& share) {
    float* packed = scratch(size_t(depth) * PANEL);
    for (int p = share.from; p < share.to; ++p) {
      pack(d, depth, p * PANEL, packed);
      put_sum(packed, depth, sum, p * PANEL, width);
      times_panel<true>(input, rows, rows, depth, packed, [=](int row, Vec left, Vec right) {
        put(out + size_t(row) * width, p * PANEL, width, left, right);
      });
    }
    share.meet();
  });
  return ffi::Error::Success();
}

}  // namespace

XLA_FFI_DEFINE_HANDLER_SYMBOL(markovlens_dense_forward, forward,
                              ffi::Ffi::Bind()
                                  .Attr<bool>("positive")
                                  .Arg<Array2>()
                                  .Arg<Array2>()
                                  .Arg<Array1>()
                                  .Ret<Array2>());

XLA_FFI_DEFINE_HANDLER_SYMBOL(markovlens_dense_by_input, by_input,
                              ffi::Ffi::Bind()
                                  .Attr<bool>("positive")
                                  .Arg<Array2>()
                                  .Arg<Array2>()
                                  .Arg<Array2>()
                                  .Ret<Array2>());

XLA_FFI_DEFINE_HANDLER_SYMBOL(markovlens_dense_by_parameters, by_parameters,
                              ffi::Ffi::Bind()
                                  .Attr<bool>("positive")
                                  .Arg<Array2>()
                                  .Arg<Array2>()
                                  .Arg<Array2>()
                                  .Ret<Array2>()
                                  .Ret<Array1>());
