// safetensors both ways. What another reader makes of an exported file is tried in safetensors_test.py, with a reader of its own.
#include "checkpoint/safetensors.h"

#include <cstring>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "tests/checkpoint/fault_io.h"
#include "tests/checkpoint/support.h"

namespace spillway::checkpoint {
namespace {

using ::testing::HasSubstr;

class SafetensorsTest : public ::testing::Test {
 protected:
  std::string Path(const std::string& name) { return folder_.path() + "/" + name; }
  TemporaryFolder folder_;
};

TEST_F(SafetensorsTest, ComesBackBitForBit) {
  const CommittedCheckpoint saved = MustSave(Path("run"), 10);
  for (const int64_t shard_bytes : {int64_t{0}, int64_t{64}, int64_t{1} << 30}) {
    const std::string target = Path(absl::StrCat("out-", shard_bytes));
    ASSERT_OK_AND_ASSIGN(const std::vector<ExportedFile> files, ExportSafetensors(saved.path, target, shard_bytes));
    EXPECT_EQ(files.size(), shard_bytes == 64 ? 3u : 1u);  // each tensor for itself: more than 64 bytes, or next to one
    ASSERT_OK_AND_ASSIGN(const LoadedSafetensors loaded, LoadSafetensors(target));
    ASSERT_OK_AND_ASSIGN(Writer writer, Writer::Open(OptionsFor(Path(absl::StrCat("back-", shard_bytes)))));
    ASSERT_OK_AND_ASSIGN(const CommittedCheckpoint back, writer.Save(3, loaded.tensors, loaded.metadata));
    SampleState state;
    ASSERT_OK(Restore(back.path, state.Targets()).status());
    EXPECT_EQ(state, StateOf(10));
  }
}

TEST_F(SafetensorsTest, HasTheReferencesBytes) {
  ASSERT_OK_AND_ASSIGN(Writer writer, Writer::Open(OptionsFor(Path("run"))));
  const float w[2] = {1.0f, -2.0f};
  const int64_t n = 7;
  ASSERT_OK_AND_ASSIGN(const CommittedCheckpoint saved, writer.Save(1, {{"w", DType::kF32, {1, 2}, w, 8}, {"n", DType::kI64, {}, &n, 8}}, {{"format", "pt"}}));
  ASSERT_OK(ExportSafetensors(saved.path, Path("a.safetensors")).status());
  ASSERT_OK_AND_ASSIGN(const std::string bytes, ReadFile(Path("a.safetensors")));
  const std::string json =
      R"({"__metadata__":{"format":"pt"},"n":{"data_offsets":[0,8],"dtype":"I64","shape":[]},"w":{"data_offsets":[8,16],"dtype":"F32","shape":[1,2]}})";
  const size_t padded = (json.size() + 7) / 8 * 8;
  std::string expected(8, '\0');
  expected[0] = static_cast<char>(padded);
  expected += json + std::string(padded - json.size(), ' ');
  expected.append(reinterpret_cast<const char*>(&n), 8);
  expected.append(reinterpret_cast<const char*>(w), 8);
  EXPECT_EQ(bytes, expected);
}

// Slices of several processes become whole tensors.
TEST_F(SafetensorsTest, PutsTheSlicesTogether) {
  std::vector<int32_t> all(24);
  for (size_t i = 0; i < all.size(); ++i) all[i] = static_cast<int32_t>(i);
  std::vector<ManifestFile> files;
  const std::string step = Path("run/step-000000000005");
  ASSERT_OK(MakeDirectories(step));
  for (int rank = 0; rank < 2; ++rank) {
    std::vector<int32_t> part;
    for (size_t row = 0; row < 4; ++row)
      part.insert(part.end(), all.begin() + static_cast<int64_t>(row * 6 + 3 * rank), all.begin() + static_cast<int64_t>(row * 6 + 3 * rank + 3));
    const std::vector<TensorView> views = {{"m", DType::kI32, {4, 3}, part.data(), 48, Slice{{4, 6}, {0, 3 * rank}, {4, 3}}}};
    ASSERT_OK_AND_ASSIGN(const ContainerFile file, WriteContainer(RealIo(), step + "/" + RankFileName(rank), rank, 2, 5, views));
    files.push_back({RankFileName(rank), file.bytes, file.header_sha256});
  }
  Manifest manifest;
  manifest.step = 5;
  manifest.world_size = 2;
  manifest.files = files;
  ASSERT_OK_AND_ASSIGN(const EncodedManifest encoded, EncodeManifest(manifest));
  ASSERT_OK(WriteFileAtomically(step + "/MANIFEST", encoded.text));
  ASSERT_OK(ExportSafetensors(step, Path("m.safetensors")).status());
  ASSERT_OK_AND_ASSIGN(const LoadedSafetensors loaded, LoadSafetensors(Path("m.safetensors")));
  ASSERT_EQ(loaded.tensors.size(), 1u);
  EXPECT_EQ(loaded.tensors[0].shape, (std::vector<int64_t>{4, 6}));
  EXPECT_EQ(std::memcmp(loaded.tensors[0].data, all.data(), 96), 0);
}

TEST_F(SafetensorsTest, NeverReplacesAndNeverLeavesHalf) {
  const CommittedCheckpoint saved = MustSave(Path("run"), 10);
  ASSERT_OK(WriteFileAtomically(Path("there"), "somebody's"));
  EXPECT_TRUE(absl::IsAlreadyExists(ExportSafetensors(saved.path, Path("there")).status()));
  ASSERT_OK_AND_ASSIGN(const std::string still, ReadFile(Path("there")));
  EXPECT_EQ(still, "somebody's");
  bool untouched = false;
  for (int64_t k = 1; !untouched && k < kCallsMax; ++k) {
    FaultIo io(FaultIo::Fault::kErrorOnce, k, absl::ResourceExhaustedError("no space left"));
    const std::string target = Path(absl::StrCat("out-", k));
    const absl::Status exported = ExportSafetensors(saved.path, target, 0, &io).status();
    untouched = !io.struck();
    EXPECT_FALSE(PathExists(target + ".tmp"));
    // Where only the last sync failed the file is whole.
    if (PathExists(target)) {
      EXPECT_OK(LoadSafetensors(target).status());
    } else {
      EXPECT_TRUE(absl::IsResourceExhausted(exported)) << exported;
    }
  }
  EXPECT_TRUE(untouched);
}

TEST_F(SafetensorsTest, SaysWhatItCannotWrite) {
  ASSERT_OK_AND_ASSIGN(Writer writer, Writer::Open(OptionsFor(Path("run"))));
  const double z[2] = {};
  ASSERT_OK_AND_ASSIGN(const CommittedCheckpoint saved, writer.Save(1, {{"z", DType::kC128, {1}, z, 16}}));
  EXPECT_THAT(ExportSafetensors(saved.path, Path("z")).status(), StatusIs(absl::StatusCode::kUnimplemented, HasSubstr("\"z\" is c128")));
  EXPECT_THAT(LoadSafetensors(Path("none")).status(), StatusIs(absl::StatusCode::kNotFound, HasSubstr("none")));
  EXPECT_THAT(LoadSafetensors(Path("run")).status(), StatusIs(absl::StatusCode::kNotFound, HasSubstr("name the .safetensors file")));
}

// ---- Parsing what others wrote ----

absl::Status Parsed(absl::string_view json, int64_t data_bytes) { return DecodeSafetensorsHeader(json, data_bytes).status(); }

TEST(SafetensorsHeader, TakesWhatTheReferenceWrites) {
  const std::string json =
      R"({"__metadata__":{"a":"b"},"x":{"dtype":"F8_E4M3","shape":[2,2],"data_offsets":[0,4]},"y":{"shape":[],"data_offsets":[4,6],"dtype":"BF16"}}   )";
  ASSERT_OK_AND_ASSIGN(const SafetensorsHeader header, DecodeSafetensorsHeader(json, 6));
  ASSERT_EQ(header.tensors.size(), 2u);
  EXPECT_EQ(header.tensors[0].dtype, DType::kF8E4M3);
  EXPECT_EQ(header.tensors[1].name, "y");
  EXPECT_EQ(header.metadata, (Metadata{{"a", "b"}}));
  EXPECT_OK(Parsed("{}", 0));
}

TEST(SafetensorsHeader, RefusesEverythingElse) {
  const std::string good = R"({"x":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"y":{"dtype":"U8","shape":[3],"data_offsets":[8,11]}})";
  ASSERT_OK(Parsed(good, 11));
  EXPECT_FALSE(Parsed(good, 12).ok());
  EXPECT_FALSE(Parsed(good, 10).ok());
  EXPECT_FALSE(Parsed(" " + good, 11).ok());
  EXPECT_FALSE(Parsed("", 0).ok());
  EXPECT_FALSE(Parsed(good + "x", 11).ok());
  const std::pair<const char*, const char*> edits[] = {
      {"\"F32\"", "\"F33\""},
      {"\"F32\"", "32"},
      {"\"F32\"", "null"},
      {"[2]", "[3]"},
      {"[2]", "[-2]"},
      {"[2]", "[2.0]"},
      {"[2]", "[[2]]"},
      {"[2]", "\"2\""},
      {"[2]", "{\"a\":2}"},
      {"[2]", "[18446744073709551615]"},
      {"[2]", "[4611686018427387904,4]"},
      {"[2]", "[2,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1]"},
      {"[0,8]", "[0]"},
      {"[0,8]", "[0,8,8]"},
      {"[0,8]", "[8,0]"},
      {"[0,8]", "[0,9]"},
      {"[8,11]", "[9,12]"},
      {"[8,11]", "[7,10]"},
      {"\"shape\":[2],", ""},
      {"\"shape\":[2]", "\"shape\":[2],\"shape\":[2]"},
      {"\"shape\":[2]", "\"shape\":[2],\"strides\":[1]"},
      {"\"y\"", "\"x\""},
      {"\"y\"", "\"\""},
      {"{\"x\"", "{\"__metadata__\":{\"a\":1},\"x\""},
      {"{\"x\"", "{\"__metadata__\":{\"a\":\"1\",\"a\":\"2\"},\"x\""},
      {"{\"x\"", "{\"__metadata__\":[],\"x\""},
      {"{\"x\"", "{\"z\":true,\"x\""},
      {"}}", "}"},
  };
  for (const auto& [from, to] : edits) {
    std::string bad = good;
    const size_t at = bad.find(from);
    ASSERT_NE(at, std::string::npos) << from;
    bad.replace(at, std::strlen(from), to);
    EXPECT_TRUE(absl::IsDataLoss(Parsed(bad, 11))) << bad << ": " << Parsed(bad, 11);
  }
}

TEST(SafetensorsHeader, SurvivesTowersAndGarbage) {
  EXPECT_TRUE(absl::IsDataLoss(Parsed(std::string(1'000'000, '['), 0)));
  EXPECT_TRUE(absl::IsDataLoss(Parsed("{\"a\":" + std::string(1'000'000, '['), 0)));
  std::string nested;
  for (int i = 0; i < 100'000; ++i) nested += "{\"a\":";
  EXPECT_TRUE(absl::IsDataLoss(Parsed(nested, 0)));
  const std::string good = R"({"x":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"__metadata__":{"k":"v"}})";
  Rng rng(5);
  for (int round = 0; round < 5000; ++round) {
    std::string bad = good;
    for (int n = 1 + static_cast<int>(rng.Below(4)); n > 0; --n) bad[rng.Below(bad.size())] = static_cast<char>(rng.Below(256));
    Parsed(bad, 8).IgnoreError();  // any answer will do; a crash or a sanitizer's word will not
  }
}

TEST_F(SafetensorsTest, FilesThatLieAboutTheirHeader) {
  for (const uint64_t length : {uint64_t{0}, uint64_t{1}, uint64_t{100}, uint64_t{1} << 40, UINT64_MAX}) {
    std::string bytes(reinterpret_cast<const char*>(&length), 8);
    bytes += "{}";
    ASSERT_OK(WriteFileAtomically(Path("lie"), bytes));
    EXPECT_TRUE(absl::IsDataLoss(LoadSafetensors(Path("lie")).status())) << length;
  }
  ASSERT_OK(WriteFileAtomically(Path("short"), "abc"));
  EXPECT_TRUE(absl::IsDataLoss(LoadSafetensors(Path("short")).status()));
  for (const char* index : {R"({"weight_map":{"w":"../../etc/passwd"}})", R"({"weight_map":{"w":3}})", R"({"weight_map":[]})", "[]", "{"}) {
    ASSERT_OK(WriteFileAtomically(Path("model.safetensors.index.json"), index));
    EXPECT_TRUE(absl::IsDataLoss(LoadSafetensors(Path("model.safetensors.index.json")).status())) << index;
  }
}

}  // namespace
}  // namespace spillway::checkpoint
