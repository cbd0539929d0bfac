// settings_rules.h: what settings.c, layout.c and precision.c share.
#ifndef MDL_LANG_SETTINGS_RULES_H
#define MDL_LANG_SETTINGS_RULES_H

#include "lang/settings.h"

Name phrase_word(const Ast *phrase);                       // the first word of a phrase, or NULL
bool name_is(Name name, const char *text);                 // false for NULL
bool name_in(Name name, const char *const *words, int count);
bool setting_constant(const Ast *ast, double *number);     // arithmetic on literals

#define WORDS(words) (words), (int)(sizeof(words) / sizeof *(words))

// The phrases of the recipe's last setting that begins with `word`, such as `precision bf16 until 500, then fp8;`,
// or NULL.
const Ast *recipe_choices(const Ast *recipe, const char *word);

// Chooses the layout or precision that the recipe names, checks it, and refuses what this version cannot run.
void read_layout(Unit *unit, Spec *spec);
void read_precision(Unit *unit, Spec *spec);

#endif
