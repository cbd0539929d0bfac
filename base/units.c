// units.c: three significant digits and a unit.
#include "base/units.h"

#include <math.h>
#include <stdio.h>

const char *units_count(char text[UNITS_MAX], double number) {
  static const struct {
    double unit;
    const char *name;
  } units[] = {{1e15, "P"}, {1e12, "T"}, {1e9, "G"}, {1e6, "M"}, {1e3, "k"}};
  for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
    if (fabs(number) >= units[i].unit * 0.9995) {
      double scaled = number / units[i].unit;
      snprintf(text, UNITS_MAX, "%.*f%s", scaled < 9.995 ? 2 : scaled < 99.95 ? 1 : 0, scaled, units[i].name);
      return text;
    }
  }
  snprintf(text, UNITS_MAX, "%.*f", number == floor(number) ? 0 : number < 10 ? 2 : 1, number);
  return text;
}

const char *units_bytes(char text[UNITS_MAX], double bytes) {
  static const char *const units[] = {"bytes", "KiB", "MiB", "GiB", "TiB"};
  int unit = 0;
  while (bytes >= 1023.5 && unit < 4) {
    bytes /= 1024;
    unit++;
  }
  snprintf(text, UNITS_MAX, "%.*f %s", unit == 0 || bytes >= 99.95 ? 0 : bytes >= 9.995 ? 1 : 2, bytes, units[unit]);
  return text;
}

const char *units_duration(char text[UNITS_MAX], double seconds) {
  long long whole = seconds > 0 && seconds < 1e12 ? (long long)(seconds + 0.5) : 0;
  if (seconds < 9.95) {
    snprintf(text, UNITS_MAX, "%.1fs", seconds > 0 ? seconds : 0.0);
  } else if (whole < 60) {
    snprintf(text, UNITS_MAX, "%llds", whole);
  } else if (whole < 3600) {
    snprintf(text, UNITS_MAX, "%lldm %02llds", whole / 60, whole % 60);
  } else if (whole < 86400) {
    snprintf(text, UNITS_MAX, "%lldh %02lldm", whole / 3600, whole / 60 % 60);
  } else {
    snprintf(text, UNITS_MAX, "%lldd %02lldh", whole / 86400, whole / 3600 % 24);
  }
  return text;
}

double units_plain(double number) {
  return isnan(number) ? NAN : number;
}

int units_columns(const char *text) {
  int count = 0;
  for (; *text; text++) {
    count += ((unsigned char)*text & 0xc0) != 0x80;
  }
  return count;
}
