// explain_compressed.c: which collectives carry 8 bits by the layout, and what that saves; which do not, and why.
#include "base/units.h"
#include "compiler/report/explain_part.h"

static double bytes_before(const ViewStage *stage) {
  double bytes = 0;
  for (int i = 0; i < stage->compressed.count; i++) {
    bytes += stage->compressed.at[i].before;
  }
  return bytes;
}

static const char *phase_name(const ViewCompressed *compressed) {
  return compressed->backward ? "backward" : "forward";
}

void explain_compressed(const Explain *explain, Buffer *out) {
  const CompileView *view = explain->view;
  int most = 0;
  for (int s = 1; s < view->stages.count; s++) {
    most = bytes_before(&view->stages.at[s]) > bytes_before(&view->stages.at[most]) ? s : most;
  }
  const ViewStage *stage = &view->stages.at[most];
  if (stage->compressed.count == 0) {
    return;
  }
  Table table = table_make(explain->arena, "llrlrrl");
  const char *const header[] = {"", "collective", "number", "over", "as computed", "sent", "not compressed, because"};
  for (int i = 0; i < 7; i++) {
    table_cell(&table, header[i]);
  }
  double before = 0, after = 0;
  for (int backward = 0; backward < 2; backward++) {
    for (int i = 0; i < stage->compressed.count; i++) {
      const ViewCompressed *compressed = &stage->compressed.at[i];
      if (compressed->backward != (backward != 0)) {
        continue;
      }
      before += compressed->before;
      after += compressed->after;
      table_cell(&table, phase_name(compressed));
      table_cell(&table, op_name(compressed->op));
      table_format(&table, "%d", compressed->count);
      table_cell(&table, explain_mesh(explain->arena, explain_first(explain), compressed->mesh));
      table_bytes(&table, compressed->before);
      table_bytes(&table, compressed->after);
      table_cell(&table, compressed->why ? compressed->why : "");
    }
  }
  char from[UNITS_MAX], to[UNITS_MAX];
  buffer_format(out, "\ncollectives that `compress` selects, and what one rank sends for them in a step: %s become %s",
                units_bytes(from, before), units_bytes(to, after));
  buffer_text(out,
              view->stages.count > 1 ? arena_format(explain->arena, "; stage %d, which sends most\n", most) : "\n");
  table_print(&table, 1, out);
}
