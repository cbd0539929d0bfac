// chart.c: layout of the picture: scales, curves, labels.
#include "runtime/chart.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/evaluate.h"
#include "runtime/io.h"

enum { WIDTH = 960, HEIGHT = 540, LEFT = 68, RIGHT = 36, TOP = 96, BOTTOM = 60, LABEL_GAP = 84 };
enum { MEANS = 2000, SAMPLES = 4000 };  // what the smooth line, and the range of losses, are made of
static const double LOSS_MOST = 1e300;
enum { PLOT_WIDTH = WIDTH - LEFT - RIGHT, PLOT_HEIGHT = HEIGHT - TOP - BOTTOM };

// Colours of light pages, then of dark ones. Drawn with classes alone, because not every viewer knows CSS variables.
static const char style[] =
    "<style>\n"
    "text{font-family:Inter,'Segoe UI',Roboto,'Helvetica Neue',Helvetica,Arial,'Liberation Sans',sans-serif;"
    "font-size:13px;fill:#5c6370}\n"
    ".back{fill:#ffffff}.title{font-size:21px;font-weight:600;fill:#1c2028}.big{font-size:27px;font-weight:600;"
    "fill:#c2410c}.note{font-size:13px}\n"
    ".grid{stroke:#e8eaee;stroke-width:1;fill:none}.axis{stroke:#b9bfc9;stroke-width:1;fill:none}\n"
    ".raw{stroke:#2563eb;stroke-opacity:.4;stroke-width:1;fill:none;stroke-linejoin:round}"
    ".spread{fill:#2563eb;fill-opacity:.16}\n"
    ".train{stroke:#2563eb;stroke-width:2.25;fill:none;stroke-linejoin:round;stroke-linecap:round}\n"
    ".val{stroke:#ea580c;stroke-width:2;fill:none;stroke-linejoin:round;stroke-linecap:round}"
    ".dot{fill:#ffffff;stroke:#ea580c;stroke-width:2}.last{fill:#ea580c;stroke:#ffffff;stroke-width:1.5}\n"
    ".value{font-size:12px;font-weight:600;fill:#c2410c;stroke:#ffffff;stroke-width:3.5;stroke-linejoin:round;"
    "paint-order:stroke}\n"
    "@media (prefers-color-scheme:dark){\n"
    "text{fill:#9aa3b2}.back{fill:#14171c}.title{fill:#eceff4}.big{fill:#fb923c}\n"
    ".grid{stroke:#262b33}.axis{stroke:#4b5361}\n"
    ".raw{stroke:#60a5fa;stroke-opacity:.45}.spread{fill:#60a5fa;fill-opacity:.2}.train{stroke:#60a5fa}\n"
    ".val{stroke:#fb923c}.dot{fill:#14171c;stroke:#fb923c}.last{fill:#fb923c;stroke:#14171c}\n"
    ".value{fill:#fdba74;stroke:#14171c}\n"
    "}\n"
    "</style>\n";

typedef struct {
  double step, loss;  // means of neighbouring points
  double smooth;      // of the losses; NaN where there is none
} Mean;

typedef struct {
  Buffer *out;
  const MetricsPoint *points;
  int64_t count;
  Mean mean[MEANS + 1];
  int means;
  double last_step, low, high;
  LossUnit unit;
} Chart;

// Of larger ones sums would overflow.
static bool is_drawn(double loss) {
  return fabs(loss) <= LOSS_MOST;
}

static double x_of(const Chart *chart, double step) {
  return LEFT + PLOT_WIDTH * step / chart->last_step;
}

static double y_of(const Chart *chart, double loss) {
  return TOP + PLOT_HEIGHT * (chart->high - loss) / (chart->high - chart->low);
}

// The round number (1, 2, 2.5 or 5 times a power of ten) nearest above range / pieces.
static double tick_of(double range, int pieces) {
  double raw = range / pieces, power = pow(10, floor(log10(raw))), parts = raw / power;
  return power * (parts <= 1 ? 1 : parts <= 2 ? 2 : parts <= 2.5 ? 2.5 : parts <= 5 ? 5 : 10);
}

static int by_value(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return x < y ? -1 : x > y;
}

// Thins the points to a number that does not grow with the run.
static void chart_means(Chart *chart) {
  int64_t group = chart->count / MEANS + 1;
  for (int64_t i = 0; i < chart->count; i += group) {
    double step = 0, loss = 0;
    int64_t used = 0;
    for (int64_t j = i; j < i + group && j < chart->count; j++) {
      if (is_drawn(chart->points[j].loss)) {
        step += chart->points[j].step;
        loss += chart->points[j].loss;
        used++;
      }
    }
    if (used > 0) {
      chart->mean[chart->means++] = (Mean){step / (double)used, loss / (double)used, NAN};
    }
  }
}

// A mean over neighbours, fewer near the beginning, where the loss falls fast.
static void chart_smooth(Chart *chart) {
  int widest = chart->means / 40 + 1;
  for (int i = 0; i < chart->means; i++) {
    int reach = i / 4 < widest ? i / 4 : widest;
    double sum = 0, weight = 0;
    for (int j = i - reach; j <= i + reach && j < chart->means; j++) {
      double w = reach + 1 - abs(i - j);
      sum += w * chart->mean[j].loss;
      weight += w;
    }
    chart->mean[i].smooth = sum / weight;
  }
}

static void range_add(Chart *chart, double loss) {
  if (is_drawn(loss)) {
    chart->low = fmin(chart->low, loss);
    chart->high = fmax(chart->high, loss);
  }
}

// The range of losses: everything validated and everything smooth but the fall of the first steps, which would leave no
// height for the rest, and all but the wildest hundredth of single steps.
static bool chart_scale(Chart *chart) {
  double samples[SAMPLES];
  int64_t stride = chart->count / SAMPLES + 1, count = 0;
  chart->last_step = chart->count > 0 ? fmax(1, chart->points[chart->count - 1].step) : 1;
  chart->low = INFINITY;
  chart->high = -INFINITY;
  for (int i = 0; i < chart->means; i++) {
    bool falling = chart->mean[i].step < 0.02 * chart->last_step && i + 10 < chart->means;
    range_add(chart, falling ? NAN : chart->mean[i].smooth);
  }
  for (int64_t i = 0; i < chart->count; i++) {
    bool falling = chart->points[i].step < 0.02 * chart->last_step && i + 10 < chart->count;
    range_add(chart, chart->points[i].val_loss);
    if (i % stride == 0 && !falling && is_drawn(chart->points[i].loss)) {
      samples[count++] = chart->points[i].loss;
    }
  }
  if (count > 0) {
    qsort(samples, (size_t)count, sizeof *samples, by_value);
    range_add(chart, samples[count / 100]);
    range_add(chart, samples[count - 1 - count / 100]);
  }
  if (!(chart->low <= chart->high)) {
    return false;
  }
  if (chart->high - chart->low < fmax(1e-6, 1e-12 * fabs(chart->high))) {
    const double around = fmax(0.5, 1e-3 * fabs(chart->high));
    chart->low -= around;
    chart->high += around;
  }
  double margin = 0.05 * (chart->high - chart->low);
  chart->low = chart->low >= 0 ? fmax(0, chart->low - margin) : chart->low - margin;
  chart->high += margin;
  return true;
}

static void chart_frame(Chart *chart) {
  Buffer *out = chart->out;
  double tick = tick_of(chart->high - chart->low, 6);
  int digits = tick >= 1 ? 0 : (int)ceil(-log10(tick) - 1e-9) + (fabs(tick * pow(10, ceil(-log10(tick))) - 2.5) < 1e-6);
  double first = ceil(chart->low / tick - 1e-9);
  for (int i = 0; (first + i) * tick <= chart->high; i++) {
    double value = (first + i) * tick, y = round(y_of(chart, value)) + 0.5;
    buffer_format(out,
                  "<path class=\"grid\" d=\"M%d %.1fH%d\"/><text x=\"%d\" y=\"%.1f\" text-anchor=\"end\">%.*f</text>\n",
                  LEFT, y, WIDTH - RIGHT, LEFT - 10, y + 4, digits, value + 0.0);
  }
  buffer_format(out, "<path class=\"axis\" d=\"M%d %d.5H%d\"/>\n", LEFT, HEIGHT - BOTTOM, WIDTH - RIGHT);
  tick = fmax(1, tick_of(chart->last_step, 8));
  for (int i = 0; i * tick <= chart->last_step * (1 + 1e-9); i++) {
    double value = i * tick, x = round(x_of(chart, value)) + 0.5;
    buffer_format(out, "<path class=\"axis\" d=\"M%.1f %dv5\"/><text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">", x,
                  HEIGHT - BOTTOM, x, HEIGHT - BOTTOM + 21);
    if (chart->last_step >= 1e7 && value > 0) {
      buffer_format(out, "%gM", value / 1e6);
    } else if (chart->last_step >= 1e4 && value > 0) {
      buffer_format(out, "%gk", value / 1e3);
    } else {
      buffer_format(out, "%g", value);
    }
    buffer_text(out, "</text>\n");
  }
  buffer_format(out, "<text class=\"note\" x=\"%d\" y=\"%d\">loss, %s</text>\n", LEFT, TOP - 14,
                evaluate_unit(chart->unit));
  buffer_format(out, "<text class=\"note\" x=\"%d\" y=\"%d\" text-anchor=\"end\">step</text>\n", WIDTH - RIGHT,
                HEIGHT - 16);
}

// Single steps: a fine line, or where they are denser than pixels the band between least and most of each pixel.
static void chart_raw(Chart *chart) {
  Buffer *out = chart->out;
  if (chart->count <= PLOT_WIDTH) {
    bool drawn = false;
    buffer_text(out, "<path class=\"raw\" d=\"");
    for (int64_t i = 0; i < chart->count; i++) {
      const MetricsPoint *point = &chart->points[i];
      if (is_drawn(point->loss)) {
        buffer_format(out, "%c%.1f %.1f", drawn ? 'L' : 'M', x_of(chart, point->step), y_of(chart, point->loss));
        drawn = true;
      }
    }
    buffer_text(out, "\"/>\n");
    return;
  }
  double low[PLOT_WIDTH + 1], high[PLOT_WIDTH + 1];
  for (int i = 0; i <= PLOT_WIDTH; i++) {
    low[i] = INFINITY;
    high[i] = -INFINITY;
  }
  for (int64_t i = 0; i < chart->count; i++) {
    const double place = PLOT_WIDTH * chart->points[i].step / chart->last_step;  // lines may be of any step
    const int column = place > 0 ? (int)fmin(place, PLOT_WIDTH) : 0;
    if (is_drawn(chart->points[i].loss)) {
      low[column] = fmin(low[column], chart->points[i].loss);
      high[column] = fmax(high[column], chart->points[i].loss);
    }
  }
  bool drawn = false;
  buffer_text(out, "<path class=\"spread\" d=\"");
  for (int i = 0; i <= 2 * PLOT_WIDTH + 1; i++) {  // there along the top, back along the bottom
    int column = i <= PLOT_WIDTH ? i : 2 * PLOT_WIDTH + 1 - i;
    if (high[column] >= low[column]) {
      buffer_format(out, "%c%d %.1f", drawn ? 'L' : 'M', LEFT + column,
                    y_of(chart, i <= PLOT_WIDTH ? high[column] : low[column]));
      drawn = true;
    }
  }
  buffer_text(out, "Z\"/>\n");
}

static void chart_train(Chart *chart) {
  double last_x = -1;
  buffer_text(chart->out, "<path class=\"train\" d=\"");
  for (int i = 0; i < chart->means; i++) {
    double x = x_of(chart, chart->mean[i].step);
    if (x - last_x >= 0.5 || i + 1 == chart->means) {
      buffer_format(chart->out, "%c%.1f %.1f", last_x < 0 ? 'M' : 'L', x, y_of(chart, chart->mean[i].smooth));
      last_x = x;
    }
  }
  buffer_text(chart->out, "\"/>\n");
}

// The value beside an evaluation's dot: above it, or to the right where the line before it falls steeply.
static void chart_value(Chart *chart, double x, double y, double before_y, double value) {
  bool steep = y - before_y > 14, edge = WIDTH - RIGHT - x < 24;
  buffer_format(chart->out, "<text class=\"value\" x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\">%.3f</text>\n",
                edge    ? x + 8
                : steep ? x + 5
                        : x,
                steep && !edge ? y - 8 : y - 12,
                edge    ? "end"
                : steep ? "start"
                        : "middle",
                value);
}

// Validation: a line, a dot at each evaluation where there is room, and its value beside some of them.
static void chart_validation(Chart *chart) {
  Buffer *out = chart->out;
  int64_t last = -1, evaluations = 0;
  double drawn_x = 0;
  buffer_text(out, "<path class=\"val\" d=\"");
  for (int64_t i = 0; i < chart->count; i++) {
    const MetricsPoint *point = &chart->points[i];
    double x = x_of(chart, point->step);
    if (is_drawn(point->val_loss)) {
      if (evaluations == 0 || x - drawn_x >= 0.5) {
        buffer_format(out, "%c%.1f %.1f", evaluations ? 'L' : 'M', x, y_of(chart, point->val_loss));
        drawn_x = x;
      }
      evaluations++;
      last = i;
    }
  }
  buffer_text(out, "\"/>\n");
  double labelled = -LABEL_GAP, end = last < 0 ? 0 : x_of(chart, chart->points[last].step), before = 0;
  for (int64_t i = 0; i <= last; i++) {
    const MetricsPoint *point = &chart->points[i];
    if (!is_drawn(point->val_loss)) {
      continue;
    }
    double x = x_of(chart, point->step), y = y_of(chart, point->val_loss);
    if (evaluations <= 60 || i == last) {
      buffer_format(out, "<circle class=\"%s\" cx=\"%.1f\" cy=\"%.1f\" r=\"%g\"/>\n", i == last ? "last" : "dot", x, y,
                    i == last ? 5.0 : 3.2);
    }
    if (i == last || (x - labelled >= LABEL_GAP && end - x >= LABEL_GAP)) {
      chart_value(chart, x, y, before, point->val_loss);
      labelled = x;
    }
    before = y;
  }
}

// What each line is; right above the plot.
static void chart_legend(Chart *chart, bool validation) {
  Buffer *out = chart->out;
  int x = WIDTH - RIGHT - (validation ? 352 : 212), y = TOP - 18, text = y + 4;
  buffer_format(out, "<path class=\"raw\" d=\"M%d %dl5 -4 5 7 5 -8 5 6 5 -3\"/>", x, y);
  buffer_format(out, "<text class=\"note\" x=\"%d\" y=\"%d\">training</text>\n", x + 32, text);
  buffer_format(out, "<path class=\"train\" d=\"M%d %dh24\"/>", x + 120, y);
  buffer_format(out, "<text class=\"note\" x=\"%d\" y=\"%d\">smoothed</text>\n", x + 152, text);
  if (validation) {
    buffer_format(out, "<path class=\"val\" d=\"M%d %dh24\"/><circle class=\"dot\" cx=\"%d\" cy=\"%d\" r=\"3.2\"/>",
                  x + 254, y, x + 266, y);
    buffer_format(out, "<text class=\"note\" x=\"%d\" y=\"%d\">validation</text>\n", x + 286, text);
  }
}

// Title on the left; on the right the number that people look for first.
static void chart_title(Chart *chart, const char *title, const char *subtitle) {
  Buffer *out = chart->out;
  double loss = NAN, step = 0;
  for (int64_t i = 0; i < chart->count; i++) {
    if (is_drawn(chart->points[i].val_loss)) {
      loss = chart->points[i].val_loss;
      step = chart->points[i].step;
    }
  }
  buffer_format(out, "<text class=\"title\" x=\"%d\" y=\"36\">", LEFT);
  buffer_xml(out, title);
  buffer_format(out, "</text>\n<text class=\"note\" x=\"%d\" y=\"57\">", LEFT);
  buffer_xml(out, subtitle);
  buffer_text(out, "</text>\n");
  if (is_drawn(loss)) {
    buffer_format(out, "<text class=\"big\" x=\"%d\" y=\"38\" text-anchor=\"end\">%.4f</text>\n", WIDTH - RIGHT, loss);
    buffer_format(out,
                  "<text class=\"note\" x=\"%d\" y=\"57\" text-anchor=\"end\">validation loss after step %.0f</text>\n",
                  WIDTH - RIGHT, step);
  }
  chart_legend(chart, is_drawn(loss));
}

void chart_loss(Buffer *out, const ChartText *text, const MetricsPoint *points, int64_t count) {
  Chart chart = {.out = out, .points = points, .count = count, .unit = text->unit};
  chart_means(&chart);
  chart_smooth(&chart);
  buffer_format(out,
                "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" width=\"%d\" height=\"%d\" "
                "role=\"img\">\n<title>",
                WIDTH, HEIGHT, WIDTH, HEIGHT);
  buffer_xml(out, text->title);
  buffer_format(out, ": loss</title>\n%s<rect class=\"back\" width=\"%d\" height=\"%d\"/>\n", style, WIDTH, HEIGHT);
  chart_title(&chart, text->title, text->subtitle);
  if (chart_scale(&chart)) {
    chart_frame(&chart);
    buffer_format(out,
                  "<clipPath id=\"plot\"><rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\"/></clipPath>\n"
                  "<g clip-path=\"url(#plot)\">\n",
                  LEFT, TOP - 4, PLOT_WIDTH + 8, PLOT_HEIGHT + 4);
    chart_raw(&chart);
    chart_train(&chart);
    buffer_text(out, "</g>\n");
    chart_validation(&chart);
  } else {
    buffer_format(out, "<text x=\"%d\" y=\"%d\" text-anchor=\"middle\">no step has been logged yet</text>\n", WIDTH / 2,
                  HEIGHT / 2);
  }
  buffer_text(out, "</svg>\n");
}

bool chart_write(const char *path, const ChartText *text, const Metrics *metrics, Error *error) {
  Buffer out = {0};
  chart_loss(&out, text, metrics->points, metrics->count);
  return io_replace_text(NULL, path, &out, error);
}
