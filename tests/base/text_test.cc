#include "base/text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace spillway {
namespace {

const std::vector<std::string> kKeys = {"name", "command", "resources", "checkpoint", "retry"};

TEST(NearestNameTest, FindsTheMisspeltName) {
  EXPECT_EQ(NearestName("comand", kKeys), "command");
  EXPECT_EQ(NearestName("chekpiont", kKeys), "checkpoint");
  EXPECT_EQ(NearestName("retry", kKeys), "retry");
  EXPECT_EQ(NearestName("retries", kKeys), "");  // distance 3, at most 2
}

TEST(NearestNameTest, LongNamesMayBeFurtherOff) {
  EXPECT_EQ(NearestName("ressourcess", kKeys), "resources");            // distance 2
  EXPECT_EQ(NearestName("resourxxxcesx", {"resources"}), "resources");  // distance 4 of 13 letters
  EXPECT_EQ(NearestName("resourxxxxcesx", {"resources"}), "");          // distance 5 of 14
}

TEST(NearestNameTest, NothingNearIsNothing) {
  EXPECT_EQ(NearestName("placement", kKeys), "");
  EXPECT_EQ(NearestName("x", {}), "");
  EXPECT_EQ(NearestName("", {"abc"}), "");
  EXPECT_EQ(NearestName(std::string(1 << 20, 'x'), kKeys), "");
}

TEST(NearestNameTest, TiesGoToTheOneThatBeginsAlikeThenToTheFirst) {
  EXPECT_EQ(NearestName("cpu", {"gpu", "cpus"}), "cpus");
  EXPECT_EQ(NearestName("gpus", {"cpus", "gpu"}), "gpu");
  EXPECT_EQ(NearestName("cat", {"bat", "hat"}), "bat");
  EXPECT_EQ(NearestName("cat", {"hat", "bat"}), "hat");
  EXPECT_EQ(NearestName("cat", {"hats", "bat"}), "bat");  // but a nearer one wins
}

TEST(PrintableTest, PlainTextAndValidUtf8Pass) {
  EXPECT_EQ(Printable("plain \\ text"), "plain \\ text");
  EXPECT_EQ(Printable("任务 é 🙂"), "任务 é 🙂");
  EXPECT_EQ(Printable(""), "");
}

TEST(PrintableTest, WhatSteersATerminalIsEscaped) {
  EXPECT_EQ(Printable("a\nb\tc\x1b[31m\x7f"), "a\\x0ab\\x09c\\x1b[31m\\x7f");
  EXPECT_EQ(Printable(absl::string_view("\0", 1)), "\\x00");
  EXPECT_EQ(Printable("\xc2\x9b"
                      "31m"),
            "\\xc2\\x9b31m");  // C1: CSI
  EXPECT_EQ(Printable("a\xe2\x80\xae"
                      "b"),
            "a\\xe2\\x80\\xae"
            "b");  // right-to-left override
}

TEST(PrintableTest, BrokenUtf8IsEscapedByteByByte) {
  EXPECT_EQ(Printable("\xff"), "\\xff");
  EXPECT_EQ(Printable("\xe4\xbb"), "\\xe4\\xbb");           // cut short
  EXPECT_EQ(Printable("\xc0\xaf"), "\\xc0\\xaf");           // overlong
  EXPECT_EQ(Printable("\xed\xa0\x80"), "\\xed\\xa0\\x80");  // surrogate
  EXPECT_EQ(Printable("\xf5\x80\x80\x80"), "\\xf5\\x80\\x80\\x80");
}

TEST(PrintableTest, CutsAtTheLimitBetweenCharacters) {
  EXPECT_EQ(Printable("abcdef", 6), "abcdef");
  EXPECT_EQ(Printable("abcdefg", 6), "abcdef...");
  EXPECT_EQ(Printable("任务", 5), "任...");
  EXPECT_EQ(Printable("abc\n", 6), "abc...");
  EXPECT_EQ(Printable("a", 0), "...");
  EXPECT_LE(Printable(std::string(1'000, '\n')).size(), 203u);
}

TEST(TerminalTextTest, ColoursAndLinesPass) {
  TerminalText text;
  EXPECT_EQ(text.Next("a\tb\r\n\x1b[1;31mred\x1b[0m 任务\n"), "a\tb\r\n\x1b[1;31mred\x1b[0m 任务\n");
  EXPECT_EQ(text.Rest(), "");
}

TEST(TerminalTextTest, WhatSteersIsShown) {
  TerminalText text;
  EXPECT_EQ(text.Next("\x1b]0;title\a"), "\\x1b]0;title\\x07");
  EXPECT_EQ(text.Next("\x1b[2J\b"), "\\x1b[2J\\x08");
  EXPECT_EQ(text.Next("\x1b[m\x1b[\x1b[0m"), "\x1b[m\\x1b[\x1b[0m");
  EXPECT_EQ(text.Next("\xc2\x9b"
                      "2J \xff \xe2\x80\xae"),
            "\\xc2\\x9b"
            "2J \\xff \\xe2\\x80\\xae");
  EXPECT_EQ(text.Next("\x1b[" + std::string(100, '1') + "m"), "\\x1b[" + std::string(100, '1') + "m");
}

TEST(TerminalTextTest, NoMatterWhereItIsCut) {
  const std::string all = "x\x1b[32mgreen\x1b[0m 任务 🙂 \x1b[2J\x1b]0;t\a \xff\n";
  TerminalText whole;
  const std::string expected = whole.Next(all) + whole.Rest();
  for (size_t size = 1; size < all.size(); ++size) {
    TerminalText text;
    std::string out;
    for (size_t at = 0; at < all.size(); at += size) out += text.Next(all.substr(at, size));
    EXPECT_EQ(out + text.Rest(), expected) << "pieces of " << size;
  }
  TerminalText cut;
  EXPECT_EQ(cut.Next("a\xe4\xbb"), "a");
  EXPECT_EQ(cut.Rest(), "\\xe4\\xbb");
}

}  // namespace
}  // namespace spillway
