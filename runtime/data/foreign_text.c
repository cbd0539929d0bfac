// foreign_text.c: packed files and files of tokens are known by their first bytes, which no text begins with.
#include "runtime/data/foreign_text.h"

#include <string.h>

#include "runtime/data/token_file.h"
#include "runtime/data/unpack.h"
#include "runtime/io.h"

typedef struct {
  const char *bytes;
  size_t count;
  const char *what, *unpack;  // the command that writes the text to stdout; NULL: there is none
  size_t at;                  // where these bytes are
  bool encodes;               // `mdl data encode` unpacks it by itself
  const char *to;             // what the command has behind the file, to write to stdout; or NULL
} Packed;

static const Packed packed[] = {
    {"\x1f\x8b", 2, "packed by gzip", "gzip -dc", 0, true, NULL},
    {"\x28\xb5\x2f\xfd", 4, "packed by zstd", "zstd -dc", 0, true, NULL},
    {"\x50\x2a\x4d\x18", 4, "packed by zstd", "zstd -dc", 0, true, NULL},  // by pzstd
    {"\xfd\x37zXZ\0", 6, "packed by xz", "xz -dc", 0, true, NULL},
    {"PK\3\4", 4, "an archive of zip", "unzip -p", 0, false, NULL},
    {"ustar", 5, "an archive of tar", "tar -xOf", 257, false, NULL},
    {"\xff\xfe", 2, "UTF-16", "iconv -f utf-16 -t utf-8", 0, false, NULL},
    {"\xfe\xff", 2, "UTF-16", "iconv -f utf-16 -t utf-8", 0, false, NULL},
    {"%PDF-", 5, "a PDF", "pdftotext", 0, false, " -"},
    {"PAR1", 4, "Parquet", NULL, 0, false, NULL},
    {"\x7f"
     "ELF",
     4, "a program", NULL, 0, false, NULL},
    {"\x80\2", 2, "a pickle", NULL, 0, false, NULL},
    {"\x80\3", 2, "a pickle", NULL, 0, false, NULL},
    {"\x80\4", 2, "a pickle", NULL, 0, false, NULL},
    {"\x80\5", 2, "a pickle", NULL, 0, false, NULL},
    {"\x93NUMPY", 6, "an array of numpy.save", NULL, 0, false, NULL},
    {"\x89PNG", 4, "a picture", NULL, 0, false, NULL},
    {"\xff\xd8\xff", 3, "a picture", NULL, 0, false, NULL},
    {"ARROW1", 6, "a table of Arrow", NULL, 0, false, NULL},
    {"\x89HDF\r\n", 6, "a file of HDF5", NULL, 0, false, NULL},
    {"SQLite format 3", 15, "a database of SQLite", NULL, 0, false, NULL},
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

// A file of its own for the text: whoever copies the line loses no other text, nor this file.
static void text_name(const char *path, bool text, char name[static IO_PATH_MAX]) {
  const char *slash = strrchr(path, '/'), *dot = strrchr(slash ? slash : path, '.');
  if (text) {  // it is what its ending says, in other bytes
    const int before = dot ? (int)(dot - path) : (int)strlen(path);
    snprintf(name, IO_PATH_MAX, "%.*s.utf8%s", before, path, dot ? dot : "");
  } else {
    snprintf(name, IO_PATH_MAX, "%s.txt", path);
  }
}

static bool packed_error(const char *path, const Packed *by, Error *error) {
  char text[IO_PATH_MAX], from[IO_PATH_MAX], to[IO_PATH_MAX];
  const char *behind = by->to ? by->to : "";
  const bool other = strcmp(by->what, "UTF-16") == 0;
  const char *first = other || by->to ? "convert" : "unpack";
  text_name(path, other, text);
  if (!by->unpack) {
    return error_set(error, 1, "%s is %s, not text; write its text as lines of JSON first, {\"text\": \"...\"}", path,
                     by->what);
  }
  if (strcmp(path, UNPACK_STDIN_NAME) == 0) {
    return error_set(error, 1, "%s is %s, not %s; %s it first, as `%s FILE%s` does", path, by->what,
                     other ? "UTF-8" : "text", first, by->unpack, behind);
  }
  return error_set(error, 1, "%s is %s, not %s; %s it first: `%s %s%s > %s`", path, by->what, other ? "UTF-8" : "text",
                   first, by->unpack, buffer_word(from, sizeof from, path), behind, buffer_word(to, sizeof to, text));
}

bool foreign_text_check(const char *path, const char *text, size_t length, bool packs, Error *error) {
  char begin[FOREIGN_TEXT_LOOK] = "";
  int32_t header[2];
  memcpy(begin, text, length < sizeof begin ? length : sizeof begin);
  for (size_t i = 0; i < sizeof packed / sizeof *packed; i++) {
    const size_t at = packed[i].at;
    if (length >= at + packed[i].count && memcmp(begin + at, packed[i].bytes, packed[i].count) == 0) {
      return !packs && packed[i].encodes ? encode_error(path, packed[i].what, error)
                                         : packed_error(path, &packed[i], error);
    }
  }
  if (is_pointer(begin)) {
    return error_set(error, 1,
                     "%s is a pointer of Git LFS, whose file was not fetched, not text; fetch it first: `git lfs pull`",
                     path);
  }
  if (is_bzip2(begin)) {
    static const Packed bzip2 = {.what = "packed by bzip2", .unpack = "bzip2 -dc"};
    return packed_error(path, &bzip2, error);
  }
  if (memcmp(begin, TOKEN_INDEX_MAGIC, sizeof TOKEN_INDEX_MAGIC) == 0) {
    char string[IO_PATH_MAX];
    return error_set(error, 1,
                     "%s is an index of Megatron, not text; a recipe reads it, and the tokens beside it, by `data "
                     "tokens(%s);`",
                     path, strcmp(path, UNPACK_STDIN_NAME) == 0 ? "FILE" : buffer_string(string, sizeof string, path));
  }
  memcpy(header, begin, sizeof header);
  const bool narrow = header[0] == LLMC_U16 && header[1] == LLMC_U16_VERSION;
  if (narrow || (header[0] == LLMC_U32 && header[1] == LLMC_U32_VERSION)) {
    char string[IO_PATH_MAX];
    return error_set(error, 1, "%s is a file of tokens of llm.c, not text; a recipe reads it by `data tokens(%s);`",
                     path, strcmp(path, UNPACK_STDIN_NAME) == 0 ? "FILE" : buffer_string(string, sizeof string, path));
  }
  return true;
}
