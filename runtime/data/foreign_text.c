// foreign_text.c: packed files and files of tokens are known by their first bytes, which no text begins with.
#include "runtime/data/foreign_text.h"

#include <string.h>

#include "runtime/data/token_file.h"
#include "runtime/io.h"

typedef struct {
  const char *bytes;
  size_t count;
  const char *what, *unpack;  // the command that writes the text to stdout; NULL: there is none
  size_t at;                  // where these bytes are
  bool encodes;               // `mdl data encode` unpacks it by itself
} Packed;

static const Packed packed[] = {
    {"\x1f\x8b", 2, "packed by gzip", "gzip -dc", 0, true},
    {"\x28\xb5\x2f\xfd", 4, "packed by zstd", "zstd -dc", 0, true},
    {"P*M\x18", 4, "packed by zstd", "zstd -dc", 0, true},  // as pzstd begins
    {"\xfd\x37zXZ\0", 6, "packed by xz", "xz -dc", 0, true},
    {"PK\3\4", 4, "an archive of zip", "unzip -p", 0, false},
    {"ustar", 5, "an archive of tar", "tar -xOf", 257, false},
    {"\xff\xfe", 2, "UTF-16", "iconv -f utf-16 -t utf-8", 0, false},
    {"\xfe\xff", 2, "UTF-16", "iconv -f utf-16 -t utf-8", 0, false},
    {"%PDF-", 5, "a PDF", "pdftotext -", 0, false},
    {"PAR1", 4, "Parquet", NULL, 0, false},
    {"\x7f"
     "ELF",
     4, "a program", NULL, 0, false},
    {"\x80\2", 2, "a pickle", NULL, 0, false},
    {"\x80\3", 2, "a pickle", NULL, 0, false},
    {"\x80\4", 2, "a pickle", NULL, 0, false},
    {"\x80\5", 2, "a pickle", NULL, 0, false},
    {"\x93NUMPY", 6, "an array of numpy.save", NULL, 0, false},
    {"\x89PNG", 4, "a picture", NULL, 0, false},
    {"\xff\xd8\xff", 3, "a picture", NULL, 0, false},
    {"ARROW1", 6, "a table of Arrow", NULL, 0, false},
    {"\x89HDF\r\n", 6, "a file of HDF5", NULL, 0, false},
    {"SQLite format 3", 15, "a database of SQLite", NULL, 0, false},
};

// What stands in place of a file in a repository.
static bool is_pointer(const char *begin) {
  static const char version[] = "version https://git-lfs";
  return memcmp(begin, version, sizeof version - 1) == 0;
}

// "BZh", its level, and the first digits of pi: three letters alone may begin a text.
static bool is_bzip2(const char *begin) {
  return memcmp(begin, "BZh", 3) == 0 && begin[3] >= '1' && begin[3] <= '9' && memcmp(begin + 4, "1AY&SY", 6) == 0;
}

// What `mdl data encode` unpacks itself.
static bool encode_error(const char *path, const char *what, Error *error) {
  char from[IO_PATH_MAX];
  return error_set(error, 1,
                   "%s is %s, which recipes do not read; make tokens of it first: `mdl data encode %s -o tokens.bin`",
                   path, what, buffer_word(from, sizeof from, path));
}

static bool packed_error(const char *path, const char *what, const char *unpack, Error *error) {
  // Into a file of its own: whoever copies that line loses no other text, nor this file.
  char text[IO_PATH_MAX], from[IO_PATH_MAX], to[IO_PATH_MAX];
  snprintf(text, sizeof text, "%s.txt", path);
  return unpack ? error_set(error, 1, "%s is %s, not text; unpack it first: `%s %s > %s`", path, what, unpack,
                            buffer_word(from, sizeof from, path), buffer_word(to, sizeof to, text))
                : error_set(error, 1, "%s is %s, not text; write its text as lines of JSON first, {\"text\": \"...\"}",
                            path, what);
}

bool foreign_text_check(const char *path, const char *text, size_t length, bool packs, Error *error) {
  char begin[FOREIGN_TEXT_LOOK] = "";
  int32_t header[2];
  memcpy(begin, text, length < sizeof begin ? length : sizeof begin);
  for (size_t i = 0; i < sizeof packed / sizeof *packed; i++) {
    const size_t at = packed[i].at;
    if (length >= at + packed[i].count && memcmp(begin + at, packed[i].bytes, packed[i].count) == 0) {
      return !packs && packed[i].encodes ? encode_error(path, packed[i].what, error)
                                         : packed_error(path, packed[i].what, packed[i].unpack, error);
    }
  }
  if (is_pointer(begin)) {
    return error_set(error, 1,
                     "%s is a pointer of Git LFS, whose file was not fetched, not text; fetch it first: `git lfs pull`",
                     path);
  }
  if (is_bzip2(begin)) {
    return packed_error(path, "packed by bzip2", "bzip2 -dc", error);
  }
  memcpy(header, begin, sizeof header);
  const bool narrow = header[0] == LLMC_U16 && header[1] == LLMC_U16_VERSION;
  if (narrow || (header[0] == LLMC_U32 && header[1] == LLMC_U32_VERSION)) {
    char string[IO_PATH_MAX];
    return error_set(error, 1, "%s is a file of tokens of llm.c, not text; a recipe reads it by `data tokens(%s);`",
                     path, buffer_string(string, sizeof string, path));
  }
  return true;
}
