// graph_text.h: a graph as text, and back: print(parse(print(g))) == print(g).
//
//   graph    = "graph" name "slots" integer "{" {axis} {scope} {tensor} body "}"
//   axis     = "axis" name "=" integer ["global" integer] ";"
//   scope    = "scope" number "=" parent ("none" | string) ("none" | string) ["index" integer] ["variable" string] ";"
//   tensor   = role string ":" type [dims] ["group" integer] ["scope" integer] ["like" string] ["initial" real]
//              [value] [span] ";"
//   dims     = "[" [axes "|"] [[axes] ";"] [axes] "]"
//   body     = {node} ["return" value {"," value}]
//   node     = [value {"," value} "="] op [string] [integer | real] ["(" [value {"," value}] ")"]
//              {"over" "[" axes "]" | "along" name | "to" name | "integer" integer | "number" real}
//              [region] [":" result {"," result}] ["scope" integer] ["recomputed"] ["backward"] [span]
//   region   = "{" ["(" [value ":" result {"," value ":" result}] ")"] body "}"
//   result   = type ["[" axes "]"] ["none" | string] ["@" name] [role] ["stage" integer] [sharding]
//              ["at" (span | "none")]
//   type     = element type ["(" axis name ")"]
//   sharding = "{" [name ":" name ["zigzag"] ["pad" integer] {"," ...}] ["|" "partial" name {"," name}] "}"
//   value    = "%" digits      span = "#" file ":" begin "-" end      name = identifier | string
//
// `over` is Node.axes, `along` axis, `to` axis2. What is not written has the value that it has in a fresh node; the
// number of const and integer stands right after the op. The string of a result is the value's name (a leaf's is its
// text unless said), `at` its span (the node's unless said). Values are numbered in the order in which they appear
// in the regions, so the text does not depend on dead values. `//` starts a comment; so do the places of the sources
// that are printed after nodes.
#ifndef MDL_COMPILER_IR_GRAPH_TEXT_H
#define MDL_COMPILER_IR_GRAPH_TEXT_H

#include "base/buffer.h"
#include "compiler/ir/graph.h"

// Never fails, also on a graph that breaks its rules: what cannot be said properly is printed with `?` or `...`.
void graph_print(const Graph *graph, Buffer *out);

// One node on one line, regions as `{ ... }`, values by their ids.
void graph_print_node(const Graph *graph, NodeId node, Buffer *out);

// Reads the text of the source file `source_file` of diag. Types and shapes of results are checked by the rules of the
// ops; the written order of axes wins. Returns NULL and adds an E001 at the first thing that is wrong. Spans whose
// source this Diag does not have, or that point into the text itself, are dropped.
Graph *graph_parse(Arena *arena, Names *names, Diag *diag, int source_file);

const char *role_name(Role role);
bool role_of(const char *text, Role *role);

#endif
