// Version 2 of the container: what it hides, what it lets anybody check, and what it refuses from somebody who can make every digest match
// but has no key. Each kind of meddling has its own words.
#include <cstring>
#include <set>

#include "base/sha256.h"
#include "base/status_macros.h"
#include "tests/checkpoint/support.h"

namespace spillway::checkpoint {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kRegion = 4096;  // the header region of everything written here

class EncryptedContainerTest : public ::testing::Test {
 protected:
  std::string Path(const std::string& name = "rank-00000.bin") const { return folder_.path() + "/" + name; }

  std::string Written(int rank = 0, const SecretKey* key = nullptr) {
    EXPECT_OK(WriteContainer(RealIo(), Path(), rank, 2, 120, state_.Views(), 4096, key == nullptr ? &key_ : key).status());
    return *ReadFile(Path());
  }
  absl::StatusOr<ContainerReader> Opened(const SecretKey* key) { return ContainerReader::Open(RealIo(), Path(), nullptr, key); }

  // What comes of reading these bytes with the key.
  absl::Status Read(const std::string& bytes) {
    EXPECT_OK(WriteFileAtomically(Path(), bytes));
    ASSIGN_OR_RETURN(const ContainerReader reader, Opened(&key_));
    SampleState back;
    for (const TensorTarget& target : back.Targets()) {
      if (const TensorEntry* entry = reader.header().Find(target.name)) RETURN_IF_ERROR(reader.ReadTensor(*entry, target.data));
    }
    return absl::OkStatus();
  }

  // A container that `change` has been at and whose digests match again: all that can be done without the key. The header region keeps its size.
  std::string Forged(const std::string& bytes, const std::function<void(ContainerHeader* header, std::string* bytes)>& change) {
    ContainerHeader header = *DecodeHeaderRegion(bytes.substr(0, kRegion), static_cast<int64_t>(bytes.size()));
    std::string forged = bytes;
    change(&header, &forged);
    for (TensorEntry& entry : header.tensors) {
      for (size_t c = 0; c < entry.chunks.size(); ++c) {
        const int64_t begin = static_cast<int64_t>(c) * header.chunk_bytes, size = std::min<int64_t>(header.chunk_bytes, entry.byte_length - begin);
        entry.chunks[c] = Xxh3Of(forged.data() + entry.byte_offset + begin, static_cast<size_t>(size));
      }
    }
    header.file_bytes = static_cast<int64_t>(forged.size());
    forged.replace(0, kRegion, EncodeHeaderRegion(header));
    EXPECT_OK(DecodeHeaderRegion(forged.substr(0, kRegion), header.file_bytes).status());
    // Without the key nobody can tell.
    EXPECT_OK(WriteFileAtomically(Path(), forged));
    auto keyless = Opened(nullptr);
    EXPECT_OK(keyless);
    if (keyless.ok()) {
      EXPECT_OK(keyless->VerifyAll());
    }
    return forged;
  }

  TemporaryFolder folder_;
  const SampleState state_ = SampleState::Of(1);
  const SecretKey key_ = *SecretKey::Random();
};

TEST_F(EncryptedContainerTest, GivesBackWhatItWasGiven) {
  ASSERT_OK_AND_ASSIGN(const ContainerFile written, WriteContainer(RealIo(), Path(), 0, 1, 120, state_.Views(), 4096, &key_));
  ASSERT_OK_AND_ASSIGN(const ContainerReader reader, ContainerReader::Open(RealIo(), Path(), &written, &key_));
  EXPECT_OK(reader.VerifyAll());
  SampleState back;
  EXPECT_OK(reader.ReadTensor(reader.header().tensors[0], back.weights.data()));
  EXPECT_OK(reader.ReadTensor(reader.header().tensors[1], back.rng.data()));
  EXPECT_EQ(back, state_);
}

// Ciphertext of the same size in the same place; no chunk of it like the plain one, and none like another although the content is.
TEST_F(EncryptedContainerTest, HidesTheContentAndKeepsThePlaces) {
  const std::string zeros(3 * 4096, '\0');
  const std::vector<TensorView> tensors = {{"z", DType::kU8, {3 * 4096}, zeros.data(), 3 * 4096}};
  ASSERT_OK(WriteContainer(RealIo(), Path("plain"), 0, 1, 1, tensors, 4096).status());
  ASSERT_OK(WriteContainer(RealIo(), Path(), 0, 1, 1, tensors, 4096, &key_).status());
  ASSERT_OK_AND_ASSIGN(const std::string plain, ReadFile(Path("plain")));
  ASSERT_OK_AND_ASSIGN(const std::string hidden, ReadFile(Path()));
  ASSERT_EQ(plain.size(), hidden.size());
  std::set<std::string> chunks;
  for (size_t at = kRegion; at < hidden.size(); at += 4096) {
    chunks.insert(hidden.substr(at, 4096));
    EXPECT_LT(std::count(hidden.begin() + static_cast<int64_t>(at), hidden.begin() + static_cast<int64_t>(at) + 4096, '\0'), 100);
  }
  EXPECT_EQ(chunks.size(), 3u);
  // A second save of the same under the same data key has nothing in common with the first.
  ASSERT_OK(WriteContainer(RealIo(), Path(), 0, 1, 1, tensors, 4096, &key_).status());
  ASSERT_OK_AND_ASSIGN(const std::string again, ReadFile(Path()));
  for (size_t at = kRegion; at < again.size(); at += 4096) EXPECT_EQ(chunks.count(again.substr(at, 4096)), 0u);
}

// docs/reference/checkpoint-format.md gives these places.
TEST_F(EncryptedContainerTest, HasTheBytesOfVersionTwo) {
  const float values[2] = {1.0f, -2.0f};
  ASSERT_OK(WriteContainer(RealIo(), Path(), 1, 3, 7, {{"w", DType::kF32, {2}, values, 8}}, 1 << 20, &key_).status());
  ASSERT_OK_AND_ASSIGN(const std::string bytes, ReadFile(Path()));
  ASSERT_EQ(bytes.size(), 8192u);
  EXPECT_EQ(HexOf(bytes.substr(0, 24)),
            "53505759434b5054"
            "02000000"
            "00000000"
            "a900000000000000");  // 24 + 64 + 4 + 1 + 24 + 20 + 16 + 16
  EXPECT_EQ(HexOf(bytes.substr(64, 24)),
            "01000000"
            "03000000"
            "0700000000000000"
            "00001000"
            "01000000");
  // Salt and commitment, then the tensors; each with its digests and behind them its tags.
  const std::string salt = bytes.substr(88, 32), commitment = bytes.substr(120, 32);
  EXPECT_EQ(HexOf(bytes.substr(152, 5)), "0100010177");
  const std::string derived = Hkdf(key_.view(), salt, "spillway container v1", 64);
  EXPECT_EQ(derived.substr(32), commitment);
  const ChunkDigest digest = Xxh3Of(bytes.data() + 4096, 8);
  EXPECT_EQ(bytes.substr(201, 16), ViewOf(digest));
  Tag tag;
  std::memcpy(tag.data(), bytes.data() + 217, tag.size());
  std::string plain(8, '\0');
  ASSERT_TRUE(
      Gcm(SecretKey::Of(derived.substr(0, 32))).Open(NonceOf(0, true), bytes.substr(64, 20) + salt + commitment, bytes.data() + 4096, 8, plain.data(), tag));
  EXPECT_EQ(HexOf(plain), "0000803f000000c0");
}

TEST_F(EncryptedContainerTest, WithoutAKeyEverythingIsVerifiedAndNothingIsRead) {
  const std::string bytes = Written();
  {
    ASSERT_OK_AND_ASSIGN(const ContainerReader reader, Opened(nullptr));
    EXPECT_OK(reader.VerifyAll());
    SampleState back;
    EXPECT_THAT(reader.ReadTensor(reader.header().tensors[0], back.weights.data()),
                StatusIs(absl::StatusCode::kUnauthenticated, HasSubstr("is encrypted, and no key is given")));
  }
  // Every accident to the ciphertext shows.
  for (size_t at = kRegion; at < bytes.size(); at += 997) {
    std::string bad = bytes;
    bad[at] ^= 0x10;
    ASSERT_OK(WriteFileAtomically(Path(), bad));
    ASSERT_OK_AND_ASSIGN(const ContainerReader reader, Opened(nullptr));
    EXPECT_TRUE(absl::IsDataLoss(reader.VerifyAll())) << at;
  }
}

TEST_F(EncryptedContainerTest, AnotherKeyIsRefusedBeforeAnythingIsRead) {
  Written();
  ASSERT_OK_AND_ASSIGN(const SecretKey other, SecretKey::Random());
  EXPECT_THAT(Opened(&other).status(), StatusIs(absl::StatusCode::kDataLoss, HasSubstr("encrypted under another data key")));
}

// Who has a key does not take what somebody without it may have put there.
TEST_F(EncryptedContainerTest, APlainContainerIsRefusedUnderAKey) {
  ASSERT_OK(WriteContainer(RealIo(), Path(), 0, 1, 1, state_.Views(), 4096).status());
  EXPECT_THAT(Opened(&key_).status(), StatusIs(absl::StatusCode::kDataLoss, HasSubstr("is not encrypted, and there is a key")));
}

TEST_F(EncryptedContainerTest, AFlippedBitIsTold) {
  const std::string forged = Forged(Written(), [](ContainerHeader*, std::string* bytes) { (*bytes)[kRegion + 5000] ^= 1; });
  EXPECT_THAT(Read(forged), StatusIs(absl::StatusCode::kDataLoss, HasSubstr("bytes from 4096: chunk 1 of the container was altered")));
  // A tag is as good as the bytes it is of.
  const std::string tagged = Forged(Written(), [](ContainerHeader* header, std::string*) { header->tensors[1].tags[0][3] ^= 1; });
  EXPECT_THAT(Read(tagged), StatusIs(absl::StatusCode::kDataLoss, HasSubstr("chunk 5 of the container was altered")));
}

TEST_F(EncryptedContainerTest, ReorderedChunksAreTold) {
  const std::string forged = Forged(Written(), [](ContainerHeader* header, std::string* bytes) {
    std::swap_ranges(bytes->begin() + kRegion, bytes->begin() + kRegion + 4096, bytes->begin() + kRegion + 3 * 4096);
    std::swap(header->tensors[0].tags[0], header->tensors[0].tags[3]);
  });
  EXPECT_THAT(Read(forged), StatusIs(absl::StatusCode::kDataLoss, HasSubstr("chunk 0 of the container is chunk 3 of its container: chunks were reordered")));
}

TEST_F(EncryptedContainerTest, ACutIsTold) {
  const std::string forged = Forged(Written(), [](ContainerHeader* header, std::string* bytes) {
    header->tensors.resize(1);
    bytes->resize(kRegion + 5 * 4096);
  });
  EXPECT_THAT(Read(forged),
              StatusIs(absl::StatusCode::kDataLoss, HasSubstr("chunk 4 of the container is not the last that was written: the container was cut short")));
}

TEST_F(EncryptedContainerTest, SomethingPutBehindItsEndIsTold) {
  const std::string forged = Forged(Written(), [](ContainerHeader* header, std::string* bytes) {
    TensorEntry more = header->tensors[1];
    more.name = "state/more";
    more.byte_offset = static_cast<int64_t>(bytes->size());
    header->tensors.push_back(more);
    bytes->append(bytes->substr(static_cast<size_t>(header->tensors[1].byte_offset), 4096));
  });
  EXPECT_THAT(Read(forged),
              StatusIs(absl::StatusCode::kDataLoss, HasSubstr("chunk 5 of the container was the last of its container: something was put behind it")));
}

// Of the same run, so under the same data key.
TEST_F(EncryptedContainerTest, AChunkOfAnotherContainerIsTold) {
  const std::string of_rank_1 = Written(1);
  const ContainerHeader other = *DecodeHeaderRegion(of_rank_1.substr(0, kRegion), static_cast<int64_t>(of_rank_1.size()));
  const std::string forged = Forged(Written(0), [&](ContainerHeader* header, std::string* bytes) {
    bytes->replace(kRegion, 4096, of_rank_1.substr(kRegion, 4096));
    header->tensors[0].tags[0] = other.tensors[0].tags[0];
  });
  EXPECT_THAT(Read(forged), StatusIs(absl::StatusCode::kDataLoss, HasSubstr("was altered, or is of another container")));
}

// The identity in the header is bound to every chunk: a container cannot be made one of another rank or step.
TEST_F(EncryptedContainerTest, AChangedIdentityIsRefused) {
  const std::string bytes = Written();
  for (const auto& change : std::vector<std::function<void(ContainerHeader*)>>{[](ContainerHeader* header) { header->rank = 1; },
                                                                               [](ContainerHeader* header) { header->step = 121; },
                                                                               [](ContainerHeader* header) { header->world_size = 3; }}) {
    const std::string forged = Forged(bytes, [&](ContainerHeader* header, std::string*) { change(header); });
    EXPECT_THAT(Read(forged), StatusIs(absl::StatusCode::kDataLoss, HasSubstr("was altered, or is of another container")));
  }
  const std::string salted = Forged(bytes, [&](ContainerHeader* header, std::string*) { header->encryption->salt[0] ^= 1; });
  EXPECT_THAT(Read(salted), StatusIs(absl::StatusCode::kDataLoss, HasSubstr("under another data key")));
}

// Nothing of a chunk that is not authentic reaches the program.
TEST_F(EncryptedContainerTest, NoUnauthenticPlaintextIsLeft) {
  ASSERT_OK(WriteFileAtomically(Path(), Forged(Written(), [](ContainerHeader*, std::string* bytes) { (*bytes)[kRegion + 10] ^= 1; })));
  ASSERT_OK_AND_ASSIGN(const ContainerReader reader, Opened(&key_));
  std::vector<char> out(18'000, 'x');
  EXPECT_FALSE(reader.ReadTensor(reader.header().tensors[0], out.data()).ok());
  EXPECT_EQ(std::count(out.begin(), out.begin() + 4096, '\0'), 4096);
}

// As for version 1: with digests that match, the checks behind them must hold alone.
TEST_F(EncryptedContainerTest, SurvivesHostileHeadersWithMatchingDigests) {
  const std::string bytes = Written();
  const std::string good = bytes.substr(0, kRegion);
  uint64_t body_bytes = 0;
  std::memcpy(&body_bytes, good.data() + 16, 8);
  Rng rng(8);
  int refused = 0, taken = 0;
  for (int round = 0; round < 5000; ++round) {
    std::string bad = good;
    for (int flips = 1 + static_cast<int>(rng.Below(3)); flips > 0; --flips) {
      const size_t at = rng.Chance(0.2) ? 8 + rng.Below(32) : 64 + rng.Below(body_bytes);
      bad[at] = static_cast<char>(rng.Chance(0.5) ? (rng.Chance(0.5) ? 0xff : 0x01) : rng.Below(256));
    }
    const ChunkDigest body = Xxh3Of(bad.data() + 64, body_bytes);
    std::memcpy(bad.data() + 40, body.data(), 16);
    const uint64_t preamble = Xxh3Short(bad.data(), 56);
    std::memcpy(bad.data() + 56, &preamble, 8);
    const auto header = DecodeHeaderRegion(bad, static_cast<int64_t>(bytes.size()));
    refused += !header.ok();
    taken += header.ok();
    if (header.ok()) {
      EXPECT_EQ(EncodeHeaderRegion(*header), bad);
    }
  }
  EXPECT_GT(refused, 500);
  EXPECT_GT(taken, 500);
}

}  // namespace
}  // namespace spillway::checkpoint
