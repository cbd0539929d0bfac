// units.h: numbers as people read them. Functions that are given `text` fill and return it.
#ifndef MDL_BASE_UNITS_H
#define MDL_BASE_UNITS_H

enum { UNITS_MAX = 32 };

const char *units_count(char text[UNITS_MAX], double number);      // 1234567 -> 1.23M
const char *units_bytes(char text[UNITS_MAX], double bytes);       // 1234567 -> 1.18 MiB
const char *units_duration(char text[UNITS_MAX], double seconds);  // 192 -> 3m 12s

double units_plain(double number);  // NaN without the sign that processors give it, which printf shows

int units_columns(const char *text);  // that it takes on a screen: characters of UTF-8

#endif
