// Work for one thread, or for two that keep in step.
//
// The second thread is ours, not one of XLA's: those would take turns with everything that XLA does. It
// waits for work in a loop for a moment, because one call mostly follows upon another, and then sleeps.

#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

namespace markovlens {  // and not nameless: all files share the one helper

using Clock = std::chrono::steady_clock;

// Two threads that go through the same steps, each with its own part of the work.
class Pair {
 public:
  bool join() { return change_from_waiting(JOINED); }

  // Whether the helper has come; if not in good time, it is not needed any more.
  bool met() {
    const auto late = Clock::now() + std::chrono::microseconds(50);
    while (state_.load(std::memory_order_acquire) == WAITING) {
      if (Clock::now() > late && change_from_waiting(ALONE)) return false;
    }
    return true;
  }

  // Until both have come here. A virtual machine may put to sleep whoever says `pause` in such a loop.
  void meet(int me) {
    const int64_t mine = at_[me].steps.load(std::memory_order_relaxed) + 1;
    at_[me].steps.store(mine, std::memory_order_release);
    while (at_[1 - me].steps.load(std::memory_order_acquire) < mine) {
    }
  }

 private:
  enum State { WAITING, JOINED, ALONE };

  bool change_from_waiting(State to) {
    State waiting = WAITING;
    return state_.compare_exchange_strong(waiting, to, std::memory_order_acq_rel);
  }

  struct alignas(64) At {
    std::atomic<int64_t> steps{0};
  };
  At at_[2];
  std::atomic<State> state_{WAITING};
};

// One thread's share of the work, and how it keeps in step with the other.
struct Share {
  int from, to;  // of the parts of the work
  int me;
  Pair* pair;  // none if alone

  void meet() const {
    if (pair) pair->meet(me);
  }
};

// The second thread, if MARKOVLENS_THREADS allows for one; it ends with the process.
class Helper {
 public:
  static Helper& only() {
    static Helper* helper = new Helper;
    return *helper;
  }

  bool allowed() const { return allowed_; }

  // Gives it a task, unless it has one of another caller.
  bool take(std::function<void()> task) {
    if (!allowed_ || busy_.exchange(true, std::memory_order_acquire)) return false;
    task_ = std::move(task);
    posted_.store(true, std::memory_order_seq_cst);
    if (asleep_.load(std::memory_order_seq_cst)) {
      std::lock_guard<std::mutex> lock(mutex_);
      wake_.notify_one();
    }
    return true;
  }

 private:
  Helper() {
    const char* threads = std::getenv("MARKOVLENS_THREADS");
    allowed_ = threads && std::atoi(threads) > 1;
    if (allowed_) std::thread([this] { serve(); }).detach();
  }

  void serve() {
    for (;;) {
      const auto tired = Clock::now() + std::chrono::microseconds(500);
      while (!posted_.load(std::memory_order_acquire) && Clock::now() < tired) {
      }
      if (!posted_.load(std::memory_order_acquire)) {
        std::unique_lock<std::mutex> lock(mutex_);
        asleep_.store(true, std::memory_order_seq_cst);
        wake_.wait(lock, [this] { return posted_.load(std::memory_order_seq_cst); });
        asleep_.store(false, std::memory_order_relaxed);
      }
      posted_.store(false, std::memory_order_relaxed);
      auto task = std::move(task_);
      task_ = nullptr;
      busy_.store(false, std::memory_order_release);
      task();
    }
  }

  bool allowed_;
  std::function<void()> task_;
  std::atomic<bool> posted_{false}, busy_{false}, asleep_{false};
  std::mutex mutex_;
  std::condition_variable wake_;
};

// Calls work(share) for all of `parts`, on two threads if there are `enough` of them and the helper is
// free. Each gets a multiple of `step`.
template <typename Work>
void divide(int parts, int step, int enough, Work work) {
  const int half = parts / step / 2 * step;
  if (parts >= enough && half > 0 && Helper::only().allowed()) {
    auto pair = std::make_shared<Pair>();
    const bool taken = Helper::only().take([pair, work, half] {
      if (pair->join()) work(Share{0, half, 1, pair.get()});
    });
    if (taken && pair->met()) {
      work(Share{half, parts, 0, pair.get()});
      return;
    }
  }
  work(Share{0, parts, 0, nullptr});
}

}  // namespace markovlens
