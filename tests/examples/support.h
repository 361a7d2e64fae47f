// Shared by the trainer's tests: a text, a tiny model, a folder that goes away.
#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <string>

#include "base/files.h"
#include "base/rng.h"
#include "base/status_matchers.h"
#include "examples/trainer/data.h"
#include "examples/trainer/model.h"
#include "examples/trainer/options.h"

namespace spillway::trainer {

class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string name = (access("/dev/shm", W_OK) == 0 ? "/dev/shm/" : ::testing::TempDir()) + "spillway-train-XXXXXX";
    path_ = mkdtemp(name.data());
  }
  ~TemporaryFolder() { RemoveTree(path_).IgnoreError(); }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

// Sentences of a few words in random order: there is something to learn, and quickly.
inline std::string SampleText(size_t bytes) {
  static const char* const kWords[] = {"capacity", "is", "already", "paid", "for", "and", "the", "overflow", "spills", "to", "another", "machine"};
  Rng rng(99);
  std::string text;
  while (text.size() < bytes) {
    text += kWords[rng.Below(12)];
    text += rng.Chance(0.15) ? ".\n" : " ";
  }
  text.resize(bytes);
  return text;
}

inline ModelConfig TinyModel() {
  ModelConfig config;
  config.vocabulary = 23;
  config.layers = 2;
  config.dim = 20;  // not a multiple of any vector's width
  config.heads = 2;
  config.context = 13;
  config.batch = 3;
  return config;
}

inline Options TinyRun(const std::string& data) {
  Options options;
  options.data = data;
  options.steps = 60;
  options.checkpoint_every = 7;
  options.model = TinyModel();
  options.model.vocabulary = 0;
  options.backend = "cpu";
  return options;
}

}  // namespace spillway::trainer
