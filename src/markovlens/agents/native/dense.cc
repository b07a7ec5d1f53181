// Dense layers of many rows: y = x W + b, or its positive part, and the derivatives.
//
// All three are products C = A B of this form: B is packed into panels of two vectors' width, a panel
// stays in the nearest cache while all rows of A pass by, eight at a time, and sixteen sums are under
// way at once, as many as it takes to keep the multipliers busy.

#include <algorithm>
#include <utility>

#include "pair.h"
#include "vectors.h"
#include "xla/ffi/api/ffi.h"

namespace ffi = xla::ffi;
using namespace markovlens;

namespace {

constexpr int PANEL = 2 * W;
constexpr int ROWS = W == 16 ? 8 : 6;        // as many as there are registers for
constexpr double ENOUGH_WORK = 8e6;          // multiplications: with fewer a second thread is no gain

inline int panels(int width) { return (width + PANEL - 1) / PANEL; }

// A matrix whose entries count only where those of another one are positive, if there is another.
struct Matrix {
  const float* entries;
  int width;
  const float* shown;

  Vec vector(int row, int column) const {
    const size_t at = size_t(row) * width + column;
    const Vec x = load(entries + at);
    return shown ? (load(shown + at) > 0.0f ? x : Vec{}) : x;
  }
  float one(int row, int column) const {
    const size_t at = size_t(row) * width + column;
    return shown && !(shown[at] > 0.0f) ? 0.0f : entries[at];
  }
};

// A panel of a matrix from column `from` on, row by row, with zeros to the right of the last column.
void pack(const Matrix& matrix, int rows, int from, float* packed) {
  for (int k = 0; k < rows; ++k)
    for (int column = from; column < from + PANEL; column += W, packed += W)
      if (column + W <= matrix.width)
        store(packed, matrix.vector(k, column));
      else
        for (int j = 0; j < W; ++j)
          packed[j] = column + j < matrix.width ? matrix.one(k, column + j) : 0.0f;
}

template <int... I>
inline void interleave(Vec a, Vec b, Vec& low, Vec& high, std::integer_sequence<int, I...>) {
  low = __builtin_shufflevector(a, b, (I / 2 + I % 2 * W)...);
  high = __builtin_shufflevector(a, b, (W / 2 + I / 2 + I % 2 * W)...);
}

// A panel of the transpose of a matrix: its rows from `from` on become columns.
void pack_transposed(const float* matrix, int rows, int width, int from, float* packed) {
  for (int v = 0; v < 2; ++v) {
    const int first = from + v * W;
    for (int k = 0; k < width; k += W) {
      float* to = packed + size_t(k) * PANEL + v * W;
      if (first + W <= rows && k + W <= width) {
        // Interleaving the first half of the rows with the second half, log2 W times, transposes.
        Vec block[2][W];
        for (int i = 0; i < W; ++i) block[0][i] = load(matrix + size_t(first + i) * width + k);
        int now = 0;
        for (int stage = 1; stage < W; stage *= 2, now = 1 - now)
          for (int i = 0; i < W / 2; ++i)
            interleave(block[now][i], block[now][i + W / 2], block[1 - now][2 * i],
                       block[1 - now][2 * i + 1], std::make_integer_sequence<int, W>());
        for (int i = 0; i < W; ++i) store(to + size_t(i) * PANEL, block[now][i]);
      } else {
        for (int i = 0; i < std::min(W, width - k); ++i)
          for (int j = 0; j < W; ++j)
            to[size_t(i) * PANEL + j] =
                first + j < rows ? matrix[size_t(first + j) * width + k + i] : 0.0f;
      }
    }
  }
}

// R rows of A times a panel; A[row][k] lies at a[row * stride + k], or its transpose's at a[k * stride + row].
template <int R, bool TRANSPOSED, typename Finish>
void rows_times_panel(const float* a, int stride, int depth, const float* packed, int row, Finish finish) {
  a += TRANSPOSED ? row : size_t(row) * stride;
  Vec sums[R][2] = {};
  for (int k = 0; k < depth; ++k) {
    const Vec left = load(packed + size_t(k) * PANEL), right = load(packed + size_t(k) * PANEL + W);
    for (int r = 0; r < R; ++r) {
      const float x = TRANSPOSED ? a[size_t(k) * stride + r] : a[size_t(r) * stride + k];
      sums[r][0] += x * left;
      sums[r][1] += x * right;
    }
  }
  for (int r = 0; r < R; ++r) finish(row + r, sums[r][0], sums[r][1]);
}

template <bool TRANSPOSED, typename Finish>
void times_panel(const float* a, int stride, int rows, int depth, const float* packed, Finish finish) {
  int row = 0;
  for (; row + ROWS <= rows; row += ROWS)
    rows_times_panel<ROWS, TRANSPOSED>(a, stride, depth, packed, row, finish);
  for (; row + 2 <= rows; row += 2)
    rows_times_panel<2, TRANSPOSED>(a, stride, depth, packed, row, finish);
  if (row < rows) rows_times_panel<1, TRANSPOSED>(a, stride, depth, packed, row, finish);
}

// Two vectors into a row of `width` numbers from `column` on, as far as they are in it.
inline void put(float* row, int column, int width, Vec left, Vec right) {
  if (column + PANEL <= width) {
    store(row + column, left);
    store(row + column + W, right);
  } else {
    for (int j = 0; j < PANEL && column + j < width; ++j)
      row[column + j] = j < W ? left[j] : right[j - W];
  }
}

using Array1 = ffi::Buffer<ffi::F32, 1>;
using Array2 = ffi::Buffer<ffi::F32, 2>;
template <typename T>
using Out = ffi::Result<T>;

int enough(double rows, double depth, int width) {
  return rows * depth * width >= ENOUGH_WORK ? 2 : panels(width) + 1;
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
        if (positive) {
          left = left < 0.0f ? Vec{} : left;  // not a number stays one
          right = right < 0.0f ? Vec{} : right;
        }
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
      for (size_t i = 0; i < counted; ++i) kept[i] = d.shown[i] > 0.0f ? d.entries[i] : 0.0f;
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
      Vec left = {}, right = {};
      for (int k = 0; k < depth; ++k) {
        left += load(packed + size_t(k) * PANEL);
        right += load(packed + size_t(k) * PANEL + W);
      }
      put(sum, p * PANEL, width, left, right);
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
