// explain_overlap.c: what ranks say to each other in a step takes how long, and how much of that nothing hides.
#include "base/units.h"
#include "compiler/report/explain_part.h"

void explain_exposures(const Explain *explain, Exposure *of) {
  const PlanSpans *spans = plan_simulate(explain->arena, explain->set, &plan_rates);
  for (int s = 0; s < explain->set->count; s++) {
    exposure_find(explain->arena, explain->set->plans[s], spans[s].at, spans[s].count, &of[s]);
  }
}

static void add_row(const Explain *explain, Table *table, const char *over, const ExposedMesh *mesh, int stage) {
  table_cell(table, over);
  table_bytes(table, mesh->bytes);
  table_format(table, "%.3g ms", mesh->seconds * 1e3);
  table_format(table, "%.3g ms", mesh->exposed * 1e3);
  table_format(table, "%.0f%%", mesh->seconds > 0 ? 100 * mesh->exposed / mesh->seconds : 0);
  table_cell(table, explain->set->count > 1 ? arena_format(explain->arena, "%d", stage) : "");
}

// Over the same mesh axes, of the stage of which most is exposed; NULL: no stage communicates over them.
static const ExposedMesh *worst_over(const Explain *explain, const Exposure *of, uint32_t mesh, int *stage) {
  const ExposedMesh *worst = NULL;
  for (int s = 0; s < explain->set->count; s++) {
    for (int m = 0; m < of[s].count; m++) {
      if (of[s].mesh[m].mesh == mesh && (!worst || of[s].mesh[m].exposed > worst->exposed)) {
        worst = &of[s].mesh[m];
        *stage = s;
      }
    }
  }
  return worst;
}

void explain_overlap(const Explain *explain, Buffer *out) {
  static const char *const header[] = {"over", "sent by a rank", "time", "exposed", "of it", "of stage"};
  const int stages = explain->set->count;
  Exposure *of = ARENA_ARRAY(explain->arena, Exposure, stages);
  Table table = table_make(explain->arena, "lrrrrr");
  ExposedMesh together = {0};
  double step = 0;
  int stage = 0, rows = 0, worst = 0;
  explain_exposures(explain, of);
  for (int i = 0; i < 6; i++) {
    table_cell(&table, header[i]);
  }
  for (uint32_t mesh = 0; mesh >> explain_first(explain)->mesh_count == 0; mesh++) {
    const ExposedMesh *at = worst_over(explain, of, mesh, &stage);
    if (at) {
      add_row(explain, &table, explain_mesh(explain->arena, explain_first(explain), mesh), at, stage);
      rows++;
    }
  }
  for (int s = 0; s < stages; s++) {
    step = of[s].step > step ? of[s].step : step;
    if (s == 0 || of[s].exposed > together.exposed) {
      together = (ExposedMesh){.seconds = of[s].seconds, .exposed = of[s].exposed};
      worst = s;
    }
  }
  if (rows > 1) {
    add_row(explain, &table, "together", &together, worst);
  }
  buffer_format(out,
                "\ncommunication that nothing hides, reckoned for %ss: products %.0f TFLOP/s in 16 bits, memory %.1f "
                "TB/s, %.0f GB/s to other ranks\n",
                plan_rates.gpu, plan_rates.flops_16 / 1e12, plan_rates.bytes / 1e12, plan_rates.sent / 1e9);
  table_print(&table, 1, out);
  buffer_format(out, "  a step takes %.4g ms\n", step * 1e3);
}
