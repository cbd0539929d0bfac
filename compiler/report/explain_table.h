// explain_table.h: columns of text, as wide as what they hold.
#ifndef MDL_COMPILER_REPORT_EXPLAIN_TABLE_H
#define MDL_COMPILER_REPORT_EXPLAIN_TABLE_H

#include "base/array.h"
#include "base/buffer.h"

enum { TABLE_MAX_COLUMNS = 16 };

typedef struct {
  const char *cell[TABLE_MAX_COLUMNS];
} TableRow;

typedef struct {
  Arena *arena;
  const char *columns;  // one letter each: l left, r right
  ARRAY(TableRow) rows;
} Table;

Table table_make(Arena *arena, const char *columns);

// The next cell; a row is full when every column has one. The text must live as long as the table, NULL is empty.
void table_cell(Table *table, const char *text);
void table_format(Table *table, const char *format, ...) __attribute__((format(printf, 2, 3)));
void table_bytes(Table *table, double bytes);

// Indented by two; columns that are empty everywhere but in `header` rows at the top are left out.
void table_print(const Table *table, int header, Buffer *out);

#endif
