/* A Bison parser, made by GNU Bison 3.8.2.  */

/* Bison interface for Yacc-like parsers in C

   Copyright (C) 1984, 1989-1990, 2000-2015, 2018-2021 Free Software Foundation,
   Inc.

   This program is free software: you can redistribute it and/or modify
   it under the terms of the GNU General Public License as published by
   the Free Software Foundation, either version 3 of the License, or
   (at your option) any later version.

   This program is distributed in the hope that it will be useful,
   but WITHOUT ANY WARRANTY; without even the implied warranty of
   MERCHANTABILITY or FITNESS FOR A PARTICULAR PURPOSE.  See the
   GNU General Public License for more details.

   You should have received a copy of the GNU General Public License
   along with this program.  If not, see <https://www.gnu.org/licenses/>.  */

/* As a special exception, you may create a larger work that contains
   part or all of the Bison parser skeleton and distribute that work
   under terms of your choice, so long as that work isn't itself a
   parser generator using the skeleton or a modified version thereof
   as a parser skeleton.  Alternatively, if you modify or redistribute
   the parser skeleton itself, you may (at your option) remove this
   special exception, which will cause the skeleton and the resulting
   Bison output files to be licensed under the GNU General Public
   License without this special exception.

   This special exception was added by the Free Software Foundation in
   version 2.2 of Bison.  */

/* DO NOT RELY ON FEATURES THAT ARE NOT DOCUMENTED in the manual,
   especially those whose name start with YY_ or yy_.  They are
   private implementation details that can be changed or removed.  */

#ifndef YY_GRAMMAR_GRAMMAR_H_INCLUDED
# define YY_GRAMMAR_GRAMMAR_H_INCLUDED
/* Debug traces.  */
#ifndef GRAMMAR_DEBUG
# if defined YYDEBUG
#if YYDEBUG
#   define GRAMMAR_DEBUG 1
#  else
#   define GRAMMAR_DEBUG 0
#  endif
# else /* ! defined YYDEBUG */
#  define GRAMMAR_DEBUG 0
# endif /* ! defined YYDEBUG */
#endif  /* ! defined GRAMMAR_DEBUG */
#if GRAMMAR_DEBUG
extern int grammar_debug;
#endif
/* "%code requires" blocks.  */

#include <stdarg.h>

#include "lang/parse.h"


/* Token kinds.  */
#ifndef GRAMMAR_TOKENTYPE
# define GRAMMAR_TOKENTYPE
  enum grammar_tokentype
  {
    TOKEN_GRAMMAR_EMPTY = -2,
    TOKEN_YYEOF = 0,               /* "end of file"  */
    TOKEN_GRAMMAR_error = 256,     /* error  */
    TOKEN_GRAMMAR_UNDEF = 257,     /* "invalid token"  */
    TOKEN_END_OF_TEXT = 258,       /* "the end of the file"  */
    TOKEN_NAME = 259,              /* "a name"  */
    TOKEN_INTEGER = 260,           /* "an integer"  */
    TOKEN_FLOAT = 261,             /* "a number"  */
    TOKEN_STRING = 262,            /* "a string"  */
    TOKEN_LABEL = 263,             /* "a label"  */
    TOKEN_IMPORT = 264,            /* "import"  */
    TOKEN_AXIS = 265,              /* "axis"  */
    TOKEN_CONST = 266,             /* "const"  */
    TOKEN_INPUT = 267,             /* "input"  */
    TOKEN_PARAM = 268,             /* "param"  */
    TOKEN_STATE = 269,             /* "state"  */
    TOKEN_FN = 270,                /* "fn"  */
    TOKEN_COMPOSITE = 271,         /* "composite"  */
    TOKEN_UPDATE = 272,            /* "update"  */
    TOKEN_MODEL = 273,             /* "model"  */
    TOKEN_LAYOUT = 274,            /* "layout"  */
    TOKEN_PRECISION = 275,         /* "precision"  */
    TOKEN_RECIPE = 276,            /* "recipe"  */
    TOKEN_REPEAT = 277,            /* "repeat"  */
    TOKEN_AS = 278,                /* "as"  */
    TOKEN_IF = 279,                /* "if"  */
    TOKEN_ELSE = 280,              /* "else"  */
    TOKEN_RETURN = 281,            /* "return"  */
    TOKEN_OUTPUT = 282,            /* "output"  */
    TOKEN_OVER = 283,              /* "over"  */
    TOKEN_TO = 284,                /* "to"  */
    TOKEN_LIKE = 285,              /* "like"  */
    TOKEN_AND = 286,               /* "and"  */
    TOKEN_OR = 287,                /* "or"  */
    TOKEN_NOT = 288,               /* "not"  */
    TOKEN_TRUE = 289,              /* "true"  */
    TOKEN_FALSE = 290,             /* "false"  */
    TOKEN_SCAN = 291,              /* "scan"  */
    TOKEN_CARRY = 292,             /* "carry"  */
    TOKEN_ELLIPSIS = 293,          /* "..."  */
    TOKEN_DOTDOT = 294,            /* ".."  */
    TOKEN_DOT = 295,               /* "."  */
    TOKEN_COMMA = 296,             /* ","  */
    TOKEN_SEMICOLON = 297,         /* ";"  */
    TOKEN_COLON = 298,             /* ":"  */
    TOKEN_ARROW = 299,             /* "->"  */
    TOKEN_ASSIGN = 300,            /* "="  */
    TOKEN_TILDE = 301,             /* "~"  */
    TOKEN_BAR = 302,               /* "|"  */
    TOKEN_EQUAL = 303,             /* "=="  */
    TOKEN_NOT_EQUAL = 304,         /* "!="  */
    TOKEN_LESS = 305,              /* "<"  */
    TOKEN_LESS_EQUAL = 306,        /* "<="  */
    TOKEN_GREATER = 307,           /* ">"  */
    TOKEN_GREATER_EQUAL = 308,     /* ">="  */
    TOKEN_PLUS = 309,              /* "+"  */
    TOKEN_MINUS = 310,             /* "-"  */
    TOKEN_STAR = 311,              /* "*"  */
    TOKEN_SLASH = 312,             /* "/"  */
    TOKEN_PERCENT = 313,           /* "%"  */
    TOKEN_CARET = 314,             /* "^"  */
    TOKEN_LPAREN = 315,            /* "("  */
    TOKEN_RPAREN = 316,            /* ")"  */
    TOKEN_LBRACKET = 317,          /* "["  */
    TOKEN_RBRACKET = 318,          /* "]"  */
    TOKEN_LBRACE = 319,            /* "{"  */
    TOKEN_RBRACE = 320,            /* "}"  */
    TOKEN_AXES_SEMICOLON = 321     /* "`;` between axes"  */
  };
  typedef enum grammar_tokentype grammar_token_kind_t;
#endif

/* Value type.  */
#if ! defined GRAMMAR_STYPE && ! defined GRAMMAR_STYPE_IS_DECLARED
union GRAMMAR_STYPE
{

  Token token;
  Ast *node;
  NodeList *list;
  AstGroup group;


};
typedef union GRAMMAR_STYPE GRAMMAR_STYPE;
# define GRAMMAR_STYPE_IS_TRIVIAL 1
# define GRAMMAR_STYPE_IS_DECLARED 1
#endif

/* Location type.  */
typedef Span GRAMMAR_LTYPE;




int grammar_parse (Parser *parser);

/* "%code provides" blocks.  */

int grammar_lex(GRAMMAR_STYPE *value, Span *span, Parser *parser);


#endif /* !YY_GRAMMAR_GRAMMAR_H_INCLUDED  */
