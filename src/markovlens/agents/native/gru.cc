// The loop of a gated recurrent unit over a sequence, forwards and backwards.
//
//     g = h U,  r = σ(x_r + g_r),  z = σ(x_z + g_z),  n = tanh(x_n + r (g_n + b)),
//     h' = (1 - z) n + z h,        h = 0 before the first step of an episode
//
// A step reads all of U, which takes longer than its arithmetic; four memories at once read it only
// once. Episodes do not depend on each other, so up to four of a minibatch go side by side, the longest
// first. U is packed into the order in which it is read. With a second thread each takes one half of
// the units, and waits for the other's half of every step. Neither changes the order of any sum
// within a step, but for how many memories go at once.

#include <algorithm>
#include <cstring>

#include "gates.h"
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

struct Forward {
  int length, n, hidden;
  const float *projected, *memory;
  const bool* first;
  const float *weight, *bias;
  float *memories, *before, *gates;  // gates: r, z, n, g_n + b

  void operator()(const Share& share) const {
    float* packed = pack(share);
    const std::vector<float> zeros(hidden);
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

  // The three gates' columns of a block side by side for all rows, then the next block's.
  float* pack(const Share& share) const {
    float* packed = scratch(size_t(share.to - share.from) * hidden * 3 * W);
    float* to = packed;
    for (int b = share.from; b < share.to; ++b)
      for (int k = 0; k < hidden; ++k)
        for (int gate = 0; gate < 3; ++gate, to += W)
          store(to, load(weight + (size_t(k) * 3 + gate) * hidden + b * W));
    return packed;
  }

  template <int L>
  void step(const Share& share, const float* packed, const float* zeros, const Schedule& lanes) const {
    size_t at[L];
    const float* rows[L];
    for (int l = 0; l < L; ++l) {
      const Segment& segment = lanes.lane[l];
      const int t = segment.begin + lanes.done[l];
      at[l] = size_t(t) * n + segment.env;
      const bool fresh = first[at[l]];
      rows[l] = fresh ? zeros : t == 0 ? memory + size_t(segment.env) * hidden
                                       : memories + (at[l] - n) * hidden;
    }
    for (int b = share.from; b < share.to; ++b) {
      Vec sums[L][3];
      multiply<L, 3>(rows, packed + size_t(b - share.from) * hidden * 3 * W, hidden, sums);
      for (int l = 0; l < L; ++l) {
        const float* x = projected + at[l] * 3 * hidden + b * W;
        float* saved = gates + at[l] * 4 * hidden + b * W;
        const Vec h = load(rows[l] + b * W), g_n = sums[l][2] + load(bias + b * W);
        const GruStep found = gru_step(h, load(x), load(x + hidden), load(x + 2 * hidden),
                                       sums[l][0], sums[l][1], g_n);
        store(memories + at[l] * hidden + b * W, found.memory);
        store(before + at[l] * hidden + b * W, h);
        store(saved, found.r);
        store(saved + hidden, found.z);
        store(saved + 2 * hidden, found.n);
        store(saved + 3 * hidden, g_n);
      }
    }
  }
};

struct Backward {
  int length, n, hidden;
  const float *d_memories, *before, *gates;
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

  template <int V>
  void go(const Share& share) const {
    const int depth = 3 * hidden, width = (share.to - share.from) * W;
    float* packed = scratch(size_t(width) * (depth + LANES));
    float* carry[LANES];  // of each lane: what the later steps want of its memory
    for (int l = 0; l < LANES; ++l) carry[l] = packed + size_t(width) * (depth + l);
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
            float* wanted = d_memory + size_t(segment.env) * hidden + share.from * W;
            if (first[segment.env]) std::fill(wanted, wanted + width, 0.0f);
            else std::copy(carry[l], carry[l] + width, wanted);
          },
          [&](int from, int to) { std::swap(carry[from], carry[to]); });
    }
    share.meet();
  }

  // Columns of the transposed weight, V vectors of them side by side for all rows, then the next V.
  template <int V>
  void pack(const Share& share, float* packed) const {
    const int depth = 3 * hidden;
    for (int b = share.from; b < share.to; ++b)
      for (int k = 0; k < depth; k += W) {
        const int block = b - share.from;
        float* to = packed + size_t(block / V) * V * W * depth + size_t(k) * V * W + block % V * W;
        transpose(weight + size_t(b * W) * depth + k, depth, to, V * W);
      }
  }

  template <int L, int V>
  void step(const Share& share, const float* packed, float* const* carry, const Schedule& lanes) const {
    const float* rows[L];
    for (int l = 0; l < L; ++l) {
      const Segment& segment = lanes.lane[l];
      const bool last = lanes.done[l] == 0;
      const size_t at = size_t(segment.end - 1 - lanes.done[l]) * n + segment.env;
      rows[l] = d_gates + at * 3 * hidden;
      for (int b = share.from; b < share.to; ++b) {
        const float* saved = gates + at * 4 * hidden + b * W;
        float* later = carry[l] + (b - share.from) * W;
        float* by_input = d_projected + at * 3 * hidden + b * W;
        float* by_gate = d_gates + at * 3 * hidden + b * W;
        const Vec r = load(saved), z = load(saved + hidden);
        const Vec c = load(saved + 2 * hidden), g = load(saved + 3 * hidden);
        Vec d = load(d_memories + at * hidden + b * W);
        if (!last) d += load(later);
        const Vec d_c = d * (1.0f - z) * (1.0f - c * c);
        const Vec d_r = d_c * g * r * (1.0f - r);
        const Vec d_z = d * (load(before + at * hidden + b * W) - c) * z * (1.0f - z);
        store(by_input, d_r);
        store(by_input + hidden, d_z);
        store(by_input + 2 * hidden, d_c);
        store(by_gate, d_r);
        store(by_gate + hidden, d_z);
        store(by_gate + 2 * hidden, d_c * r);
        store(later, d * z);
      }
    }
    share.meet();
    for (int b = share.from; b < share.to; b += V) {
      Vec sums[L][V];
      const int block = b - share.from;
      multiply<L, V>(rows, packed + size_t(block) * W * 3 * hidden, 3 * hidden, sums);
      for (int l = 0; l < L; ++l)
        for (int v = 0; v < V; ++v) {
          float* later = carry[l] + (block + v) * W;
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

ffi::Error forward(F32_3 projected, F32_2 memory, Bool_2 first, F32_2 weight,
                   F32_1 bias, Out<F32_3> memories, Out<F32_3> before, Out<F32_3> gates) {
  const auto sizes = first.dimensions();
  const int hidden = int(weight.dimensions()[0]);
  divide(hidden / W, together(hidden / W), ENOUGH,
         Forward{int(sizes[0]), int(sizes[1]), hidden, projected.typed_data(), memory.typed_data(),
                 first.typed_data(), weight.typed_data(), bias.typed_data(), memories->typed_data(),
                 before->typed_data(), gates->typed_data()});
  return ffi::Error::Success();
}

ffi::Error backward(F32_3 d_memories, F32_3 before, F32_3 gates, Bool_2 first,
                    F32_2 weight, Out<F32_3> d_projected, Out<F32_3> d_gates, Out<F32_2> d_memory) {
  const auto sizes = first.dimensions();
  const int hidden = int(weight.dimensions()[0]);
  divide(hidden / W, together(hidden / W), ENOUGH,
         Backward{int(sizes[0]), int(sizes[1]), hidden, d_memories.typed_data(), before.typed_data(),
                  gates.typed_data(), first.typed_data(), weight.typed_data(),
                  d_projected->typed_data(), d_gates->typed_data(), d_memory->typed_data()});
  return ffi::Error::Success();
}

}  // namespace

XLA_FFI_DEFINE_HANDLER_SYMBOL(markovlens_gru_forward, forward,
                              ffi::Ffi::Bind()
                                  .Arg<F32_3>()
                                  .Arg<F32_2>()
                                  .Arg<Bool_2>()
                                  .Arg<F32_2>()
                                  .Arg<F32_1>()
                                  .Ret<F32_3>()
                                  .Ret<F32_3>()
                                  .Ret<F32_3>());

XLA_FFI_DEFINE_HANDLER_SYMBOL(markovlens_gru_backward, backward,
                              ffi::Ffi::Bind()
                                  .Arg<F32_3>()
                                  .Arg<F32_3>()
                                  .Arg<F32_3>()
                                  .Arg<Bool_2>()
                                  .Arg<F32_2>()
                                  .Ret<F32_3>()
                                  .Ret<F32_3>()
                                  .Ret<F32_2>());
