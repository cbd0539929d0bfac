// choices.c: see choices.h.
#include "tests/fuzz/choices.h"

#include <stdlib.h>
#include <string.h>

#include "lang/unit.h"

void choices_find(const char *path, Choices *choices) {
  *choices = (Choices){0};
  Arena *arena = arena_create();
  Unit unit = {.arena = arena, .names = names_create(arena), .diag = diag_create(arena)};
  unit_load(&unit, path);
  for (int i = 0; i < unit.all.count; i++) {
    const Declaration *declaration = &unit.all.at[i];
    if (declaration->main && declaration->space == SPACE_RECIPE && choices->recipe_count < CHOICES) {
      choices->recipes[choices->recipe_count++] = strdup(declaration->ast->name);
    }
    if (declaration->main && declaration->space == SPACE_LAYOUT && choices->layout_count < CHOICES) {
      choices->layouts[choices->layout_count++] = strdup(declaration->ast->name);
    }
  }
  arena_destroy(arena);
}

void choices_free(Choices *choices) {
  for (int i = 0; i < CHOICES; i++) {
    free(choices->recipes[i]);
    free(choices->layouts[i]);
  }
  *choices = (Choices){0};
}
