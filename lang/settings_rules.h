// settings_rules.h: what settings.c, layout.c and precision.c share.
#ifndef MDL_LANG_SETTINGS_RULES_H
#define MDL_LANG_SETTINGS_RULES_H

#include "lang/settings.h"

Name phrase_word(const Ast *phrase);        // the first word of a phrase, or NULL
bool name_is(Name name, const char *text);  // false for NULL
bool name_in(Name name, const char *const *words, int count);
bool setting_constant(const Ast *ast, double *number);                  // arithmetic on literals
bool setting_number(const Unit *unit, const Ast *ast, double *number);  // and on constants outside of blocks

#define WORDS(words) (words), (int)(sizeof(words) / sizeof *(words))

// The phrases of the recipe's last setting that begins with `word`, such as `precision bf16 until 500, then fp8;`,
// or NULL.
const Ast *recipe_choices(const Ast *recipe, const char *word);

// settings.c
Ast *settings_phrase(const Ast *declaration, const char *name);  // the phrase `name ...` that begins a setting, or NULL
Ast *ast_copy(Arena *arena, const Ast *ast);                     // of the whole tree
Ast *settings_call(const Ast *phrase);                           // the first call among its terms, or NULL
Ast *settings_model(Unit *unit, Ast *recipe);                    // the call in `model NAME(...)`; it must be there
// Lists what there is of a kind in a help of the error, behind these words; false: there is none.
bool settings_choices(const Unit *unit, NameSpace space, AstKind kind, Diagnostic *error, const char *before);
bool settings_entry(const char *name);  // is it an entry with a number, such as seed?

// settings_text.c: settings that are in no file, shown in messages as text of `origin`.
Ast *settings_parse(Unit *unit, const char *origin, const char *settings);  // as a recipe, or NULL
void settings_add(Unit *unit, Ast *recipe, const char *origin, const char *text);
#define SETTINGS_SET "--set"  // in place of a file's path: where what that has set stands
// settings_dotted.c: optimizer.lr.peak = 1e-3: the argument of the call in the setting that begins with the word; in
// those with selectors too that say the same, or, where the one for all has no such parameter, in those that have it.
// optimizer.norm.decay: in the setting of this selector alone. False: there is none, which is reported.
bool settings_set_dotted(Unit *unit, Ast *recipe, const char *path, Ast *value, Span span);
// Of one call, by the name or the place that it is given by. False: there is no such call within it.
bool settings_set_argument(Unit *unit, Ast *call, const char *path, Ast *value, Span span);
void settings_append(Arena *arena, Ast *ast, Ast *kid);             // as its last kid
bool settings_set(Unit *unit, Spec *spec, const char *assignment);  // --set name=value
// What to write in place of `1,000`, whose end the phrase is; false: it is something else.
bool settings_comma_help(Unit *unit, Diagnostic *error, const Ast *phrase);

// settings_data.c: `data text("corpus.txt", tokenizer = bytes);`
void read_data(Unit *unit, Spec *spec, const Ast *phrase);
void read_validation(Unit *unit, Spec *spec, const Ast *phrase);  // `validation text("held_out.txt");`
void finish_data(Unit *unit, Spec *spec);                         // all of it in run.data_kind and run.data_path

// precision_choice.c
const Ast *precision_find(Unit *unit,
                          const Ast *term);  // the declaration that a term names; NULL, and E010: there is none
// `P`, or `P until N` followed by `then Q`: the policy that the phrase names and the last step that has it; false where
// the form is wrong.
bool precision_choice(Unit *unit, const Ast *phrase, bool first, bool last, const Ast **policy, double *until);

// settings_lists.c
void read_allow(Unit *unit, const Ast *list);              // `allow E016, E046;`: these warnings are not shown
void read_watch(Unit *unit, Spec *spec, const Ast *list);  // `watch layers.*, head;`

// skip.c: `skip = ...` of a recipe, which begins with the phrase at this place; returns the place of the next setting.
int read_skip(Unit *unit, Spec *spec, const Ast *phrases, int at);
void set_skip(Unit *unit, Ast *recipe, Ast *setting);  // in the place of the one that the recipe has

// layout_set.c
bool layout_sets(const char *path);  // does --set of this name change the layout?
// The layout as --set changes it, which then stands for it in the unit. Reports mesh axes that it lacks.
const Ast *layout_with_sets(Unit *unit, const Spec *spec, const Ast *layout);

// Chooses the layout or precision that the recipe names, checks it, and refuses what this version cannot run.
void read_layout(Unit *unit, Spec *spec);
void read_precision(Unit *unit, Spec *spec);

#endif
