// memory_chart.c: layout of the picture of a rank's memory: one curve, the calls of the step below it.
#include "compiler/report/memory_chart.h"

#include <math.h>
#include <stdint.h>

#include "base/units.h"

enum { WIDTH = 960, HEIGHT = 420, LEFT = 84, RIGHT = 24, TOP = 92, BOTTOM = 64, TICKS = 4, LEAST_LABEL = 80 };

// Colours of light pages, then of dark ones; as in schedule_chart.c.
static const char style[] =
    "<style>\n"
    "text{font-family:Inter,'Segoe UI',Roboto,'Helvetica Neue',Helvetica,Arial,'Liberation Sans',sans-serif;"
    "font-size:13px;fill:#5c6370}\n"
    ".back{fill:#ffffff}.title{font-size:21px;font-weight:600;fill:#1c2028}.big{font-size:27px;font-weight:600;"
    "fill:#c2410c}\n"
    ".axis{stroke:#b9bfc9;stroke-width:1;fill:none}.grid{stroke:#eceff3;stroke-width:1;fill:none}\n"
    ".held{fill:#8e83d8;fill-opacity:.28}.line{stroke:#6d5fc7;stroke-width:1.25;stroke-linejoin:round;fill:none}\n"
    "@media (prefers-color-scheme:dark){\n"
    "text{fill:#9aa3b2}.back{fill:#14171c}.title{fill:#eceff4}.big{fill:#fb923c}\n"
    ".axis{stroke:#4b5361}.grid{stroke:#20252d}.line{stroke:#a79df0}\n"
    "}\n"
    "</style>\n";

typedef struct {
  const MemoryChart *facts;
  Buffer *out;
  int64_t instructions;  // of the step, at least 1
  double most;           // bytes, at least 1
} Drawing;

static double x_of(const Drawing *d, int64_t instruction) {
  return LEFT + (WIDTH - LEFT - RIGHT) * (double)instruction / (double)d->instructions;
}

static double y_of(const Drawing *d, double bytes) {
  return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * bytes / d->most;
}

static void measure(Drawing *d) {
  for (int c = 0; c < d->facts->call_count; c++) {
    const MemoryCall *call = &d->facts->calls[c];
    d->instructions += call->count;
    for (int i = 0; i < call->count; i++) {
      d->most = fmax(d->most, d->facts->lasting + call->alive[i]);
    }
  }
  d->instructions = d->instructions > 0 ? d->instructions : 1;
  d->most = fmax(d->most, 1);
}

static void draw_title(const Drawing *d) {
  char number[UNITS_MAX];
  buffer_format(d->out, "<text class=\"title\" x=\"%d\" y=\"36\">", LEFT);
  buffer_xml(d->out, d->facts->title);
  buffer_format(d->out, "</text>\n<text x=\"%d\" y=\"57\">", LEFT);
  buffer_xml(d->out, d->facts->subtitle);
  buffer_format(d->out, "</text>\n<text class=\"big\" x=\"%d\" y=\"38\" text-anchor=\"end\">%s</text>\n", WIDTH - RIGHT,
                units_bytes(number, d->most));
  buffer_format(d->out,
                "<text x=\"%d\" y=\"57\" text-anchor=\"end\">live at most, beside parameters and state</text>\n",
                WIDTH - RIGHT);
}

static void draw_axes(const Drawing *d) {
  char number[UNITS_MAX];
  for (int i = 0; i <= TICKS; i++) {
    double bytes = d->most * i / TICKS, y = round(y_of(d, bytes)) + 0.5;
    buffer_format(d->out,
                  "<path class=\"%s\" d=\"M%d %.1fH%d\"/><text x=\"%d\" y=\"%.1f\" text-anchor=\"end\">%s</text>\n",
                  i ? "grid" : "axis", LEFT, y, WIDTH - RIGHT, LEFT - 8, y + 4, units_bytes(number, bytes));
  }
  buffer_format(d->out, "<text x=\"%d\" y=\"%d\" text-anchor=\"end\">%lld instructions</text>\n", WIDTH - RIGHT,
                HEIGHT - 12, (long long)d->instructions);
}

// Where each call begins, and its name where there is room.
static void draw_calls(const Drawing *d) {
  int64_t at = 0;
  for (int c = 0; c < d->facts->call_count; c++) {
    const MemoryCall *call = &d->facts->calls[c];
    double begin = x_of(d, at), end = x_of(d, at + call->count);
    buffer_format(d->out, "<path class=\"axis\" d=\"M%.1f %dv6\"/>", round(begin) + 0.5, HEIGHT - BOTTOM);
    if (end - begin >= LEAST_LABEL) {
      buffer_format(d->out, "<text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">", (begin + end) / 2,
                    HEIGHT - BOTTOM + 20);
      buffer_xml(d->out, call->name);
      buffer_text(d->out, "</text>\n");
    }
    at += call->count;
  }
}

// Returns the bytes that are drawn from here on.
static double draw_step(const Drawing *d, double x, double from, double to) {
  if (from != to) {
    buffer_format(d->out, "H%.0fV%.1f", x, y_of(d, to));
  }
  return to;
}

// Steps, of each pixel the highest.
static void draw_corners(const Drawing *d) {
  int64_t at = 0;
  double highest = 0, drawn = 0, column = floor(x_of(d, 0));
  for (int c = 0; c < d->facts->call_count; c++) {
    const MemoryCall *call = &d->facts->calls[c];
    for (int i = 0; i < call->count; i++, at++) {
      double x = floor(x_of(d, at));
      if (x > column) {
        drawn = draw_step(d, column, drawn, highest);
        highest = 0;
        column = x;
      }
      highest = fmax(highest, d->facts->lasting + call->alive[i]);
    }
  }
  draw_step(d, column, drawn, highest);
  buffer_format(d->out, "H%d", WIDTH - RIGHT);
}

void memory_chart(const MemoryChart *chart, Buffer *out) {
  Drawing d = {.facts = chart, .out = out};
  measure(&d);
  buffer_format(out,
                "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" width=\"%d\" height=\"%d\" "
                "role=\"img\">\n<title>",
                WIDTH, HEIGHT, WIDTH, HEIGHT);
  buffer_xml(out, chart->title);
  buffer_format(out, ": memory</title>\n%s<rect class=\"back\" width=\"%d\" height=\"%d\"/>\n", style, WIDTH, HEIGHT);
  draw_title(&d);
  draw_axes(&d);
  buffer_format(out, "<path class=\"held\" d=\"M%d %d", LEFT, HEIGHT - BOTTOM);
  draw_corners(&d);
  buffer_format(out, "V%dZ\"/>\n<path class=\"line\" d=\"M%d %d", HEIGHT - BOTTOM, LEFT, HEIGHT - BOTTOM);
  draw_corners(&d);
  buffer_format(out, "V%d\"/>\n", HEIGHT - BOTTOM);
  draw_calls(&d);
  buffer_text(out, "</svg>\n");
}
