// schedule_chart.c: layout of the picture of a pipeline: rows, boxes, steps, labels.
#include "compiler/report/schedule_chart.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/units.h"

enum { LEAST_WIDTH = 960, MOST_WIDTH = 1440, LEFT = 84, RIGHT = 84, TOP = 116, BETWEEN = 78, BOTTOM = 24 };
enum { ROWS_HEIGHT = 500, LEAST_ROW = 9, MOST_ROW = 30 };  // pixels

// Colours of light pages, then of dark ones; as in runtime/chart.c, drawn with classes alone.
static const char style[] =
    "<style>\n"
    "text{font-family:Inter,'Segoe UI',Roboto,'Helvetica Neue',Helvetica,Arial,'Liberation Sans',sans-serif;"
    "font-size:13px;fill:#5c6370}\n"
    ".back{fill:#ffffff}.title{font-size:21px;font-weight:600;fill:#1c2028}.big{font-size:27px;font-weight:600;"
    "fill:#c2410c}\n"
    ".axis{stroke:#b9bfc9;stroke-width:1;fill:none}.idle{fill:#eceff3}\n"
    ".F{fill:#8fb2f4}.B{fill:#86cfae}.W{fill:#f3c27a}\n"
    ".number{font-size:11px;fill:#1c2028;text-anchor:middle}\n"
    ".held{fill:#8e83d8;fill-opacity:.28}.line{stroke:#6d5fc7;stroke-width:1.25;stroke-linejoin:round;fill:none}\n"
    "@media (prefers-color-scheme:dark){\n"
    "text{fill:#9aa3b2}.back{fill:#14171c}.title{fill:#eceff4}.big{fill:#fb923c}\n"
    ".axis{stroke:#4b5361}.idle{fill:#20252d}\n"
    ".F{fill:#4269b4}.B{fill:#35805f}.W{fill:#a87426}\n"
    ".number{fill:#f3f5f8}.line{stroke:#a79df0}\n"
    "}\n"
    "</style>\n";

typedef struct {
  Buffer *out;
  const Schedule *schedule;
  const ScheduleTimes *times;
  const ScheduleChart *facts;
  int width, height, row, gap;  // pixels; a row is without the gap below it
  int memory;                   // where the second panel begins
  double scale;                 // pixels of a second
} Chart;

static double x_of(const Chart *chart, double time) {
  return LEFT + chart->scale * time;
}

static int rows_height(const Chart *chart) {
  return chart->schedule->stages * (chart->row + chart->gap) - chart->gap;
}

static int y_of(const Chart *chart, int top, int stage) {
  return top + stage * (chart->row + chart->gap);
}

// The round number (1, 2 or 5 times a power of ten) nearest above range / pieces.
static double tick_of(double range, int pieces) {
  double raw = range / pieces, power = pow(10, floor(log10(raw))), parts = raw / power;
  return power * (parts <= 1 ? 1 : parts <= 2 ? 2 : parts <= 5 ? 5 : 10);
}

static double number_width(int number) {  // with room on both sides
  return 6.5 * (number < 10 ? 1 : number < 100 ? 2 : 3) + 5;
}

static double shortest(const Chart *chart) {
  double least = INFINITY;
  for (int s = 0; s < chart->schedule->stages; s++) {
    for (int i = 0; i < chart->schedule->action[s].count; i++) {
      double seconds = chart->times->action[s][i].end - chart->times->action[s][i].start;
      least = seconds > 0 ? fmin(least, seconds) : least;
    }
  }
  return least;
}

// As wide as it takes to write numbers into the boxes, but not wider than a page; rows as high as there is room for.
static void chart_layout(Chart *chart) {
  double makespan = fmax(chart->times->makespan, 1e-12);
  double wanted = number_width(chart->schedule->microbatches - 1) * makespan / shortest(chart) + 1;
  chart->width = (int)fmax(LEAST_WIDTH, fmin(MOST_WIDTH, LEFT + RIGHT + wanted));
  chart->scale = (chart->width - LEFT - RIGHT) / makespan;
  int pitch = ROWS_HEIGHT / chart->schedule->stages;
  pitch = pitch < LEAST_ROW ? LEAST_ROW : pitch > MOST_ROW ? MOST_ROW : pitch;
  chart->gap = pitch < 16 ? 2 : pitch < 24 ? 4 : 6;
  chart->row = pitch - chart->gap;
  chart->memory = TOP + rows_height(chart) + BETWEEN;
  chart->height = chart->memory + rows_height(chart) + BOTTOM;
}

// Chunks are shades, the first the palest.
static double shade(const Schedule *schedule, int chunk) {
  return schedule->chunks == 1 ? 1 : 0.45 + 0.55 * chunk / (schedule->chunks - 1);
}

static const char *const kind_class[] = {"F", "B", "W"};

static bool kind_drawn(const Chart *chart, int kind) {
  return kind != ACTION_WEIGHTS || chart->schedule->weights;
}

static double chart_swatch(Chart *chart, double x, const char *text, int kind) {
  const Schedule *schedule = chart->schedule;
  int pieces = kind < 0 ? 1 : schedule->chunks, width = pieces < 4 ? 18 : pieces < 12 ? 6 * pieces : 72;
  for (int c = 0; c < pieces; c++) {
    double opacity = kind < 0 ? 1 : shade(schedule, c);
    buffer_format(chart->out,
                  "<rect class=\"%s\" x=\"%.1f\" y=\"%d\" width=\"%.1f\" height=\"12\" fill-opacity=\"%.2f\"/>",
                  kind < 0 ? "idle" : kind_class[kind], x + (double)width * c / pieces, TOP - 32,
                  (double)width / pieces, opacity);
  }
  buffer_format(chart->out, "<text x=\"%.1f\" y=\"%d\">%s</text>\n", x + width + 7, TOP - 21, text);
  return x + width + 7 + 7.2 * (double)strlen(text) + 18;
}

static void chart_legend(Chart *chart) {
  const Schedule *schedule = chart->schedule;
  static const char *const texts[] = {"forward", "backward", "weight gradients"};
  double x = LEFT;
  for (int kind = 0; kind < ACTION_KIND_COUNT; kind++) {
    if (kind_drawn(chart, kind)) {
      bool whole = kind != ACTION_BACKWARD || !schedule->weights;
      x = chart_swatch(chart, x, whole ? texts[kind] : "input gradients", kind);
    }
  }
  x = chart_swatch(chart, x, "idle", -1);
  if (schedule->chunks > 1) {
    buffer_format(chart->out, "<text x=\"%.1f\" y=\"%d\">pale to full: chunks 0 to %d</text>\n", x, TOP - 21,
                  schedule->chunks - 1);
  }
}

static void chart_title(Chart *chart) {
  Buffer *out = chart->out;
  int right = chart->width - 24;
  buffer_format(out, "<text class=\"title\" x=\"%d\" y=\"36\">", LEFT);
  buffer_xml(out, chart->facts->title);
  buffer_format(out, "</text>\n<text x=\"%d\" y=\"57\">", LEFT);
  buffer_xml(out, chart->facts->subtitle);
  buffer_format(out, "</text>\n<text class=\"big\" x=\"%d\" y=\"38\" text-anchor=\"end\">%.1f%%</text>\n", right,
                100 * fabs(chart->times->bubble));
  buffer_format(out, "<text x=\"%d\" y=\"57\" text-anchor=\"end\">of the time of the stages is idle</text>\n", right);
}

static void chart_axis(Chart *chart) {
  Buffer *out = chart->out;
  double makespan = chart->times->makespan, factor = 1;
  const char *unit = chart->facts->unit;
  if (!unit) {
    unit = makespan >= 1 ? "seconds" : makespan >= 1e-3 ? "milliseconds" : "microseconds";
    factor = makespan >= 1 ? 1 : makespan >= 1e-3 ? 1e3 : 1e6;
  }
  int y = TOP + rows_height(chart) + 6;
  double tick = tick_of(fmax(makespan * factor, 1e-12), 8);
  buffer_format(out, "<path class=\"axis\" d=\"M%d %d.5H%d", LEFT, y, chart->width - RIGHT);
  for (int i = 0; i * tick <= makespan * factor * (1 + 1e-9); i++) {
    buffer_format(out, "M%.1f %dv5", round(x_of(chart, i * tick / factor)) + 0.5, y);
  }
  buffer_text(out, "\"/>\n");
  for (int i = 0; i * tick <= makespan * factor * (1 + 1e-9); i++) {
    buffer_format(out, "<text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">%g</text>\n", x_of(chart, i * tick / factor),
                  y + 20, i * tick);
  }
  buffer_format(out, "<text x=\"%d\" y=\"%d\" text-anchor=\"end\">", chart->width - RIGHT, y + 38);
  buffer_xml(out, unit);
  buffer_text(out, "</text>\n");
}

// The name of a row on its left and a number on its right; where rows are low, only some.
static void chart_row(Chart *chart, int top, int stage, const char *number) {
  int every = (14 + chart->row + chart->gap - 1) / (chart->row + chart->gap);
  double y = y_of(chart, top, stage) + chart->row / 2.0 + 4.5;
  buffer_format(chart->out, "<rect class=\"idle\" x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\"/>\n", LEFT,
                y_of(chart, top, stage), chart->width - LEFT - RIGHT, chart->row);
  if (stage % every == 0) {
    buffer_format(chart->out, "<text x=\"%d\" y=\"%.1f\" text-anchor=\"end\">stage %d</text>", LEFT - 10, y, stage);
    buffer_format(chart->out, "<text x=\"%d\" y=\"%.1f\">%s</text>\n", chart->width - RIGHT + 10, y, number);
  }
}

// All boxes of one kind and chunk of a stage, as one path; a hair apart where they are wide enough.
static void chart_boxes(Chart *chart, int stage, int kind, int chunk) {
  const ActionList *list = &chart->schedule->action[stage];
  int y = y_of(chart, TOP, stage);
  buffer_format(chart->out, "<path class=\"%s\"", kind_class[kind]);
  if (chart->schedule->chunks > 1) {
    buffer_format(chart->out, " fill-opacity=\"%.2f\"", shade(chart->schedule, chunk));
  }
  buffer_text(chart->out, " d=\"");
  for (int i = 0; i < list->count; i++) {
    if ((int)list->at[i].kind == kind && list->at[i].chunk == chunk) {
      double begin = x_of(chart, chart->times->action[stage][i].start);
      double width = x_of(chart, chart->times->action[stage][i].end) - begin, apart = width > 5 ? 1 : 0.15 * width;
      buffer_format(chart->out, "M%.2f %dh%.2fv%dh-%.2fz", begin + apart / 2, y, width - apart, chart->row,
                    width - apart);
    }
  }
  buffer_text(chart->out, "\"/>\n");
}

static void chart_numbers(Chart *chart, int stage) {
  const ActionList *list = &chart->schedule->action[stage];
  double y = y_of(chart, TOP, stage) + chart->row / 2.0 + 4;
  for (int i = 0; chart->row >= 12 && i < list->count; i++) {
    int microbatch = list->at[i].microbatch;
    double begin = x_of(chart, chart->times->action[stage][i].start);
    double end = x_of(chart, chart->times->action[stage][i].end);
    if (end - begin >= number_width(microbatch)) {
      buffer_format(chart->out, "<text class=\"number\" x=\"%.1f\" y=\"%.1f\">%d</text>", (begin + end) / 2, y,
                    microbatch);
    }
  }
  buffer_text(chart->out, "\n");
}

static double held_by(const Chart *chart, int stage, const Action *action) {
  const double *activation = chart->facts->activation;
  return activation ? activation[action->chunk * chart->schedule->stages + stage] : 1;
}

// What an action adds to what is held when it begins, or gives back when it ends.
static double held_change(const Chart *chart, int stage, const Action *action, bool ends) {
  ActionKind last = chart->schedule->weights ? ACTION_WEIGHTS : ACTION_BACKWARD;
  return !ends && action->kind == ACTION_FORWARD ? held_by(chart, stage, action)
         : ends && action->kind == last          ? -held_by(chart, stage, action)
                                                 : 0;
}

static double held_peak(const Chart *chart, int stage) {
  double held = 0, peak = 0;
  for (int i = 0; i < chart->schedule->action[stage].count; i++) {
    held += held_change(chart, stage, &chart->schedule->action[stage].at[i], false);
    peak = fmax(peak, held);
    held += held_change(chart, stage, &chart->schedule->action[stage].at[i], true);
  }
  return peak;
}

// The corners of what a stage holds over time; changes at one moment are one.
static void held_corners(Chart *chart, int stage, double most) {
  const ActionList *list = &chart->schedule->action[stage];
  const ActionTime *times = chart->times->action[stage];
  int bottom = y_of(chart, chart->memory, stage) + chart->row, events = 2 * list->count;
  double held = 0, drawn = 0;
  for (int i = 0; i < events; i++) {
    double time = i % 2 ? times[i / 2].end : times[i / 2].start;
    double next = i + 1 == events ? INFINITY : i % 2 ? times[i / 2 + 1].start : times[i / 2].end;
    held += held_change(chart, stage, &list->at[i / 2], i % 2 == 1);
    if (held != drawn && next > time) {
      drawn = held;
      buffer_format(chart->out, "H%.2fV%.2f", x_of(chart, time), bottom - chart->row * fmax(held, 0) / most);
    }
  }
}

static void chart_held(Chart *chart, int stage, double most) {
  int bottom = y_of(chart, chart->memory, stage) + chart->row;
  double first = x_of(chart, chart->times->action[stage][0].start);
  buffer_format(chart->out, "<path class=\"held\" d=\"M%.2f %d", first, bottom);
  held_corners(chart, stage, most);
  buffer_format(chart->out, "Z\"/><path class=\"line\" d=\"M%.2f %d", first, bottom);
  held_corners(chart, stage, most);
  buffer_text(chart->out, "\"/>\n");
}

static void chart_memory(Chart *chart) {
  double most = 0;
  bool bytes = chart->facts->activation != NULL;
  char number[UNITS_MAX];
  for (int s = 0; s < chart->schedule->stages; s++) {
    most = fmax(most, held_peak(chart, s));
  }
  buffer_format(chart->out, "<text x=\"%d\" y=\"%d\">%s</text>\n", LEFT, chart->memory - 12,
                bytes ? "memory of saved values" : "microbatches whose values are saved");
  buffer_format(chart->out, "<text x=\"%d\" y=\"%d\">most</text>\n", chart->width - RIGHT + 10, chart->memory - 12);
  for (int s = 0; s < chart->schedule->stages; s++) {
    double peak = held_peak(chart, s);
    if (bytes) {
      units_bytes(number, peak);
    } else {
      units_count(number, peak);
    }
    chart_row(chart, chart->memory, s, number);
    chart_held(chart, s, most > 0 ? most : 1);
  }
}

void schedule_chart(const Schedule *schedule, const ScheduleTimes *times, const ScheduleChart *facts, Buffer *out) {
  Chart chart = {.out = out, .schedule = schedule, .times = times, .facts = facts};
  chart_layout(&chart);
  buffer_format(out,
                "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" width=\"%d\" height=\"%d\" "
                "role=\"img\">\n<title>",
                chart.width, chart.height, chart.width, chart.height);
  buffer_xml(out, facts->title);
  buffer_format(out, ": schedule</title>\n%s<rect class=\"back\" width=\"%d\" height=\"%d\"/>\n", style, chart.width,
                chart.height);
  chart_title(&chart);
  chart_legend(&chart);
  buffer_format(out, "<text x=\"%d\" y=\"%d\">idle</text>\n", chart.width - RIGHT + 10, TOP - 21);
  for (int s = 0; s < schedule->stages; s++) {
    char number[UNITS_MAX];
    snprintf(number, sizeof number, "%.1f%%", 100 * fabs(times->idle[s]));
    chart_row(&chart, TOP, s, number);
    for (int kind = 0; kind < ACTION_KIND_COUNT; kind++) {
      for (int chunk = 0; kind_drawn(&chart, kind) && chunk < schedule->chunks; chunk++) {
        chart_boxes(&chart, s, kind, chunk);
      }
    }
    chart_numbers(&chart, s);
  }
  chart_axis(&chart);
  chart_memory(&chart);
  buffer_text(out, "</svg>\n");
}
