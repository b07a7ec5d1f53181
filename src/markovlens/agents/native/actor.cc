// One step of acting, from observations to the actor's outputs, for the few copies of an environment.
//
//     observation → dense, ReLU (→ dense, ReLU) → GRU → dense → dense, ReLU → dense
//
// So few rows leave little to do but to read the weights. They are packed once, for many steps, into
// the order in which they are read: of each layer four vectors of columns, the bias first, then the
// next four. With a second thread each takes half of every layer's columns.

#include <algorithm>
#include <type_traits>

#include "cells.h"
#include "pair.h"
#include "rows.h"
#include "vectors.h"
#include "xla/ffi/api/ffi.h"

namespace ffi = xla::ffi;
using namespace markovlens;

namespace {

constexpr int UNIT = 16;              // what the width of a packed layer is a multiple of
constexpr size_t ENOUGH = 1 << 17;    // weights: with fewer a second thread is no gain

template <int N>
using Number = std::integral_constant<int, N>;

struct Layer {
  int depth, width;

  int vectors() const { return (width + UNIT - 1) / UNIT * (UNIT / W); }
  size_t size() const { return size_t(depth + 1) * vectors() * W; }

  // A half or the whole, in vectors; the halves meet between two groups.
  int from(const Share& share) const { return share.from ? half() : 0; }
  int to(const Share& share) const { return share.to == 1 ? half() : vectors(); }
  int half() const { return std::min((vectors() / 2 + 3) / 4 * 4, vectors()); }
};

// each(first vector, how many) for the groups of four vectors, then of two and one, between two vectors.
template <typename Each>
inline void groups(int from, int to, Each each) {
  for (; from + 4 <= to; from += 4) each(from, Number<4>());
  for (; from + 2 <= to; from += 2) each(from, Number<2>());
  for (; from < to; ++from) each(from, Number<1>());
}

void pack(const Layer& layer, const float* weight, const float* bias, float* to) {
  groups(0, layer.vectors(), [&](int first, auto many) {
    for (int k = -1; k < layer.depth; ++k) {
      const float* row = k < 0 ? bias : weight + size_t(k) * layer.width;
      for (int column = first * W; column < (first + many) * W; ++column)
        *to++ = column < layer.width ? row[column] : 0.0f;
    }
  });
}

// done(row, column, vector of x W + b) for a share of a layer's columns.
template <typename Row, typename Done>
void apply(const Layer& layer, const float* packed, const Share& share, int rows, Row x, Done done) {
  groups(layer.from(share), layer.to(share), [&](int first, auto many) {
    constexpr int V = decltype(many)::value;
    const float* bias = packed + size_t(first) * W * (layer.depth + 1);
    const auto some = [&](auto lanes, int row) {
      constexpr int L = decltype(lanes)::value;
      const float* of[L];
      for (int l = 0; l < L; ++l) of[l] = x(row + l);
      Vec sums[L][V];
      multiply<L, V>(of, bias + V * W, layer.depth, sums);
      for (int l = 0; l < L; ++l)
        for (int v = 0; v < V; ++v)
          done(row + l, (first + v) * W, sums[l][v] + load(bias + v * W));
    };
    int row = 0;
    for (; row + 4 <= rows; row += 4) some(Number<4>(), row);
    for (; row < rows; ++row) some(Number<1>(), row);
  });
}

// Rows of numbers that both threads write.
struct Table {
  float* entries;
  int width;

  float* operator()(int row) const { return entries + size_t(row) * width; }
};

struct Step {
  int rows, n_seen, hidden, n_outputs, encoder;  // encoder: width of its first layer
  ffi::Span<const int64_t> again;                // entries of the observation that it is shown again
  const float *seen, *memory;
  const bool* first;
  const float* packed;
  float *new_memory, *outputs;
  Table encoded, projected, gates, latent;  // between layers

  void operator()(const Share& share) const {
    const float* weights = packed;
    const auto layer = [&](int depth, int width, auto x, auto done) {
      const Layer now{depth, width};
      apply(now, weights, share, rows, x, done);
      weights += now.size();
    };
    const auto into = [](Table to, bool positive) {
      return [=](int row, int column, Vec sum) {
        store(to(row) + column, positive ? positive_part(sum) : sum);
      };
    };
    const auto observation = [=](int row) { return seen + size_t(row) * n_seen; };
    const auto after = [=](int row) { return new_memory + size_t(row) * hidden; };
    const float* zeros = latent(rows);
    const auto before = [=](int row) { return first[row] ? zeros : memory + size_t(row) * hidden; };

    layer(n_seen, encoder, observation, into(encoded, true));
    if (again.size()) {
      if (share.to == 2)
        for (int row = 0; row < rows; ++row)
          for (size_t i = 0; i < again.size(); ++i)
            encoded(row)[encoder + i] = observation(row)[again[i]];
      share.meet();
      layer(encoder + int(again.size()), hidden, encoded, into(latent, true));
    }
    share.meet();
    layer(hidden, 3 * hidden, again.size() ? latent : encoded, into(projected, false));
    layer(hidden, 3 * hidden, before, into(gates, false));
    share.meet();
    for (int row = 0; row < rows; ++row)
      for (int unit = hidden / W * share.from / 2 * W; unit < hidden / W * share.to / 2 * W; unit += W) {
        const float* sums = gates(row) + unit;
        const Vec g[Gru::GATES] = {load(sums), load(sums + hidden), load(sums + 2 * hidden)};
        store(after(row) + unit, Gru(hidden, projected(row) + unit, before(row) + unit, g).after);
      }
    share.meet();
    layer(hidden, hidden, after, into(latent, false));
    share.meet();
    layer(hidden, hidden, latent, into(encoded, true));
    share.meet();
    layer(hidden, n_outputs, encoded, [=](int row, int column, Vec sum) {
      for (int j = 0; j < W && column + j < n_outputs; ++j)
        outputs[size_t(row) * n_outputs + column + j] = sum[j];
    });
    share.meet();
  }
};

using F32_1 = ffi::Buffer<ffi::F32, 1>;
using F32_2 = ffi::Buffer<ffi::F32, 2>;
using Bool_1 = ffi::Buffer<ffi::PRED, 1>;

// Weights and biases by turns, in the order of the layers.
ffi::Error pack_all(ffi::RemainingArgs arrays, ffi::Result<F32_1> packed) {
  float* to = packed->typed_data();
  for (size_t i = 0; i + 1 < arrays.size(); i += 2) {
    const auto weight = arrays.get<F32_2>(i);
    const auto bias = arrays.get<F32_1>(i + 1);
    if (weight.has_error()) return weight.error();
    if (bias.has_error()) return bias.error();
    const Layer layer{int(weight->dimensions()[0]), int(weight->dimensions()[1])};
    pack(layer, weight->typed_data(), bias->typed_data(), to);
    to += layer.size();
  }
  return ffi::Error::Success();
}

ffi::Error step(int64_t encoder, ffi::Span<const int64_t> again, F32_2 seen, F32_2 memory, Bool_1 first,
                F32_1 packed, ffi::Result<F32_2> new_memory, ffi::Result<F32_2> outputs) {
  const int rows = int(seen.dimensions()[0]), hidden = int(memory.dimensions()[1]);
  const int wide = std::max(int(encoder + again.size()), hidden);
  float* room = scratch(size_t(rows) * (wide + 7 * hidden) + hidden);
  const auto table = [&](int rows, int width) {
    const Table made{room, width};
    room += size_t(rows) * width;
    return made;
  };
  const Table latent = table(rows + 1, hidden);  // and a row of zeros
  std::fill(latent(rows), latent(rows + 1), 0.0f);
  const Table projected = table(rows, 3 * hidden), gates = table(rows, 3 * hidden);
  divide(2, 1, packed.element_count() >= ENOUGH ? 2 : 3,
         Step{rows, int(seen.dimensions()[1]), hidden, int(outputs->dimensions()[1]), int(encoder), again,
              seen.typed_data(), memory.typed_data(), first.typed_data(), packed.typed_data(),
              new_memory->typed_data(), outputs->typed_data(), table(rows, wide), projected, gates, latent});
  return ffi::Error::Success();
}

}  // namespace

XLA_FFI_DEFINE_HANDLER_SYMBOL(markovlens_actor_pack, pack_all,
                              ffi::Ffi::Bind().RemainingArgs().Ret<F32_1>());

XLA_FFI_DEFINE_HANDLER_SYMBOL(markovlens_actor_step, step,
                              ffi::Ffi::Bind()
                                  .Attr<int64_t>("encoder")
                                  .Attr<ffi::Span<const int64_t>>("again")
                                  .Arg<F32_2>()
                                  .Arg<F32_2>()
                                  .Arg<Bool_1>()
                                  .Arg<F32_1>()
                                  .Ret<F32_2>()
                                  .Ret<F32_2>());
