// Products C = A B of many rows: B is packed into panels of two vectors' width, a panel stays in the
// nearest cache while all rows of A pass by, eight at a time, and sixteen sums are under way at once, as
// many as it takes to keep the multipliers busy.

#pragma once

#include <algorithm>
#include <cstring>

#include "vectors.h"

namespace markovlens {

constexpr int PANEL = 2 * W;
constexpr int ROWS = W == 16 ? 8 : 6;        // as many as there are registers for

inline int panels(int width) { return (width + PANEL - 1) / PANEL; }

// A matrix whose entries count only where those of another one are positive, if there is another.
struct Matrix {
  const float* entries;
  int width;
  const float* shown;

  Vec vector(int row, size_t column) const {
    const size_t at = size_t(row) * width + column;
    const Vec x = load(entries + at);
    return shown ? (load(shown + at) > 0.0f ? x : Vec{}) : x;
  }
  float one(int row, size_t column) const {
    const size_t at = size_t(row) * width + column;
    return shown && !(shown[at] > 0.0f) ? 0.0f : entries[at];
  }
};

// A panel of a matrix from column `from` on, row by row, with zeros to the right of the last column.
inline void pack(const Matrix& matrix, int rows, int from, float* packed) {
  for (int k = 0; k < rows; ++k)
    for (int column = from; column < from + PANEL; column += W, packed += W)
      if (column + W <= matrix.width)
        store(packed, matrix.vector(k, column));
      else
        for (int j = 0; j < W; ++j)
          packed[j] = column + j < matrix.width ? matrix.one(k, column + j) : 0.0f;
}

// A panel of the transpose of a matrix: its rows from `from` on become columns.
inline void pack_transposed(const float* matrix, int rows, int width, int from, float* packed) {
  for (int v = 0; v < 2; ++v) {
    const int first = from + v * W;
    for (int k = 0; k < width; k += W) {
      float* to = packed + size_t(k) * PANEL + v * W;
      if (first + W <= rows && k + W <= width) {
        transpose(matrix + size_t(first) * width + k, width, to, PANEL);
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
__attribute__((noinline)) void rows_times_panel(const float* a, int stride, int depth, const float* packed, int row, Finish finish) {
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
  for (; row + 4 <= rows; row += 4)
    rows_times_panel<4, TRANSPOSED>(a, stride, depth, packed, row, finish);
  for (; row < rows; ++row) rows_times_panel<1, TRANSPOSED>(a, stride, depth, packed, row, finish);
}

// Two vectors into a row of `width` numbers from `column` on, as far as they are in it.
inline void put(float* row, int column, int width, Vec left, Vec right) {
  if (column + PANEL <= width) {
    store(row + column, left);
    store(row + column + W, right);
  } else {
    float both[PANEL];
    store(both, left);
    store(both + W, right);
    std::memcpy(row + column, both, sizeof(float) * (width - column));
  }
}

// The sum of a panel's rows, as `put` has it.
inline void put_sum(const float* packed, int rows, float* to, int column, int width) {
  Vec left = {}, right = {};
  for (int k = 0; k < rows; ++k) {
    left += load(packed + size_t(k) * PANEL);
    right += load(packed + size_t(k) * PANEL + W);
  }
  put(to, column, width, left, right);
}

}  // namespace markovlens
