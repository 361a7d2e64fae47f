#include "base/varint.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
#include <google/protobuf/wire_format_lite.h>

#include <limits>
#include <memory>
#include <vector>

#include "base/rng.h"
#include "base/sha256.h"
#include "base/status_matchers.h"

namespace spillway {
namespace {

using ::google::protobuf::internal::WireFormatLite;
using ::testing::HasSubstr;

constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
constexpr int64_t kMin = std::numeric_limits<int64_t>::min();

std::string Varint(uint64_t value) {
  std::string out;
  AppendVarint(&out, value);
  return out;
}

// A copy of exactly the right size on the heap, so that the address sanitizer sees a read of one byte too many.
class Exact {
 public:
  explicit Exact(absl::string_view bytes) : bytes_(new char[bytes.size()]), size_(bytes.size()) { std::memcpy(bytes_.get(), bytes.data(), bytes.size()); }
  absl::string_view view() const { return absl::string_view(bytes_.get(), size_); }

 private:
  std::unique_ptr<char[]> bytes_;
  size_t size_;
};

TEST(VarintTest, BytesOfTheProtobufDocumentation) {
  EXPECT_EQ(HexOf(Varint(0)), "00");
  EXPECT_EQ(HexOf(Varint(1)), "01");
  EXPECT_EQ(HexOf(Varint(150)), "9601");
  EXPECT_EQ(HexOf(Varint(300)), "ac02");
  EXPECT_EQ(HexOf(Varint(UINT64_MAX)), "ffffffffffffffffff01");
  std::string out;
  AppendVarintField(&out, 1, 150);
  EXPECT_EQ(HexOf(out), "089601");
  out.clear();
  AppendBytesField(&out, 2, "testing");
  EXPECT_EQ(HexOf(out), "120774657374696e67");
  out.clear();
  AppendMessageField(&out, 3, [](std::string* nested) { AppendVarintField(nested, 1, 150); });
  EXPECT_EQ(HexOf(out), "1a03089601");
  out.clear();
  AppendVarintField(&out, 1, static_cast<uint64_t>(int64_t{-2}));
  EXPECT_EQ(HexOf(out), "08feffffffffffffffff01");
}

TEST(VarintTest, ZigZag) {
  const std::pair<int64_t, uint64_t> kCases[] = {{0, 0}, {-1, 1}, {1, 2}, {-2, 3}, {kMax, UINT64_MAX - 1}, {kMin, UINT64_MAX}};
  for (const auto& [value, encoded] : kCases) {
    EXPECT_EQ(ZigZagEncode(value), encoded);
    EXPECT_EQ(ZigZagDecode(encoded), value);
  }
}

TEST(VarintTest, ProtobufReadsWhatWeWrite) {
  Rng rng(11);
  for (int round = 0; round < 2'000; ++round) {
    const uint64_t number = rng.Next() >> rng.Below(64);
    const auto zigzag = static_cast<int64_t>(rng.Next());
    const auto field = static_cast<uint32_t>(rng.Between(1, kWireFieldMax));
    const std::string text(rng.Below(300), 'x');
    std::string out;
    AppendVarintField(&out, field, number);
    AppendZigZagField(&out, field, zigzag);
    AppendBytesField(&out, field, text);
    AppendFixed64Field(&out, field, number);
    AppendFixed32Field(&out, field, static_cast<uint32_t>(number));
    AppendDoubleField(&out, field, 0.1);

    google::protobuf::io::ArrayInputStream array(out.data(), static_cast<int>(out.size()));
    google::protobuf::io::CodedInputStream in(&array);
    uint64_t got64;
    uint32_t got32;
    std::string got_text;
    int length;
    const auto tag = [field](WireFormatLite::WireType type) { return WireFormatLite::MakeTag(static_cast<int>(field), type); };
    ASSERT_EQ(in.ReadTag(), tag(WireFormatLite::WIRETYPE_VARINT));
    ASSERT_TRUE(in.ReadVarint64(&got64));
    ASSERT_EQ(got64, number);
    ASSERT_EQ(VarintSize(number), google::protobuf::io::CodedOutputStream::VarintSize64(number));
    ASSERT_EQ(in.ReadTag(), tag(WireFormatLite::WIRETYPE_VARINT));
    ASSERT_TRUE(in.ReadVarint64(&got64));
    ASSERT_EQ(WireFormatLite::ZigZagDecode64(got64), zigzag);
    ASSERT_EQ(in.ReadTag(), tag(WireFormatLite::WIRETYPE_LENGTH_DELIMITED));
    ASSERT_TRUE(in.ReadVarintSizeAsInt(&length) && in.ReadString(&got_text, length));
    ASSERT_EQ(got_text, text);
    ASSERT_EQ(in.ReadTag(), tag(WireFormatLite::WIRETYPE_FIXED64));
    ASSERT_TRUE(in.ReadLittleEndian64(&got64));
    ASSERT_EQ(got64, number);
    ASSERT_EQ(in.ReadTag(), tag(WireFormatLite::WIRETYPE_FIXED32));
    ASSERT_TRUE(in.ReadLittleEndian32(&got32));
    ASSERT_EQ(got32, static_cast<uint32_t>(number));
    ASSERT_EQ(in.ReadTag(), tag(WireFormatLite::WIRETYPE_FIXED64));
    ASSERT_TRUE(in.ReadLittleEndian64(&got64));
    ASSERT_EQ(WireFormatLite::DecodeDouble(got64), 0.1);
    ASSERT_EQ(in.ReadTag(), 0u);
  }
}

TEST(WireReaderTest, ReadsBackEveryField) {
  std::string out;
  AppendVarintField(&out, 1, UINT64_MAX);
  AppendVarintField(&out, 2, static_cast<uint64_t>(int64_t{-7}));
  AppendZigZagField(&out, kWireFieldMax, kMin);
  AppendBytesField(&out, 16, "");
  AppendMessageField(&out, 17, [](std::string* nested) {
    for (uint64_t n : {1, 200, 70'000}) AppendVarint(nested, n);
  });
  AppendFixed64Field(&out, 18, 0x0102030405060708);
  AppendFixed32Field(&out, 19, 0xdeadbeef);
  AppendDoubleField(&out, 20, -1.5);
  const Exact bytes(out);
  WireReader reader(bytes.view());
  uint32_t field;
  WireType type;
  uint64_t number;
  int64_t signed_number;
  uint32_t half;
  double real;
  std::string text = "before";
  absl::string_view view;

  ASSERT_OK(reader.ReadTag(&field, &type));
  EXPECT_EQ(field, 1u);
  ASSERT_OK(reader.ReadVarintField(type, &number));
  EXPECT_EQ(number, UINT64_MAX);
  ASSERT_OK(reader.ReadTag(&field, &type));
  ASSERT_OK(reader.ReadVarintField(type, &signed_number));
  EXPECT_EQ(signed_number, -7);
  ASSERT_OK(reader.ReadTag(&field, &type));
  EXPECT_EQ(field, kWireFieldMax);
  ASSERT_OK(reader.ReadZigZagField(type, &signed_number));
  EXPECT_EQ(signed_number, kMin);
  ASSERT_OK(reader.ReadTag(&field, &type));
  ASSERT_OK(reader.ReadBytesField(type, &text));
  EXPECT_EQ(text, "");
  ASSERT_OK(reader.ReadTag(&field, &type));
  ASSERT_OK(reader.ReadBytesField(type, &view));
  WireReader nested(view);
  std::vector<uint64_t> list;
  while (!nested.done()) {
    ASSERT_OK(nested.ReadVarint(&number));
    list.push_back(number);
  }
  EXPECT_THAT(list, ::testing::ElementsAre(1, 200, 70'000));
  ASSERT_OK(reader.ReadTag(&field, &type));
  ASSERT_OK(reader.ReadFixed64Field(type, &number));
  EXPECT_EQ(number, 0x0102030405060708u);
  ASSERT_OK(reader.ReadTag(&field, &type));
  ASSERT_OK(reader.ReadFixed32Field(type, &half));
  EXPECT_EQ(half, 0xdeadbeefu);
  ASSERT_OK(reader.ReadTag(&field, &type));
  ASSERT_OK(reader.ReadDoubleField(type, &real));
  EXPECT_EQ(real, -1.5);
  EXPECT_TRUE(reader.done());

  // The same bytes, every field unknown.
  WireReader skipping(bytes.view());
  int fields = 0;
  for (; !skipping.done(); ++fields) {
    ASSERT_OK(skipping.ReadTag(&field, &type));
    ASSERT_OK(skipping.Skip(type));
  }
  EXPECT_EQ(fields, 8);
}

absl::Status ReadAll(absl::string_view bytes) {
  WireReader reader(bytes);
  while (!reader.done()) {
    uint32_t field;
    WireType type;
    RETURN_IF_ERROR(reader.ReadTag(&field, &type));
    RETURN_IF_ERROR(reader.Skip(type));
  }
  return absl::OkStatus();
}

TEST(WireReaderTest, EveryCutWithinAFieldIsAnError) {
  std::string whole;
  AppendVarintField(&whole, 1000, UINT64_MAX);
  const size_t first = whole.size();
  AppendBytesField(&whole, 2, std::string(200, 'x'));
  const size_t second = whole.size();
  AppendFixed64Field(&whole, 3, 1);
  const size_t third = whole.size();
  AppendFixed32Field(&whole, 4, 1);
  for (size_t n = 0; n <= whole.size(); ++n) {
    const Exact cut(absl::string_view(whole).substr(0, n));
    const bool between = n == 0 || n == first || n == second || n == third || n == whole.size();
    if (between) {
      EXPECT_OK(ReadAll(cut.view())) << n;
    } else {
      EXPECT_THAT(ReadAll(cut.view()), StatusIs(absl::StatusCode::kDataLoss, HasSubstr("malformed record at byte"))) << n;
    }
  }
}

TEST(WireReaderTest, MalformedInputIsRefusedWithItsReasonAndChangesNothing) {
  const auto bytes_of = [](absl::string_view hex) { return *FromHex(hex); };
  uint64_t number = 77;
  absl::string_view view = "before";
  uint32_t field = 77;
  WireType type = WireType::kFixed32;
  const auto refused = [](const absl::Status& status, absl::string_view why) {
    EXPECT_THAT(status, StatusIs(absl::StatusCode::kDataLoss, HasSubstr(std::string(why))));
  };
  const std::string too_big = bytes_of("ffffffffffffffffff02"), too_long = bytes_of("8080808080808080808001");
  refused(WireReader(too_big).ReadVarint(&number), "more than 64 bits");
  refused(WireReader(too_long).ReadVarint(&number), "more than 64 bits");
  refused(WireReader("").ReadVarint(&number), "ends within a number");
  const std::string huge_length = bytes_of("ffffffffffffffffff01") + "abc", one_too_many = bytes_of("04") + "abc";
  refused(WireReader(huge_length).ReadLengthDelimited(&view), "18446744073709551615 bytes where 3 are left");
  refused(WireReader(one_too_many).ReadLengthDelimited(&view), "at byte 0 of 4: a length of 4 bytes where 3 are left");
  const std::string zero_field = bytes_of("00"), group = bytes_of("0b"), reserved = bytes_of("0f"), big_field = bytes_of("8080808010");
  refused(WireReader(zero_field).ReadTag(&field, &type), "field number 0");
  refused(WireReader(group).ReadTag(&field, &type), "wire type 3 in field 1");
  refused(WireReader(reserved).ReadTag(&field, &type), "wire type 7 in field 1");
  refused(WireReader(big_field).ReadTag(&field, &type), "field number 536870912");
  refused(WireReader("abc").ReadVarintField(WireType::kBytes, &number), "wire type 2 where 0 is expected");
  refused(WireReader("abc").ReadBytesField(WireType::kVarint, &view), "wire type 0 where 2 is expected");
  refused(WireReader("abc").Skip(static_cast<WireType>(4)), "wire type 4");
  EXPECT_EQ(number, 77u);
  EXPECT_EQ(view, "before");
  EXPECT_EQ(field, 77u);
  EXPECT_EQ(type, WireType::kFixed32);
}

TEST(WireReaderTest, RandomBytesNeverLeadOutOfBounds) {
  Rng rng(12);
  int good = 0;
  for (int round = 0; round < 50'000; ++round) {
    std::string noise(rng.Below(24), '\0');
    for (char& c : noise) c = static_cast<char>(rng.Chance(0.5) ? rng.Below(32) : rng.Below(256));
    const Exact exact(noise);
    const absl::Status status = ReadAll(exact.view());
    ASSERT_TRUE(status.ok() || status.code() == absl::StatusCode::kDataLoss) << status;
    good += status.ok() ? 1 : 0;
  }
  EXPECT_GT(good, 0);
  EXPECT_LT(good, 50'000);
}

TEST(VarintDeathTest, AFieldNumberOutOfRangeIsABrokenInvariant) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  std::string out;
  EXPECT_DEATH(AppendVarintField(&out, 0, 1), "field 0");
  EXPECT_DEATH(AppendVarintField(&out, kWireFieldMax + 1, 1), "field 536870912");
}

}  // namespace
}  // namespace spillway
