// Threads that share the work of a call.
#pragma once

#include <unistd.h>

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace puffer {

// The caller and size - 1 threads. Whoever waits looks a bounded number of times, between which
// others may have the core, and then sleeps.
class Crew {
   public:
    explicit Crew(std::size_t size) {
        for (std::size_t part = 1; part < size; ++part)
            threads_.emplace_back([this, part] { serve(part); });
    }

    ~Crew() {
        publish([this] { stopped_ = true; });
        for (std::thread &thread : threads_) thread.join();
    }

    Crew(const Crew &) = delete;
    Crew &operator=(const Crew &) = delete;

    // Call work(0) … work(size - 1), each in its thread, and return when all have.
    void run(const std::function<void(std::size_t)> &work) {
        work_ = &work;
        busy_ = threads_.size();
        publish([this] { ++call_; });
        work(0);
        wait([this] { return busy_ == 0; });
    }

   private:
    static constexpr int LOOKS = 100;

    void serve(std::size_t part) {
        for (std::uint64_t done = 0;; ++done) {
            wait([this, done] { return stopped_ || call_ != done; });
            if (stopped_) return;
            (*work_)(part);
            publish([this] { --busy_; });
        }
    }

    template <typename Change>
    void publish(Change change) {
        {
            const std::lock_guard<std::mutex> lock(mutex_);
            change();
        }
        changed_.notify_all();
    }

    template <typename Ready>
    void wait(Ready ready) {
        for (int look = 0; look < LOOKS; ++look) {
            if (ready()) return;
            std::this_thread::yield();
        }
        std::unique_lock<std::mutex> lock(mutex_);
        changed_.wait(lock, ready);
    }

    std::mutex mutex_;
    std::condition_variable changed_;
    std::atomic<std::uint64_t> call_{0};
    std::atomic<std::size_t> busy_{0};
    std::atomic<bool> stopped_{false};
    const std::function<void(std::size_t)> *work_ = nullptr;
    std::vector<std::thread> threads_;
};

// A crew that is hired by the first call, and anew in a child process, which forks without threads.
class LazyCrew {
   public:
    explicit LazyCrew(std::size_t size) : size_(size) {}

    ~LazyCrew() { leave_parents_crew(); }

    std::size_t size() const { return size_; }

    void run(const std::function<void(std::size_t)> &work) {
        if (size_ == 1) return work(0);
        leave_parents_crew();
        if (!crew_) {
            crew_ = std::make_unique<Crew>(size_);
            process_ = getpid();
        }
        crew_->run(work);
    }

   private:
    // Its threads are not here, so nobody can wait for their end.
    void leave_parents_crew() {
        if (crew_ && process_ != getpid()) static_cast<void>(crew_.release());
    }

    std::size_t size_;
    pid_t process_ = 0;
    std::unique_ptr<Crew> crew_;
};

}  // namespace puffer
