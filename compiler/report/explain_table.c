// explain_table.c: columns of text, as wide as what they hold.
#include "compiler/report/explain_table.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/units.h"

Table table_make(Arena *arena, const char *columns) {
  return (Table){.arena = arena, .columns = columns};
}

void table_cell(Table *table, const char *text) {
  size_t columns = strlen(table->columns), at = 0;
  TableRow *row = table->rows.count ? &table->rows.at[table->rows.count - 1] : NULL;
  while (row && at < columns && row->cell[at]) {
    at++;
  }
  if (!row || at == columns) {
    array_push(table->arena, &table->rows, ((TableRow){{0}}));
    row = &table->rows.at[table->rows.count - 1];
    at = 0;
  }
  row->cell[at] = text ? text : "";
}

void table_format(Table *table, const char *format, ...) {
  char text[512];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  table_cell(table, arena_format(table->arena, "%s", text));
}

void table_bytes(Table *table, double bytes) {
  char text[UNITS_MAX];
  table_format(table, "%s", bytes > 0 ? units_bytes(text, bytes) : "-");
}

static int width_of(const Table *table, int column, int from) {
  int width = 0;
  for (int i = from; i < table->rows.count; i++) {
    const char *text = table->rows.at[i].cell[column];
    int length = text ? (int)strlen(text) : 0;
    width = length > width ? length : width;
  }
  return width;
}

void table_print(const Table *table, int header, Buffer *out) {
  int columns = (int)strlen(table->columns), width[TABLE_MAX_COLUMNS];
  for (int c = 0; c < columns; c++) {
    width[c] = width_of(table, c, header) > 0 ? width_of(table, c, 0) : 0;
  }
  for (int i = 0; i < table->rows.count; i++) {
    int owed = 2;  // spaces before the next cell: none at the end of a line
    for (int c = 0; c < columns; c++) {
      const char *text = table->rows.at[i].cell[c] ? table->rows.at[i].cell[c] : "";
      if (width[c] == 0) {
        continue;
      }
      int rest = width[c] - (int)strlen(text);
      owed += table->columns[c] == 'r' ? rest : 0;
      if (*text) {
        buffer_repeat(out, ' ', owed);
        buffer_text(out, text);
        owed = 0;
      } else {
        rest = table->columns[c] == 'r' ? 0 : rest;
      }
      owed += (table->columns[c] == 'r' ? 0 : rest) + 2;
    }
    buffer_text(out, "\n");
  }
}
