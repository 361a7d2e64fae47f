// A metadata service on a free loopback port that answers as the test tells it to, and remembers what it was asked.
#pragma once

#include <gtest/gtest.h>
#include <httplib.h>

#include <chrono>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace spillway::preemption {

class MetadataServer {
 public:
  using Answer = std::function<void(const httplib::Request&, httplib::Response&)>;

  explicit MetadataServer(Answer answer) : answer_(std::move(answer)) {
    auto handle = [this](const httplib::Request& request, httplib::Response& response) {
      std::lock_guard<std::mutex> lock(mutex_);
      asked_.push_back(request.method + " " + request.target);
      answer_(request, response);
    };
    server_.Get(".*", handle);
    server_.Put(".*", handle);
    server_.Post(".*", handle);
    port_ = server_.bind_to_any_port("127.0.0.1");
    thread_ = std::thread([this] { server_.listen_after_bind(); });
    while (!server_.is_running()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  ~MetadataServer() {
    server_.stop();
    thread_.join();
  }

  std::string url() const { return "http://127.0.0.1:" + std::to_string(port_); }
  std::vector<std::string> asked() {
    std::lock_guard<std::mutex> lock(mutex_);
    return asked_;
  }
  // Changes what the answers depend on, while none is being given.
  void Change(const std::function<void()>& change) {
    std::lock_guard<std::mutex> lock(mutex_);
    change();
  }

 private:
  Answer answer_;
  httplib::Server server_;
  std::mutex mutex_;
  std::vector<std::string> asked_;
  int port_ = 0;
  std::thread thread_;
};

}  // namespace spillway::preemption
