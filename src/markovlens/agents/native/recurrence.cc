// The loop of a recurrent cell over a sequence, forwards and backwards.
//
//     g = h U + b,  memory' = what the cell makes of the input, g and its memory (`cells.h`),
//     memory = 0 before the first step of an episode
//
// A step reads all of U, which takes longer than its arithmetic; four memories at once read it only
// once. Episodes do not depend on each other, so up to four of a minibatch go side by side, the longest
// first. U is packed into the order in which it is read. With a second thread each takes one half of
// the units, and waits for the other's half of every step. Neither changes the order of any sum
// within a step, but for how many memories go at once.

#include <algorithm>
#include <vector>

#include "cells.h"
#include "pair.h"
#include "rows.h"
#include "vectors.h"
#include "xla/ffi/api/ffi.h"

namespace ffi = xla::ffi;
using namespace markovlens;

namespace {

constexpr int LANES = 4;
constexpr int ENOUGH = 256 / W;  // blocks of W units; with fewer, waiting for each other takes longer

struct Segment {
  int env, begin, end;  // steps of one episode, as far as they are in the sequence
};

// The segments longest first, as many at a time as there are lanes.
class Schedule {
 public:
  Schedule(const bool* first, int length, int n) {
    segments_.reserve(n + length / 4);
    for (int env = 0; env < n; ++env)
      for (int begin = 0, t = 1; t <= length; ++t)
        if (t == length || first[size_t(t) * n + env]) {
          segments_.push_back({env, begin, t});
          begin = t;
        }
    std::stable_sort(segments_.begin(), segments_.end(), [](const Segment& a, const Segment& b) {
      return a.end - a.begin > b.end - b.begin;
    });
    while (active < LANES && take(active)) ++active;
  }

  // Every active lane has done one more step; lanes that have ended get a new segment or close up.
  template <typename Ended, typename Moved>
  void advance(Ended ended, Moved moved) {
    for (int l = 0; l < active;) {
      if (++done[l] < lane[l].end - lane[l].begin) {
        ++l;
        continue;
      }
      ended(l);
      if (take(l)) {
        ++l;
      } else if (l < --active) {
        lane[l] = lane[active];
        done[l] = done[active];
        moved(active, l);
      }
    }
  }

  Segment lane[LANES];
  int done[LANES];
  int active = 0;

 private:
  bool take(int l) {
    if (next_ == segments_.size()) return false;
    lane[l] = segments_[next_++];
    done[l] = 0;
    return true;
  }

  std::vector<Segment> segments_;
  size_t next_ = 0;
};

// How many blocks the way back takes at a time. The order of its sums depends on it, so it does not
// depend on who does them.
int together(int blocks) { return blocks % 4 == 0 ? 4 : blocks % 2 == 0 ? 2 : 1; }

template <typename Cell>
struct Forward {
  static constexpr int GATES = Cell::GATES;

  int length, n, hidden;
  const float *projected, *memory;
  const bool* first;
  const float *weight, *bias;
  float *memories, *before, *saved;  // before: h alone

  void operator()(const Share& share) const {
    float* packed = pack(share);
    const std::vector<float> zeros(Cell::STATES * hidden);
    Schedule lanes(first, length, n);
    while (lanes.active) {
      if (lanes.active == 4) step<4>(share, packed, zeros.data(), lanes);
      else if (lanes.active == 3) step<3>(share, packed, zeros.data(), lanes);
      else if (lanes.active == 2) step<2>(share, packed, zeros.data(), lanes);
      else step<1>(share, packed, zeros.data(), lanes);
      share.meet();
      lanes.advance([](int) {}, [](int, int) {});
    }
  }

  // The gates' columns of a block side by side for all rows, then the next block's.
  float* pack(const Share& share) const {
    float* packed = scratch(size_t(share.to - share.from) * hidden * GATES * W);
    float* to = packed;
    for (int b = share.from; b < share.to; ++b)
      for (int k = 0; k < hidden; ++k)
        for (int gate = 0; gate < GATES; ++gate, to += W)
          store(to, load(weight + (size_t(k) * GATES + gate) * hidden + b * W));
    return packed;
  }

  template <int L>
  __attribute__((noinline)) void step(const Share& share, const float* packed, const float* zeros, const Schedule& lanes) const {
    const int size = Cell::STATES * hidden, h = size - hidden;  // where h begins
    size_t at[L];
    const float *old[L], *rows[L];
    for (int l = 0; l < L; ++l) {
      const Segment& segment = lanes.lane[l];
      const int t = segment.begin + lanes.done[l];
      at[l] = size_t(t) * n + segment.env;
      const bool fresh = first[at[l]];
      old[l] = fresh ? zeros : t == 0 ? memory + size_t(segment.env) * size
                                      : memories + (at[l] - n) * size;
      rows[l] = old[l] + h;
    }
    for (int b = share.from; b < share.to; ++b) {
      const int unit = b * W;
      Vec sums[L][GATES];
      multiply<L, GATES>(rows, packed + size_t(b - share.from) * hidden * GATES * W, hidden, sums);
      for (int l = 0; l < L; ++l) {
        for (int gate = 0; gate < GATES; ++gate) sums[l][gate] += load(bias + gate * hidden + unit);
        Cell::forward(hidden, projected + at[l] * GATES * hidden + unit, old[l] + unit, sums[l],
                      memories + at[l] * size + unit, saved + at[l] * Cell::SAVED * hidden + unit);
        store(before + at[l] * hidden + unit, load(rows[l] + unit));
      }
    }
  }
};

template <typename Cell>
struct Backward {
  static constexpr int STATES = Cell::STATES;

  int length, n, hidden;
  const float *d_memories, *before, *saved;
  const bool* first;
  const float* weight;
  float *d_projected, *d_gates, *d_memory;

  void operator()(const Share& share) const {
    switch (together(hidden / W)) {
      case 4: return go<4>(share);
      case 2: return go<2>(share);
      default: return go<1>(share);
    }
  }

  int depth() const { return Cell::GATES * hidden; }

  template <int V>
  void go(const Share& share) const {
    const int width = (share.to - share.from) * W;
    float* packed = scratch(size_t(width) * (depth() + LANES * STATES));
    float* carry[LANES];  // of each lane: what the later steps want of its memory
    for (int l = 0; l < LANES; ++l) carry[l] = packed + size_t(width) * (depth() + l * STATES);
    pack<V>(share, packed);
    Schedule lanes(first, length, n);
    while (lanes.active) {
      if (lanes.active == 4) step<4, V>(share, packed, carry, lanes);
      else if (lanes.active == 3) step<3, V>(share, packed, carry, lanes);
      else if (lanes.active == 2) step<2, V>(share, packed, carry, lanes);
      else step<1, V>(share, packed, carry, lanes);
      lanes.advance(
          [&](int l) {
            const Segment& segment = lanes.lane[l];
            if (segment.begin > 0) return;
            for (int state = 0; state < STATES; ++state) {
              float* wanted = d_memory + (size_t(segment.env) * STATES + state) * hidden + share.from * W;
              const float* found = carry[l] + state * width;
              if (first[segment.env]) std::fill(wanted, wanted + width, 0.0f);
              else std::copy(found, found + width, wanted);
            }
          },
          [&](int from, int to) { std::swap(carry[from], carry[to]); });
    }
    share.meet();
  }

  // Columns of the transposed weight, V vectors of them side by side for all rows, then the next V.
  template <int V>
  void pack(const Share& share, float* packed) const {
    for (int b = share.from; b < share.to; ++b)
      for (int k = 0; k < depth(); k += W) {
        const int block = b - share.from;
        float* to = packed + size_t(block / V) * V * W * depth() + size_t(k) * V * W + block % V * W;
        transpose(weight + size_t(b * W) * depth() + k, depth(), to, V * W);
      }
  }

  template <int L, int V>
  __attribute__((noinline)) void step(const Share& share, const float* packed, float* const* carry, const Schedule& lanes) const {
    const int width = (share.to - share.from) * W;
    const float* rows[L];
    for (int l = 0; l < L; ++l) {
      const Segment& segment = lanes.lane[l];
      const bool last = lanes.done[l] == 0;
      const size_t at = size_t(segment.end - 1 - lanes.done[l]) * n + segment.env;
      rows[l] = d_gates + at * depth();
      for (int b = share.from; b < share.to; ++b) {
        const int unit = b * W;
        float* later = carry[l] + (b - share.from) * W;
        Vec d[STATES];
        for (int state = 0; state < STATES; ++state) {
          d[state] = load(d_memories + (at * STATES + state) * hidden + unit);
          if (!last) d[state] += load(later + state * width);
        }
        Cell::backward(hidden, saved + at * Cell::SAVED * hidden + unit, load(before + at * hidden + unit),
                       d, d_projected + at * depth() + unit, d_gates + at * depth() + unit);
        for (int state = 0; state < STATES; ++state) store(later + state * width, d[state]);
      }
    }
    share.meet();
    for (int b = share.from; b < share.to; b += V) {
      Vec sums[L][V];
      const int block = b - share.from;
      multiply<L, V>(rows, packed + size_t(block) * W * depth(), depth(), sums);
      for (int l = 0; l < L; ++l)
        for (int v = 0; v < V; ++v) {
          float* later = carry[l] + (STATES - 1) * width + (block + v) * W;
          store(later, load(later) + sums[l][v]);
        }
    }
  }
};

using F32_1 = ffi::Buffer<ffi::F32, 1>;
using F32_2 = ffi::Buffer<ffi::F32, 2>;
using F32_3 = ffi::Buffer<ffi::F32, 3>;
using Bool_2 = ffi::Buffer<ffi::PRED, 2>;
template <typename T>
using Out = ffi::Result<T>;

template <typename Cell>
ffi::Error forward(F32_3 projected, F32_2 memory, Bool_2 first, F32_2 weight, F32_1 bias,
                   Out<F32_3> memories, Out<F32_3> before, Out<F32_3> saved) {
  const auto sizes = first.dimensions();
  const int hidden = int(weight.dimensions()[0]);
  divide(hidden / W, together(hidden / W), ENOUGH,
         Forward<Cell>{int(sizes[0]), int(sizes[1]), hidden, projected.typed_data(), memory.typed_data(),
                       first.typed_data(), weight.typed_data(), bias.typed_data(), memories->typed_data(),
                       before->typed_data(), saved->typed_data()});
  return ffi::Error::Success();
}

template <typename Cell>
ffi::Error backward(F32_3 d_memories, F32_3 before, F32_3 saved, Bool_2 first, F32_2 weight,
                    Out<F32_3> d_projected, Out<F32_3> d_gates, Out<F32_2> d_memory) {
  const auto sizes = first.dimensions();
  const int hidden = int(weight.dimensions()[0]);
  divide(hidden / W, together(hidden / W), ENOUGH,
         Backward<Cell>{int(sizes[0]), int(sizes[1]), hidden, d_memories.typed_data(), before.typed_data(),
                        saved.typed_data(), first.typed_data(), weight.typed_data(),
                        d_projected->typed_data(), d_gates->typed_data(), d_memory->typed_data()});
  return ffi::Error::Success();
}

auto forward_binding() {
  return ffi::Ffi::Bind()
      .Arg<F32_3>()
      .Arg<F32_2>()
      .Arg<Bool_2>()
      .Arg<F32_2>()
      .Arg<F32_1>()
      .Ret<F32_3>()
      .Ret<F32_3>()
      .Ret<F32_3>();
}

auto backward_binding() {
  return ffi::Ffi::Bind()
      .Arg<F32_3>()
      .Arg<F32_3>()
      .Arg<F32_3>()
      .Arg<Bool_2>()
      .Arg<F32_2>()
      .Ret<F32_3>()
      .Ret<F32_3>()
      .Ret<F32_2>();
}

}  // namespace

XLA_FFI_DEFINE_HANDLER_SYMBOL(markovlens_gru_forward, forward<Gru>, forward_binding());
XLA_FFI_DEFINE_HANDLER_SYMBOL(markovlens_gru_backward, backward<Gru>, backward_binding());
XLA_FFI_DEFINE_HANDLER_SYMBOL(markovlens_lstm_forward, forward<Lstm>, forward_binding());
XLA_FFI_DEFINE_HANDLER_SYMBOL(markovlens_lstm_backward, backward<Lstm>, backward_binding());
