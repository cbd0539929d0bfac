// choices.h: the recipes and layouts of a text.
#ifndef MDL_TESTS_FUZZ_CHOICES_H
#define MDL_TESTS_FUZZ_CHOICES_H

enum { CHOICES = 20 };

typedef struct {
  char *recipes[CHOICES], *layouts[CHOICES];
  int recipe_count, layout_count;
} Choices;

void choices_find(const char *path, Choices *choices);
void choices_free(Choices *choices);

#endif
