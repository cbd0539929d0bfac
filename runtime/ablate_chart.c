// ablate_chart.c: ablate.svg: the losses of all rows, and below them a line for each row with its bytes.
#include <math.h>
#include <string.h>

#include "base/units.h"
#include "runtime/ablate.h"

enum { WIDTH = 960, LEFT = 68, RIGHT = 36, TOP = 104, PLOT_HEIGHT = 300, PLOT_WIDTH = WIDTH - LEFT - RIGHT };
enum { LINES = TOP + PLOT_HEIGHT + 92, LINE = 27, MORE_LINE = 17, COLOURS = 8 };
enum { LABEL_LINES = 64 };  // lines of a name; more are left away
enum { SAMPLE_X = 32, SAMPLE = 54, NAME_X = 96, LOSS_X = 478, WIRE_X = 506, MEMORY_X = 730, BAR_WIDTH = 118 };
enum { NAME_WIDTH = LOSS_X - 64 - NAME_X };  // then comes the loss

// Colours of light pages, then of dark ones. Row k has the class k0 to k7; rows from the ninth on are dashed.
static const char style[] =
    "<style>\n"
    "text{font-family:Inter,'Segoe UI',Roboto,'Helvetica Neue',Helvetica,Arial,'Liberation Sans',sans-serif;"
    "font-size:13px;fill:#5c6370}\n"
    ".back{fill:#ffffff}.title{font-size:21px;font-weight:600;fill:#1c2028}.name{fill:#1c2028}"
    ".bad{fill:#dc2626;font-weight:600}\n"
    ".grid{stroke:#e8eaee;stroke-width:1;fill:none}.axis{stroke:#b9bfc9;stroke-width:1;fill:none}\n"
    ".curve{fill:none;stroke-linejoin:round;stroke-linecap:round}.dashed{stroke-linecap:butt}.bar{fill-opacity:.85}."
    "track{fill:#f1f3f6}\n"
    ".k0{stroke:#2563eb}.k1{stroke:#ea580c}.k2{stroke:#16a34a}.k3{stroke:#9333ea}.k4{stroke:#db2777}"
    ".k5{stroke:#0891b2}.k6{stroke:#ca8a04}.k7{stroke:#64748b}\n"
    ".f0{fill:#2563eb}.f1{fill:#ea580c}.f2{fill:#16a34a}.f3{fill:#9333ea}.f4{fill:#db2777}"
    ".f5{fill:#0891b2}.f6{fill:#ca8a04}.f7{fill:#64748b}\n"
    "@media (prefers-color-scheme:dark){\n"
    "text{fill:#9aa3b2}.back{fill:#14171c}.title,.name{fill:#eceff4}.bad{fill:#f87171}\n"
    ".grid{stroke:#262b33}.axis{stroke:#4b5361}.track{fill:#1f242c}\n"
    "}\n"
    "</style>\n";

typedef struct {
  const Ablate *ablate;
  Buffer *out;
  double low, high, steps;
  double most_wire, most_memory;
  const char *(*label)[LABEL_LINES];  // of each row, up to a NULL
  int *top;                           // of each row: y of its first line; one more: the end
} Chart;

// --- names of rows: what differs between them and nothing else ---

// The end of a dotted name, if no other choice with several values ends so; else all of it.
static const char *short_name(const Choices *choices, int at) {
  const char *name = choices->at[at].name, *dot = strrchr(name, '.');
  for (int i = 0; dot && i < choices->count; i++) {
    const char *other = choices->at[i].name, *end = strrchr(other, '.');
    if (i != at && choices->at[i].count > 1 && strcmp(end ? end + 1 : other, dot + 1) == 0) {
      return name;
    }
  }
  return dot ? dot + 1 : name;
}

// About as wide as a letter is drawn, rather too much: which font there is nobody knows.
static int letter_width(unsigned char letter) {
  return letter >= 0xc0                          ? 14  // the first byte of a character of another script
         : letter >= 0x80                        ? 0
         : strchr("mwMW@%", letter)              ? 13
         : letter >= 'A' && letter <= 'Z'        ? 10
         : strchr(" .,:;'|!()[]ijlftr-", letter) ? 6
                                                 : 8;
}

// How many bytes of a text have room on a line: whole characters, and at least one.
static size_t fitting(const char *text) {
  size_t length = 0;
  for (int width = 0; text[length]; length++) {
    width += letter_width((unsigned char)text[length]);
    if (width > NAME_WIDTH && length > 0 && ((unsigned char)text[length] & 0xc0) != 0x80) {
      break;
    }
  }
  return length;
}

static int text_width(const char *text) {
  int width = 0;
  for (; *text; text++) {
    width += letter_width((unsigned char)*text);
  }
  return width;
}

// Adds a piece to the lines of a label: to the last line if there is room, else on lines of its own.
static void label_add(Arena *arena, const char **line, const char *piece) {
  int last = 0;
  while (line[last]) {
    last++;
  }
  if (last > 0 && text_width(line[last - 1]) + text_width("  ") + text_width(piece) <= NAME_WIDTH) {
    line[last - 1] = arena_format(arena, "%s  %s", line[last - 1], piece);
    return;
  }
  while (*piece && last + 1 < LABEL_LINES) {
    const size_t length = fitting(piece);
    line[last++] = arena_format(arena, "%.*s", (int)length, piece);
    piece += length;
  }
}

static void label_make(const Ablate *ablate, const AblateRow *row, const char **line) {
  const Choices *choices = &ablate->choices;
  for (int i = 0; i < choices->count; i++) {
    const Choice *choice = &choices->at[i];
    const char *value = choice->value[row->pick[i]];
    if (choice->count > 1) {
      label_add(
          ablate->arena, line,
          choice_is_setting(choice) ? arena_format(ablate->arena, "%s=%s", short_name(choices, i), value) : value);
    }
  }
  if (!line[0]) {
    label_add(ablate->arena, line, row->name);
  }
}

static void chart_labels(Chart *chart) {
  const Ablate *ablate = chart->ablate;
  int y = LINES;
  chart->label = arena_alloc(ablate->arena, sizeof *chart->label * (size_t)ablate->count);
  chart->top = ARENA_ARRAY(ablate->arena, int, ablate->count + 1);
  for (int i = 0; i < ablate->count; i++) {
    memset(chart->label[i], 0, sizeof chart->label[i]);
    label_make(ablate, &ablate->rows[i], chart->label[i]);
    chart->top[i] = y;
    y += LINE;
    for (int line = 1; chart->label[i][line]; line++) {
      y += MORE_LINE;
    }
  }
  chart->top[ablate->count] = y;
}

// The colour and the dashes of a row: no two rows have the same of both.
static void stroke_put(Buffer *out, int row) {
  buffer_format(out, "class=\"curve k%d", row % COLOURS);
  if (row < COLOURS) {
    buffer_text(out, "\"");
    return;
  }
  buffer_text(out, " dashed\" stroke-dasharray=\"10 4");
  for (int i = 1; i < row / COLOURS; i++) {
    buffer_text(out, " 2 4");
  }
  buffer_text(out, "\"");
}

// --- the picture ---

// `text`, cut to at most `most` bytes with an ellipsis.
static void escape_short(Buffer *out, Arena *arena, const char *text, size_t most) {
  buffer_xml(out, strlen(text) <= most ? text : arena_format(arena, "%.*s\xe2\x80\xa6", (int)most - 1, text));
}

static double x_of(const Chart *chart, double step) {
  return LEFT + (chart->steps > 1 ? PLOT_WIDTH * (step - 1) / (chart->steps - 1) : PLOT_WIDTH / 2.0);
}

static double y_of(const Chart *chart, double loss) {
  return TOP + PLOT_HEIGHT * (chart->high - loss) / (chart->high - chart->low);
}

static double tick_of(double range, int pieces) {
  const double raw = range / pieces, power = pow(10, floor(log10(raw))), parts = raw / power;
  return power * (parts <= 1 ? 1 : parts <= 2 ? 2 : parts <= 2.5 ? 2.5 : parts <= 5 ? 5 : 10);
}

// Of those of the steps [begin, end) that are finite; NaN: none is.
static double mean_of(const double *loss, int64_t begin, int64_t end) {
  double sum = 0, count = 0;
  for (int64_t i = begin; i < end; i++) {
    sum += isfinite(loss[i]) ? loss[i] : 0;
    count += isfinite(loss[i]);
  }
  return sum / count;
}

static bool chart_scale(Chart *chart) {
  chart->low = INFINITY;
  chart->high = -INFINITY;
  for (int i = 0; i < chart->ablate->count; i++) {
    const AblateRow *row = &chart->ablate->rows[i];
    for (int64_t j = 0; j < row->steps; j++) {
      if (isfinite(row->loss[j])) {
        chart->low = fmin(chart->low, row->loss[j]);
        chart->high = fmax(chart->high, row->loss[j]);
      }
    }
    chart->most_wire = fmax(chart->most_wire, row->wire);
    chart->most_memory = fmax(chart->most_memory, row->memory);
  }
  chart->steps = (double)chart->ablate->options->steps;
  if (!(chart->low <= chart->high)) {
    return false;
  }
  const double margin = fmax(0.06 * (chart->high - chart->low), 1e-3 * fabs(chart->high) + 1e-9);
  chart->low -= margin;
  chart->high += margin;
  return true;
}

static void chart_frame(const Chart *chart) {
  Buffer *out = chart->out;
  double tick = tick_of(chart->high - chart->low, 6);
  const int digits =
      tick >= 1 ? 0 : (int)ceil(-log10(tick) - 1e-9) + (fabs(tick * pow(10, ceil(-log10(tick))) - 2.5) < 1e-6);
  for (double k = ceil(chart->low / tick); k * tick <= chart->high; k++) {
    const double y = round(y_of(chart, k * tick)) + 0.5;
    buffer_format(out,
                  "<path class=\"grid\" d=\"M%d %.1fH%d\"/><text x=\"%d\" y=\"%.1f\" text-anchor=\"end\">%.*f</text>\n",
                  LEFT, y, WIDTH - RIGHT, LEFT - 10, y + 4, digits, k * tick + 0.0);
  }
  buffer_format(out, "<path class=\"axis\" d=\"M%d %d.5H%d\"/>\n", LEFT, TOP + PLOT_HEIGHT, WIDTH - RIGHT);
  tick = fmax(1, tick_of(chart->steps, 8));
  for (double step = 1; step <= chart->steps; step = step < tick ? tick : step + tick) {
    if (step > 1 && step < 1 + 0.4 * tick) {  // too near to the first one
      continue;
    }
    const double x = round(x_of(chart, step)) + 0.5;
    buffer_format(out,
                  "<path class=\"axis\" d=\"M%.1f %dv5\"/><text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">%g</text>\n",
                  x, TOP + PLOT_HEIGHT, x, TOP + PLOT_HEIGHT + 21, step);
  }
  static const char *const unit[] = {[LOSSES_MEANS] = "nats per token",
                                     [LOSSES_SUMS] = "a sum over the tokens of a batch",
                                     [LOSSES_PLAIN] = "without a unit",
                                     [LOSSES_BOTH] = "of some rows a sum or without a unit"};
  buffer_format(out, "<text x=\"%d\" y=\"%d\">loss, %s</text>\n", LEFT, TOP - 14, unit[ablate_losses(chart->ablate)]);
  buffer_format(out, "<text x=\"%d\" y=\"%d\" text-anchor=\"end\">step</text>\n", WIDTH - RIGHT,
                TOP + PLOT_HEIGHT + 40);
}

enum { POINTS = 250 };  // of a curve: of more steps neighbours are drawn as their mean

// Curves that agree lie on each other: later ones are narrower, so that all are seen.
static void chart_curves(const Chart *chart) {
  const int count = chart->ablate->count;
  const int64_t group = ((int64_t)chart->steps + POINTS - 1) / POINTS;
  for (int i = 0; i < count; i++) {
    const AblateRow *row = &chart->ablate->rows[i];
    const double width = count > 1 ? 1.6 + fmin(2.4, 9.0 / count) * (count - 1 - i) : 2.25;
    bool open = false;
    for (int64_t j = 0; j < row->steps; j += group) {
      const int64_t end = j + group < row->steps ? j + group : row->steps;
      const double loss = mean_of(row->loss, j, end);
      if (!isfinite(loss)) {
        continue;
      }
      if (!open) {
        buffer_text(chart->out, "<path ");
        stroke_put(chart->out, i);
        buffer_format(chart->out, " stroke-width=\"%.2f\" d=\"", width);
      }
      buffer_format(chart->out, "%c%.1f %.1f", open ? 'L' : 'M', x_of(chart, (double)(j + 1 + end) / 2),
                    y_of(chart, loss));
      open = true;
    }
    buffer_text(chart->out, open ? "h.01\"/>\n" : "");
  }
}

static void chart_bar(const Chart *chart, int x, int y, double bytes, double most, int colour) {
  char text[UNITS_MAX];
  const double width = most > 0 ? BAR_WIDTH * bytes / most : 0;
  buffer_format(chart->out, "<rect class=\"track\" x=\"%d\" y=\"%d\" width=\"%d\" height=\"12\" rx=\"2\"/>", x, y - 10,
                BAR_WIDTH);
  if (width > 0) {
    buffer_format(chart->out, "<rect class=\"bar f%d\" x=\"%d\" y=\"%d\" width=\"%.1f\" height=\"12\" rx=\"2\"/>",
                  colour, x, y - 10, fmax(width, 1.5));
  }
  buffer_format(chart->out, "<text x=\"%d\" y=\"%d\">%s</text>", x + BAR_WIDTH + 8, y,
                bytes > 0 ? units_bytes(text, bytes) : "0");
}

static void chart_line(const Chart *chart, int at) {
  const Ablate *ablate = chart->ablate;
  const AblateRow *row = &ablate->rows[at];
  Buffer *out = chart->out;
  const int y = chart->top[at], colour = at % COLOURS;
  const bool differs = row->verdict == VERDICT_DIFFERS;
  buffer_text(out, "<path ");
  stroke_put(out, at);
  buffer_format(out, " stroke-width=\"4\" d=\"M%d %dh%d\"/>", SAMPLE_X, y - 4, SAMPLE);
  for (int line = 0; chart->label[at][line]; line++) {
    buffer_format(out, "<text class=\"%s\" x=\"%d\" y=\"%d\">%s", differs ? "bad" : "name", NAME_X,
                  y + MORE_LINE * line, differs && line == 0 ? "\xe2\x9c\x97 " : "");
    buffer_xml(out, chart->label[at][line]);
    buffer_text(out, "</text>");
  }
  if (row->state != ROW_DONE && row->state != ROW_STOPPED && row->state != ROW_PLANNED) {
    buffer_format(out, "<text class=\"bad\" x=\"%d\" y=\"%d\">", LOSS_X - 60, y);
    escape_short(out, ablate->arena, row->problem ? row->problem : "not run", 66);
    buffer_text(out, "</text>\n");
    return;
  }
  if (row->steps > 0) {
    buffer_format(out, "<text class=\"name\" x=\"%d\" y=\"%d\" text-anchor=\"end\">%.4f</text>", LOSS_X, y,
                  row->loss[row->steps - 1]);
  }
  chart_bar(chart, WIRE_X, y, row->wire, chart->most_wire, colour);
  chart_bar(chart, MEMORY_X, y, row->memory, chart->most_memory, colour);
  buffer_text(out, "\n");
}

static void chart_lines(const Chart *chart) {
  const int y = LINES - LINE - 2;
  buffer_format(
      chart->out,
      "<text x=\"%d\" y=\"%d\" text-anchor=\"end\">last loss</text><text x=\"%d\" y=\"%d\">sent by a rank in a "
      "step</text><text x=\"%d\" y=\"%d\">memory of a rank</text>\n",
      LOSS_X, y, WIRE_X, y, MEMORY_X, y);
  for (int i = 0; i < chart->ablate->count; i++) {
    chart_line(chart, i);
  }
}

// "llama.mdl" of "models/llama.mdl".
static const char *file_of(const Ablate *ablate) {
  const char *slash = strrchr(ablate->options->base.file, '/');
  return slash ? slash + 1 : ablate->options->base.file;
}

void ablate_chart(const Ablate *ablate, Buffer *out) {
  Chart chart = {.ablate = ablate, .out = out};
  int differ = 0, same = 0;
  chart_labels(&chart);
  const int height = chart.top[ablate->count] + 12;
  for (int i = 0; i < ablate->count; i++) {
    differ += ablate->rows[i].verdict == VERDICT_DIFFERS;
    same += ablate->rows[i].verdict == VERDICT_SAME;
  }
  buffer_format(out,
                "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" width=\"%d\" height=\"%d\" "
                "role=\"img\">\n<title>",
                WIDTH, height, WIDTH, height);
  buffer_xml(out, file_of(ablate));
  buffer_format(out, ": ablation</title>\n%s<rect class=\"back\" width=\"%d\" height=\"%d\"/>\n", style, WIDTH, height);
  buffer_format(out, "<text class=\"title\" x=\"%d\" y=\"36\">", LEFT);
  buffer_xml(out, file_of(ablate));
  buffer_format(out, "</text>\n<text x=\"%d\" y=\"57\">%d combination%s, %lld step%s each", LEFT, ablate->count,
                ablate->count == 1 ? "" : "s", (long long)ablate->options->steps,
                ablate->options->steps == 1 ? "" : "s");
  if (differ + same > 0) {
    buffer_format(out, "; %d agree%s, %d differ%s", same, same == 1 ? "s" : "", differ, differ == 1 ? "s" : "");
  }
  buffer_text(out, "</text>\n");
  if (chart_scale(&chart)) {
    chart_frame(&chart);
    chart_curves(&chart);
  } else {
    buffer_format(out, "<text x=\"%d\" y=\"%d\" text-anchor=\"middle\">no step was made</text>\n", WIDTH / 2,
                  TOP + PLOT_HEIGHT / 2);
  }
  chart_lines(&chart);
  buffer_text(out, "</svg>\n");
}
