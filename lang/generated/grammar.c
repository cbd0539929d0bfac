/* A Bison parser, made by GNU Bison 3.8.2.  */

/* Bison implementation for Yacc-like parsers in C

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

/* C LALR(1) parser skeleton written by Richard Stallman, by
   simplifying the original so-called "semantic" parser.  */

/* DO NOT RELY ON FEATURES THAT ARE NOT DOCUMENTED in the manual,
   especially those whose name start with YY_ or yy_.  They are
   private implementation details that can be changed or removed.  */

/* All symbols defined below should begin with yy or YY, to avoid
   infringing on user name space.  This should be done even for local
   variables, as they might otherwise be expanded by user macros.
   There are some unavoidable exceptions within include files to
   define necessary library symbols; they are noted "INFRINGES ON
   USER NAME SPACE" below.  */

/* Identify Bison output, and Bison version.  */
#define YYBISON 30802

/* Bison version string.  */
#define YYBISON_VERSION "3.8.2"

/* Skeleton name.  */
#define YYSKELETON_NAME "yacc.c"

/* Pure parsers.  */
#define YYPURE 2

/* Push parsers.  */
#define YYPUSH 0

/* Pull parsers.  */
#define YYPULL 1

/* Substitute the type names.  */
#define YYSTYPE         GRAMMAR_STYPE
#define YYLTYPE         GRAMMAR_LTYPE
/* Substitute the variable and function names.  */
#define yyparse         grammar_parse
#define yylex           grammar_lex
#define yyerror         grammar_error
#define yydebug         grammar_debug
#define yynerrs         grammar_nerrs


# ifndef YY_CAST
#  ifdef __cplusplus
#   define YY_CAST(Type, Val) static_cast<Type> (Val)
#   define YY_REINTERPRET_CAST(Type, Val) reinterpret_cast<Type> (Val)
#  else
#   define YY_CAST(Type, Val) ((Type) (Val))
#   define YY_REINTERPRET_CAST(Type, Val) ((Type) (Val))
#  endif
# endif
# ifndef YY_NULLPTR
#  if defined __cplusplus
#   if 201103L <= __cplusplus
#    define YY_NULLPTR nullptr
#   else
#    define YY_NULLPTR 0
#   endif
#  else
#   define YY_NULLPTR ((void*)0)
#  endif
# endif

#include "grammar.h"
/* Symbol kind.  */
enum yysymbol_kind_t
{
  YYSYMBOL_YYEMPTY = -2,
  YYSYMBOL_YYEOF = 0,                      /* "end of file"  */
  YYSYMBOL_YYerror = 1,                    /* error  */
  YYSYMBOL_YYUNDEF = 2,                    /* "invalid token"  */
  YYSYMBOL_END_OF_TEXT = 3,                /* "the end of the file"  */
  YYSYMBOL_NAME = 4,                       /* "a name"  */
  YYSYMBOL_INTEGER = 5,                    /* "an integer"  */
  YYSYMBOL_FLOAT = 6,                      /* "a number"  */
  YYSYMBOL_STRING = 7,                     /* "a string"  */
  YYSYMBOL_LABEL = 8,                      /* "a label"  */
  YYSYMBOL_IMPORT = 9,                     /* "import"  */
  YYSYMBOL_AXIS = 10,                      /* "axis"  */
  YYSYMBOL_CONST = 11,                     /* "const"  */
  YYSYMBOL_INPUT = 12,                     /* "input"  */
  YYSYMBOL_PARAM = 13,                     /* "param"  */
  YYSYMBOL_STATE = 14,                     /* "state"  */
  YYSYMBOL_FN = 15,                        /* "fn"  */
  YYSYMBOL_COMPOSITE = 16,                 /* "composite"  */
  YYSYMBOL_UPDATE = 17,                    /* "update"  */
  YYSYMBOL_MODEL = 18,                     /* "model"  */
  YYSYMBOL_LAYOUT = 19,                    /* "layout"  */
  YYSYMBOL_PRECISION = 20,                 /* "precision"  */
  YYSYMBOL_RECIPE = 21,                    /* "recipe"  */
  YYSYMBOL_REPEAT = 22,                    /* "repeat"  */
  YYSYMBOL_AS = 23,                        /* "as"  */
  YYSYMBOL_IF = 24,                        /* "if"  */
  YYSYMBOL_ELSE = 25,                      /* "else"  */
  YYSYMBOL_RETURN = 26,                    /* "return"  */
  YYSYMBOL_OUTPUT = 27,                    /* "output"  */
  YYSYMBOL_OVER = 28,                      /* "over"  */
  YYSYMBOL_TO = 29,                        /* "to"  */
  YYSYMBOL_LIKE = 30,                      /* "like"  */
  YYSYMBOL_AND = 31,                       /* "and"  */
  YYSYMBOL_OR = 32,                        /* "or"  */
  YYSYMBOL_NOT = 33,                       /* "not"  */
  YYSYMBOL_TRUE = 34,                      /* "true"  */
  YYSYMBOL_FALSE = 35,                     /* "false"  */
  YYSYMBOL_SCAN = 36,                      /* "scan"  */
  YYSYMBOL_CARRY = 37,                     /* "carry"  */
  YYSYMBOL_ELLIPSIS = 38,                  /* "..."  */
  YYSYMBOL_DOTDOT = 39,                    /* ".."  */
  YYSYMBOL_DOT = 40,                       /* "."  */
  YYSYMBOL_COMMA = 41,                     /* ","  */
  YYSYMBOL_SEMICOLON = 42,                 /* ";"  */
  YYSYMBOL_COLON = 43,                     /* ":"  */
  YYSYMBOL_ARROW = 44,                     /* "->"  */
  YYSYMBOL_ASSIGN = 45,                    /* "="  */
  YYSYMBOL_TILDE = 46,                     /* "~"  */
  YYSYMBOL_BAR = 47,                       /* "|"  */
  YYSYMBOL_EQUAL = 48,                     /* "=="  */
  YYSYMBOL_NOT_EQUAL = 49,                 /* "!="  */
  YYSYMBOL_LESS = 50,                      /* "<"  */
  YYSYMBOL_LESS_EQUAL = 51,                /* "<="  */
  YYSYMBOL_GREATER = 52,                   /* ">"  */
  YYSYMBOL_GREATER_EQUAL = 53,             /* ">="  */
  YYSYMBOL_PLUS = 54,                      /* "+"  */
  YYSYMBOL_MINUS = 55,                     /* "-"  */
  YYSYMBOL_STAR = 56,                      /* "*"  */
  YYSYMBOL_SLASH = 57,                     /* "/"  */
  YYSYMBOL_PERCENT = 58,                   /* "%"  */
  YYSYMBOL_CARET = 59,                     /* "^"  */
  YYSYMBOL_LPAREN = 60,                    /* "("  */
  YYSYMBOL_RPAREN = 61,                    /* ")"  */
  YYSYMBOL_LBRACKET = 62,                  /* "["  */
  YYSYMBOL_RBRACKET = 63,                  /* "]"  */
  YYSYMBOL_LBRACE = 64,                    /* "{"  */
  YYSYMBOL_RBRACE = 65,                    /* "}"  */
  YYSYMBOL_AXES_SEMICOLON = 66,            /* "`;` between axes"  */
  YYSYMBOL_YYACCEPT = 67,                  /* $accept  */
  YYSYMBOL_file = 68,                      /* file  */
  YYSYMBOL_items = 69,                     /* items  */
  YYSYMBOL_declaration = 70,               /* declaration  */
  YYSYMBOL_setting_keyword = 71,           /* setting_keyword  */
  YYSYMBOL_import_path = 72,               /* import_path  */
  YYSYMBOL_formals = 73,                   /* formals  */
  YYSYMBOL_formal_list = 74,               /* formal_list  */
  YYSYMBOL_lead = 75,                      /* lead  */
  YYSYMBOL_separator = 76,                 /* separator  */
  YYSYMBOL_formal = 77,                    /* formal  */
  YYSYMBOL_block = 78,                     /* block  */
  YYSYMBOL_statements = 79,                /* statements  */
  YYSYMBOL_statement = 80,                 /* statement  */
  YYSYMBOL_combine = 81,                   /* combine  */
  YYSYMBOL_simple = 82,                    /* simple  */
  YYSYMBOL_if = 83,                        /* if  */
  YYSYMBOL_else_part = 84,                 /* else_part  */
  YYSYMBOL_count = 85,                     /* count  */
  YYSYMBOL_count_product = 86,             /* count_product  */
  YYSYMBOL_name = 87,                      /* name  */
  YYSYMBOL_names = 88,                     /* names  */
  YYSYMBOL_axis_items = 89,                /* axis_items  */
  YYSYMBOL_axis_item = 90,                 /* axis_item  */
  YYSYMBOL_const_items = 91,               /* const_items  */
  YYSYMBOL_const_item = 92,                /* const_item  */
  YYSYMBOL_initial = 93,                   /* initial  */
  YYSYMBOL_label = 94,                     /* label  */
  YYSYMBOL_type = 95,                      /* type  */
  YYSYMBOL_cast_type = 96,                 /* cast_type  */
  YYSYMBOL_axes = 97,                      /* axes  */
  YYSYMBOL_axes_items = 98,                /* axes_items  */
  YYSYMBOL_axes_item = 99,                 /* axes_item  */
  YYSYMBOL_expressions = 100,              /* expressions  */
  YYSYMBOL_expression = 101,               /* expression  */
  YYSYMBOL_conjunction = 102,              /* conjunction  */
  YYSYMBOL_negation = 103,                 /* negation  */
  YYSYMBOL_comparison = 104,               /* comparison  */
  YYSYMBOL_sum = 105,                      /* sum  */
  YYSYMBOL_product = 106,                  /* product  */
  YYSYMBOL_cast = 107,                     /* cast  */
  YYSYMBOL_unary = 108,                    /* unary  */
  YYSYMBOL_power = 109,                    /* power  */
  YYSYMBOL_postfix = 110,                  /* postfix  */
  YYSYMBOL_primary = 111,                  /* primary  */
  YYSYMBOL_elements = 112,                 /* elements  */
  YYSYMBOL_arguments = 113,                /* arguments  */
  YYSYMBOL_argument_list = 114,            /* argument_list  */
  YYSYMBOL_argument = 115,                 /* argument  */
  YYSYMBOL_brackets = 116,                 /* brackets  */
  YYSYMBOL_bracket = 117,                  /* bracket  */
  YYSYMBOL_rename_target = 118,            /* rename_target  */
  YYSYMBOL_setting_block = 119,            /* setting_block  */
  YYSYMBOL_settings = 120,                 /* settings  */
  YYSYMBOL_setting = 121,                  /* setting  */
  YYSYMBOL_targets = 122,                  /* targets  */
  YYSYMBOL_target = 123,                   /* target  */
  YYSYMBOL_phrases = 124,                  /* phrases  */
  YYSYMBOL_phrase = 125,                   /* phrase  */
  YYSYMBOL_range = 126,                    /* range  */
  YYSYMBOL_terms = 127,                    /* terms  */
  YYSYMBOL_term = 128,                     /* term  */
  YYSYMBOL_path = 129,                     /* path  */
  YYSYMBOL_path_part = 130,                /* path_part  */
  YYSYMBOL_word = 131                      /* word  */
};
typedef enum yysymbol_kind_t yysymbol_kind_t;



/* Unqualified %code blocks.  */

// Deep enough for every text within PARSE_MAX_NESTING; beyond it grammar_error says so. No heap is used.
#define YYINITDEPTH 4000
#define YYMAXDEPTH 4000

#define YYLLOC_DEFAULT(current, rhs, n)                                                                \
  ((current) = (n) ? (Span){YYRHSLOC(rhs, 1).file, YYRHSLOC(rhs, 1).begin, YYRHSLOC(rhs, n).end}         \
                   : (Span){YYRHSLOC(rhs, 0).file, YYRHSLOC(rhs, 0).end, YYRHSLOC(rhs, 0).end})

#define KIDS(...) (Ast *const[]){__VA_ARGS__}, (int)(sizeof((Ast *const[]){__VA_ARGS__}) / sizeof(Ast *))
#define NODE(kind, span, ...) parser_node(parser, AST_##kind, span, KIDS(__VA_ARGS__))
#define NAMED(kind, span, name, name_span, ...) parser_named(parser, AST_##kind, span, name, name_span, KIDS(__VA_ARGS__))
#define LEAF(kind, span, name) parser_named(parser, AST_##kind, span, name, span, NULL, 0)
#define LIST(kind, span, list) parser_node(parser, AST_##kind, span, (list)->at, (list)->count)

static void grammar_error(const Span *span, Parser *parser, const char *message);
static Ast *binary(Parser *parser, Span span, const char *operation, Span place, Ast *left, Ast *right);
static Ast *unary(Parser *parser, Span span, const char *operation, Span place, Ast *operand);
static Ast *with_flags(Ast *node, int flags);
static Token spelled(Parser *parser, const char *format, ...) __attribute__((format(printf, 2, 3)));
static Ast *declared(Parser *parser, AstKind kind, const Ast *name, Ast *const *kids, int count);


#ifdef short
# undef short
#endif

/* On compilers that do not define __PTRDIFF_MAX__ etc., make sure
   <limits.h> and (if available) <stdint.h> are included
   so that the code can choose integer types of a good width.  */

#ifndef __PTRDIFF_MAX__
# include <limits.h> /* INFRINGES ON USER NAME SPACE */
# if defined __STDC_VERSION__ && 199901 <= __STDC_VERSION__
#  include <stdint.h> /* INFRINGES ON USER NAME SPACE */
#  define YY_STDINT_H
# endif
#endif

/* Narrow types that promote to a signed type and that can represent a
   signed or unsigned integer of at least N bits.  In tables they can
   save space and decrease cache pressure.  Promoting to a signed type
   helps avoid bugs in integer arithmetic.  */

#ifdef __INT_LEAST8_MAX__
typedef __INT_LEAST8_TYPE__ yytype_int8;
#elif defined YY_STDINT_H
typedef int_least8_t yytype_int8;
#else
typedef signed char yytype_int8;
#endif

#ifdef __INT_LEAST16_MAX__
typedef __INT_LEAST16_TYPE__ yytype_int16;
#elif defined YY_STDINT_H
typedef int_least16_t yytype_int16;
#else
typedef short yytype_int16;
#endif

/* Work around bug in HP-UX 11.23, which defines these macros
   incorrectly for preprocessor constants.  This workaround can likely
   be removed in 2023, as HPE has promised support for HP-UX 11.23
   (aka HP-UX 11i v2) only through the end of 2022; see Table 2 of
   <https://h20195.www2.hpe.com/V2/getpdf.aspx/4AA4-7673ENW.pdf>.  */
#ifdef __hpux
# undef UINT_LEAST8_MAX
# undef UINT_LEAST16_MAX
# define UINT_LEAST8_MAX 255
# define UINT_LEAST16_MAX 65535
#endif

#if defined __UINT_LEAST8_MAX__ && __UINT_LEAST8_MAX__ <= __INT_MAX__
typedef __UINT_LEAST8_TYPE__ yytype_uint8;
#elif (!defined __UINT_LEAST8_MAX__ && defined YY_STDINT_H \
       && UINT_LEAST8_MAX <= INT_MAX)
typedef uint_least8_t yytype_uint8;
#elif !defined __UINT_LEAST8_MAX__ && UCHAR_MAX <= INT_MAX
typedef unsigned char yytype_uint8;
#else
typedef short yytype_uint8;
#endif

#if defined __UINT_LEAST16_MAX__ && __UINT_LEAST16_MAX__ <= __INT_MAX__
typedef __UINT_LEAST16_TYPE__ yytype_uint16;
#elif (!defined __UINT_LEAST16_MAX__ && defined YY_STDINT_H \
       && UINT_LEAST16_MAX <= INT_MAX)
typedef uint_least16_t yytype_uint16;
#elif !defined __UINT_LEAST16_MAX__ && USHRT_MAX <= INT_MAX
typedef unsigned short yytype_uint16;
#else
typedef int yytype_uint16;
#endif

#ifndef YYPTRDIFF_T
# if defined __PTRDIFF_TYPE__ && defined __PTRDIFF_MAX__
#  define YYPTRDIFF_T __PTRDIFF_TYPE__
#  define YYPTRDIFF_MAXIMUM __PTRDIFF_MAX__
# elif defined PTRDIFF_MAX
#  ifndef ptrdiff_t
#   include <stddef.h> /* INFRINGES ON USER NAME SPACE */
#  endif
#  define YYPTRDIFF_T ptrdiff_t
#  define YYPTRDIFF_MAXIMUM PTRDIFF_MAX
# else
#  define YYPTRDIFF_T long
#  define YYPTRDIFF_MAXIMUM LONG_MAX
# endif
#endif

#ifndef YYSIZE_T
# ifdef __SIZE_TYPE__
#  define YYSIZE_T __SIZE_TYPE__
# elif defined size_t
#  define YYSIZE_T size_t
# elif defined __STDC_VERSION__ && 199901 <= __STDC_VERSION__
#  include <stddef.h> /* INFRINGES ON USER NAME SPACE */
#  define YYSIZE_T size_t
# else
#  define YYSIZE_T unsigned
# endif
#endif

#define YYSIZE_MAXIMUM                                  \
  YY_CAST (YYPTRDIFF_T,                                 \
           (YYPTRDIFF_MAXIMUM < YY_CAST (YYSIZE_T, -1)  \
            ? YYPTRDIFF_MAXIMUM                         \
            : YY_CAST (YYSIZE_T, -1)))

#define YYSIZEOF(X) YY_CAST (YYPTRDIFF_T, sizeof (X))


/* Stored state numbers (used for stacks). */
typedef yytype_int16 yy_state_t;

/* State numbers in computations.  */
typedef int yy_state_fast_t;

#ifndef YY_
# if defined YYENABLE_NLS && YYENABLE_NLS
#  if ENABLE_NLS
#   include <libintl.h> /* INFRINGES ON USER NAME SPACE */
#   define YY_(Msgid) dgettext ("bison-runtime", Msgid)
#  endif
# endif
# ifndef YY_
#  define YY_(Msgid) Msgid
# endif
#endif


#ifndef YY_ATTRIBUTE_PURE
# if defined __GNUC__ && 2 < __GNUC__ + (96 <= __GNUC_MINOR__)
#  define YY_ATTRIBUTE_PURE __attribute__ ((__pure__))
# else
#  define YY_ATTRIBUTE_PURE
# endif
#endif

#ifndef YY_ATTRIBUTE_UNUSED
# if defined __GNUC__ && 2 < __GNUC__ + (7 <= __GNUC_MINOR__)
#  define YY_ATTRIBUTE_UNUSED __attribute__ ((__unused__))
# else
#  define YY_ATTRIBUTE_UNUSED
# endif
#endif

/* Suppress unused-variable warnings by "using" E.  */
#if ! defined lint || defined __GNUC__
# define YY_USE(E) ((void) (E))
#else
# define YY_USE(E) /* empty */
#endif

/* Suppress an incorrect diagnostic about yylval being uninitialized.  */
#if defined __GNUC__ && ! defined __ICC && 406 <= __GNUC__ * 100 + __GNUC_MINOR__
# if __GNUC__ * 100 + __GNUC_MINOR__ < 407
#  define YY_IGNORE_MAYBE_UNINITIALIZED_BEGIN                           \
    _Pragma ("GCC diagnostic push")                                     \
    _Pragma ("GCC diagnostic ignored \"-Wuninitialized\"")
# else
#  define YY_IGNORE_MAYBE_UNINITIALIZED_BEGIN                           \
    _Pragma ("GCC diagnostic push")                                     \
    _Pragma ("GCC diagnostic ignored \"-Wuninitialized\"")              \
    _Pragma ("GCC diagnostic ignored \"-Wmaybe-uninitialized\"")
# endif
# define YY_IGNORE_MAYBE_UNINITIALIZED_END      \
    _Pragma ("GCC diagnostic pop")
#else
# define YY_INITIAL_VALUE(Value) Value
#endif
#ifndef YY_IGNORE_MAYBE_UNINITIALIZED_BEGIN
# define YY_IGNORE_MAYBE_UNINITIALIZED_BEGIN
# define YY_IGNORE_MAYBE_UNINITIALIZED_END
#endif
#ifndef YY_INITIAL_VALUE
# define YY_INITIAL_VALUE(Value) /* Nothing. */
#endif

#if defined __cplusplus && defined __GNUC__ && ! defined __ICC && 6 <= __GNUC__
# define YY_IGNORE_USELESS_CAST_BEGIN                          \
    _Pragma ("GCC diagnostic push")                            \
    _Pragma ("GCC diagnostic ignored \"-Wuseless-cast\"")
# define YY_IGNORE_USELESS_CAST_END            \
    _Pragma ("GCC diagnostic pop")
#endif
#ifndef YY_IGNORE_USELESS_CAST_BEGIN
# define YY_IGNORE_USELESS_CAST_BEGIN
# define YY_IGNORE_USELESS_CAST_END
#endif


#define YY_ASSERT(E) ((void) (0 && (E)))

#if 1

/* The parser invokes alloca or malloc; define the necessary symbols.  */

# ifdef YYSTACK_ALLOC
   /* Pacify GCC's 'empty if-body' warning.  */
#  define YYSTACK_FREE(Ptr) do { /* empty */; } while (0)
#  ifndef YYSTACK_ALLOC_MAXIMUM
    /* The OS might guarantee only one guard page at the bottom of the stack,
       and a page size can be as small as 4096 bytes.  So we cannot safely
       invoke alloca (N) if N exceeds 4096.  Use a slightly smaller number
       to allow for a few compiler-allocated temporary stack slots.  */
#   define YYSTACK_ALLOC_MAXIMUM 4032 /* reasonable circa 2006 */
#  endif
# else
#  define YYSTACK_ALLOC YYMALLOC
#  define YYSTACK_FREE YYFREE
#  ifndef YYSTACK_ALLOC_MAXIMUM
#   define YYSTACK_ALLOC_MAXIMUM YYSIZE_MAXIMUM
#  endif
#  if (defined __cplusplus && ! defined EXIT_SUCCESS \
       && ! ((defined YYMALLOC || defined malloc) \
             && (defined YYFREE || defined free)))
#   include <stdlib.h> /* INFRINGES ON USER NAME SPACE */
#   ifndef EXIT_SUCCESS
#    define EXIT_SUCCESS 0
#   endif
#  endif
#  ifndef YYMALLOC
#   define YYMALLOC malloc
#   if ! defined malloc && ! defined EXIT_SUCCESS
void *malloc (YYSIZE_T); /* INFRINGES ON USER NAME SPACE */
#   endif
#  endif
#  ifndef YYFREE
#   define YYFREE free
#   if ! defined free && ! defined EXIT_SUCCESS
void free (void *); /* INFRINGES ON USER NAME SPACE */
#   endif
#  endif
# endif
# define YYCOPY_NEEDED 1
#endif /* 1 */

#if (! defined yyoverflow \
     && (! defined __cplusplus \
         || (defined GRAMMAR_LTYPE_IS_TRIVIAL && GRAMMAR_LTYPE_IS_TRIVIAL \
             && defined GRAMMAR_STYPE_IS_TRIVIAL && GRAMMAR_STYPE_IS_TRIVIAL)))

/* A type that is properly aligned for any stack member.  */
union yyalloc
{
  yy_state_t yyss_alloc;
  YYSTYPE yyvs_alloc;
  YYLTYPE yyls_alloc;
};

/* The size of the maximum gap between one aligned stack and the next.  */
# define YYSTACK_GAP_MAXIMUM (YYSIZEOF (union yyalloc) - 1)

/* The size of an array large to enough to hold all stacks, each with
   N elements.  */
# define YYSTACK_BYTES(N) \
     ((N) * (YYSIZEOF (yy_state_t) + YYSIZEOF (YYSTYPE) \
             + YYSIZEOF (YYLTYPE)) \
      + 2 * YYSTACK_GAP_MAXIMUM)

# define YYCOPY_NEEDED 1

/* Relocate STACK from its old location to the new one.  The
   local variables YYSIZE and YYSTACKSIZE give the old and new number of
   elements in the stack, and YYPTR gives the new location of the
   stack.  Advance YYPTR to a properly aligned location for the next
   stack.  */
# define YYSTACK_RELOCATE(Stack_alloc, Stack)                           \
    do                                                                  \
      {                                                                 \
        YYPTRDIFF_T yynewbytes;                                         \
        YYCOPY (&yyptr->Stack_alloc, Stack, yysize);                    \
        Stack = &yyptr->Stack_alloc;                                    \
        yynewbytes = yystacksize * YYSIZEOF (*Stack) + YYSTACK_GAP_MAXIMUM; \
        yyptr += yynewbytes / YYSIZEOF (*yyptr);                        \
      }                                                                 \
    while (0)

#endif

#if defined YYCOPY_NEEDED && YYCOPY_NEEDED
/* Copy COUNT objects from SRC to DST.  The source and destination do
   not overlap.  */
# ifndef YYCOPY
#  if defined __GNUC__ && 1 < __GNUC__
#   define YYCOPY(Dst, Src, Count) \
      __builtin_memcpy (Dst, Src, YY_CAST (YYSIZE_T, (Count)) * sizeof (*(Src)))
#  else
#   define YYCOPY(Dst, Src, Count)              \
      do                                        \
        {                                       \
          YYPTRDIFF_T yyi;                      \
          for (yyi = 0; yyi < (Count); yyi++)   \
            (Dst)[yyi] = (Src)[yyi];            \
        }                                       \
      while (0)
#  endif
# endif
#endif /* !YYCOPY_NEEDED */

/* YYFINAL -- State number of the termination state.  */
#define YYFINAL  3
/* YYLAST -- Last index in YYTABLE.  */
#define YYLAST   672

/* YYNTOKENS -- Number of terminals.  */
#define YYNTOKENS  67
/* YYNNTS -- Number of nonterminals.  */
#define YYNNTS  65
/* YYNRULES -- Number of rules.  */
#define YYNRULES  224
/* YYNSTATES -- Number of states.  */
#define YYNSTATES  399

/* YYMAXUTOK -- Last valid token kind.  */
#define YYMAXUTOK   321


/* YYTRANSLATE(TOKEN-NUM) -- Symbol number corresponding to TOKEN-NUM
   as returned by yylex, with out-of-bounds checking.  */
#define YYTRANSLATE(YYX)                                \
  (0 <= (YYX) && (YYX) <= YYMAXUTOK                     \
   ? YY_CAST (yysymbol_kind_t, yytranslate[YYX])        \
   : YYSYMBOL_YYUNDEF)

/* YYTRANSLATE[TOKEN-NUM] -- Symbol number corresponding to TOKEN-NUM
   as returned by yylex.  */
static const yytype_int8 yytranslate[] =
{
       0,     2,     2,     2,     2,     2,     2,     2,     2,     2,
       2,     2,     2,     2,     2,     2,     2,     2,     2,     2,
       2,     2,     2,     2,     2,     2,     2,     2,     2,     2,
       2,     2,     2,     2,     2,     2,     2,     2,     2,     2,
       2,     2,     2,     2,     2,     2,     2,     2,     2,     2,
       2,     2,     2,     2,     2,     2,     2,     2,     2,     2,
       2,     2,     2,     2,     2,     2,     2,     2,     2,     2,
       2,     2,     2,     2,     2,     2,     2,     2,     2,     2,
       2,     2,     2,     2,     2,     2,     2,     2,     2,     2,
       2,     2,     2,     2,     2,     2,     2,     2,     2,     2,
       2,     2,     2,     2,     2,     2,     2,     2,     2,     2,
       2,     2,     2,     2,     2,     2,     2,     2,     2,     2,
       2,     2,     2,     2,     2,     2,     2,     2,     2,     2,
       2,     2,     2,     2,     2,     2,     2,     2,     2,     2,
       2,     2,     2,     2,     2,     2,     2,     2,     2,     2,
       2,     2,     2,     2,     2,     2,     2,     2,     2,     2,
       2,     2,     2,     2,     2,     2,     2,     2,     2,     2,
       2,     2,     2,     2,     2,     2,     2,     2,     2,     2,
       2,     2,     2,     2,     2,     2,     2,     2,     2,     2,
       2,     2,     2,     2,     2,     2,     2,     2,     2,     2,
       2,     2,     2,     2,     2,     2,     2,     2,     2,     2,
       2,     2,     2,     2,     2,     2,     2,     2,     2,     2,
       2,     2,     2,     2,     2,     2,     2,     2,     2,     2,
       2,     2,     2,     2,     2,     2,     2,     2,     2,     2,
       2,     2,     2,     2,     2,     2,     2,     2,     2,     2,
       2,     2,     2,     2,     2,     2,     1,     2,     3,     4,
       5,     6,     7,     8,     9,    10,    11,    12,    13,    14,
      15,    16,    17,    18,    19,    20,    21,    22,    23,    24,
      25,    26,    27,    28,    29,    30,    31,    32,    33,    34,
      35,    36,    37,    38,    39,    40,    41,    42,    43,    44,
      45,    46,    47,    48,    49,    50,    51,    52,    53,    54,
      55,    56,    57,    58,    59,    60,    61,    62,    63,    64,
      65,    66
};

#if GRAMMAR_DEBUG
/* YYRLINE[YYN] -- Source line where rule number YYN was defined.  */
static const yytype_int16 yyrline[] =
{
       0,    78,    78,    81,    82,    83,    84,    88,    89,    90,
      91,    93,    94,    95,    96,    97,    98,    99,   102,   102,
     102,   105,   106,   110,   111,   115,   116,   120,   121,   122,
     126,   127,   128,   132,   133,   134,   138,   139,   143,   144,
     148,   149,   150,   151,   158,   166,   174,   175,   179,   180,
     184,   189,   190,   191,   192,   193,   194,   196,   197,   198,
     199,   202,   205,   206,   207,   212,   213,   214,   218,   219,
     220,   221,   224,   227,   228,   232,   233,   237,   238,   239,
     243,   244,   247,   250,   251,   252,   256,   257,   261,   262,
     266,   267,   271,   272,   276,   277,   278,   280,   285,   286,
     291,   292,   296,   297,   301,   302,   306,   307,   311,   312,
     313,   314,   315,   316,   317,   321,   322,   323,   327,   328,
     329,   330,   334,   335,   339,   340,   344,   345,   349,   350,
     351,   352,   356,   357,   358,   359,   360,   361,   362,   363,
     364,   368,   369,   373,   374,   378,   379,   380,   384,   385,
     386,   391,   392,   396,   397,   399,   401,   403,   407,   408,
     412,   413,   417,   418,   419,   423,   424,   425,   426,   431,
     432,   436,   437,   441,   442,   446,   447,   448,   451,   454,
     455,   459,   460,   461,   462,   463,   464,   467,   471,   472,
     473,   476,   476,   476,   476,   479,   479,   479,   479,   479,
     479,   479,   479,   479,   479,   479,   479,   479,   479,   480,
     480,   480,   480,   480,   480,   480,   480,   480,   480,   480,
     480,   480,   480,   480,   480
};
#endif

/** Accessing symbol of state STATE.  */
#define YY_ACCESSING_SYMBOL(State) YY_CAST (yysymbol_kind_t, yystos[State])

#if 1
/* The user-facing name of the symbol whose (internal) number is
   YYSYMBOL.  No bounds checking.  */
static const char *yysymbol_name (yysymbol_kind_t yysymbol) YY_ATTRIBUTE_UNUSED;

static const char *
yysymbol_name (yysymbol_kind_t yysymbol)
{
  static const char *const yy_sname[] =
  {
  "end of file", "error", "invalid token", "the end of the file",
  "a name", "an integer", "a number", "a string", "a label", "import",
  "axis", "const", "input", "param", "state", "fn", "composite", "update",
  "model", "layout", "precision", "recipe", "repeat", "as", "if", "else",
  "return", "output", "over", "to", "like", "and", "or", "not", "true",
  "false", "scan", "carry", "...", "..", ".", ",", ";", ":", "->", "=",
  "~", "|", "==", "!=", "<", "<=", ">", ">=", "+", "-", "*", "/", "%", "^",
  "(", ")", "[", "]", "{", "}", "`;` between axes", "$accept", "file",
  "items", "declaration", "setting_keyword", "import_path", "formals",
  "formal_list", "lead", "separator", "formal", "block", "statements",
  "statement", "combine", "simple", "if", "else_part", "count",
  "count_product", "name", "names", "axis_items", "axis_item",
  "const_items", "const_item", "initial", "label", "type", "cast_type",
  "axes", "axes_items", "axes_item", "expressions", "expression",
  "conjunction", "negation", "comparison", "sum", "product", "cast",
  "unary", "power", "postfix", "primary", "elements", "arguments",
  "argument_list", "argument", "brackets", "bracket", "rename_target",
  "setting_block", "settings", "setting", "targets", "target", "phrases",
  "phrase", "range", "terms", "term", "path", "path_part", "word", YY_NULLPTR
  };
  return yy_sname[yysymbol];
}
#endif

#define YYPACT_NINF (-315)

#define yypact_value_is_default(Yyn) \
  ((Yyn) == YYPACT_NINF)

#define YYTABLE_NINF (-144)

#define yytable_value_is_error(Yyn) \
  0

/* YYPACT[STATE-NUM] -- Index in YYTABLE of the portion describing
   STATE-NUM.  */
static const yytype_int16 yypact[] =
{
    -315,    21,   156,  -315,    55,  -315,  -315,   601,   136,   149,
     177,   181,   177,   210,    24,   255,   274,   276,   280,   292,
     202,    30,    30,   293,   177,   295,   177,  -315,    95,  -315,
    -315,  -315,    32,  -315,  -315,  -315,   166,  -315,   258,  -315,
    -315,  -315,  -315,  -315,  -315,  -315,  -315,  -315,  -315,  -315,
    -315,  -315,  -315,  -315,  -315,  -315,  -315,  -315,  -315,  -315,
    -315,  -315,  -315,  -315,  -315,  -315,  -315,  -315,    76,  -315,
      98,   187,  -315,   257,   229,  -315,  -315,   121,   261,   154,
     246,   301,   247,   244,   248,   248,   248,   249,  -315,  -315,
    -315,  -315,  -315,   202,    30,    -7,   182,  -315,  -315,  -315,
      49,  -315,    30,    35,   279,  -315,  -315,   172,   193,   288,
    -315,   231,   281,    92,   244,   272,    63,    71,    30,    19,
      -6,  -315,  -315,   635,  -315,   177,    30,   136,  -315,    30,
     149,  -315,   177,   312,   259,   177,   259,    72,   260,    72,
    -315,  -315,  -315,  -315,  -315,    31,  -315,    54,    80,   177,
     202,   202,  -315,   202,   202,   202,   269,   202,    47,  -315,
      30,   166,    30,   202,   202,   202,   202,   202,   202,   202,
     202,   202,   202,   202,   313,    30,  -315,  -315,    30,  -315,
     259,   277,  -315,  -315,    18,    61,  -315,  -315,  -315,  -315,
    -315,  -315,   281,  -315,   281,  -315,  -315,   157,   282,     9,
     189,   189,   189,  -315,  -315,   262,   160,   315,    72,   264,
     390,   198,   265,   171,    30,  -315,    30,  -315,   244,   182,
     182,  -315,  -315,  -315,  -315,  -315,  -315,   -18,    -4,    73,
    -315,   279,  -315,  -315,   222,   222,   222,   222,   222,   222,
     193,   193,   288,   288,   288,   267,  -315,   281,    41,   283,
      30,  -315,   287,  -315,   177,  -315,  -315,   294,  -315,    28,
    -315,    30,    30,   296,   289,   289,   244,  -315,  -315,  -315,
     315,   116,  -315,   273,   244,    45,   284,   297,  -315,  -315,
    -315,  -315,  -315,  -315,   203,  -315,   452,  -315,   299,  -315,
      67,   281,  -315,  -315,   198,   198,   281,   281,  -315,    30,
       8,    47,  -315,   177,  -315,    30,    18,  -315,   285,  -315,
     333,   333,  -315,   333,   281,   281,  -315,   337,   300,   303,
    -315,  -315,  -315,    30,   244,  -315,  -315,  -315,    31,   338,
     505,  -315,   505,   343,    30,  -315,   553,  -315,    30,  -315,
    -315,   124,   177,  -315,  -315,  -315,   290,    97,   306,   259,
    -315,  -315,  -315,   304,  -315,  -315,   281,  -315,   291,  -315,
    -315,   169,   298,  -315,   241,  -315,   147,  -315,  -315,  -315,
    -315,  -315,  -315,   281,    30,    90,  -315,  -315,  -315,  -315,
     177,  -315,  -315,   343,    31,   343,  -315,    30,   100,  -315,
    -315,   245,   302,  -315,   281,   177,  -315,  -315,  -315
};

/* YYDEFACT[STATE-NUM] -- Default reduction number in state STATE-NUM.
   Performed when YYTABLE does not specify something else to do.  Zero
   means the default is an error.  */
static const yytype_uint8 yydefact[] =
{
       3,     0,     0,     1,     0,     2,    72,     0,     0,     0,
       0,     0,     0,     0,     0,     0,     0,    18,    19,    20,
       0,     0,     0,     0,     0,     0,     0,     4,     0,     5,
      40,    60,     0,    46,    38,     6,    62,   195,     0,   196,
     197,   198,   199,   200,   201,   202,   203,   204,   205,   206,
     207,   208,   209,   210,   211,   212,   213,   214,   215,   216,
     217,   218,   219,   220,   221,   222,   223,   224,     0,    21,
      77,     0,    75,     0,     0,    80,    73,     0,     0,     0,
       0,     0,     0,     0,     0,     0,     0,    72,   134,   135,
     136,   137,   138,     0,     0,     0,    65,   132,    68,   124,
     126,   128,     0,     0,   102,   104,   106,   108,   115,   118,
     122,     0,   100,     0,     0,     0,     0,     0,     0,     0,
       0,    47,     8,     0,     7,     0,     0,     0,    41,     0,
       0,    42,     0,     0,     0,     0,     0,    23,     0,    23,
      12,   162,    13,    14,    15,    27,   125,     0,     0,     0,
       0,     0,    57,     0,     0,     0,     0,     0,     0,   107,
       0,    62,     0,     0,     0,     0,     0,     0,     0,     0,
       0,     0,     0,     0,     0,     0,    54,    52,     0,    59,
       0,     0,    17,    16,    86,     0,    36,    39,    63,    64,
      22,    79,    78,    76,    82,    81,    74,     0,     0,     0,
      83,    83,    83,    28,    29,     0,    24,     0,    23,     0,
       0,     0,     0,   144,     0,   139,     0,   140,     0,    66,
      67,    69,    70,    71,   130,   131,   127,    72,   153,     0,
     151,   103,    61,   105,   109,   110,   111,   112,   113,   114,
     116,   117,   119,   120,   121,    90,   123,   101,     0,     0,
       0,    87,     0,    37,     0,    88,    43,    98,    92,     0,
      94,     0,     0,     0,    48,    48,     0,    31,    32,    30,
       0,    33,    25,     0,     0,     0,   195,   184,   185,   187,
     182,   189,   160,   163,     0,   173,   175,   179,   181,   188,
      72,   148,   145,   133,     0,     0,   141,   142,    58,     0,
       0,     0,   129,     0,    53,     0,    86,    55,     0,    99,
       0,     0,    93,     0,    85,    84,    50,     0,     0,     0,
       9,    26,    34,     0,     0,    11,   164,   161,    27,     0,
       0,   165,     0,     0,     0,   180,     0,   150,     0,   147,
     146,   154,     0,   158,   157,   152,     0,     0,     0,     0,
      95,    96,    97,     0,    45,    44,    35,    10,     0,   186,
     174,     0,    72,   171,     0,   169,   176,   177,   192,   193,
     194,   190,   191,   149,     0,     0,    91,    51,    56,    89,
       0,   183,   166,     0,    27,     0,   167,     0,   155,   159,
      49,     0,     0,   170,   178,     0,   168,   172,   156
};

/* YYPGOTO[NTERM-NUM].  */
static const yytype_int16 yypgoto[] =
{
    -315,  -315,  -315,  -315,  -315,  -315,  -130,  -315,  -141,   137,
      85,   -76,  -315,   234,    91,  -315,   237,   199,  -315,   138,
      -2,    -9,  -315,   232,  -315,   235,    89,    56,  -315,  -315,
    -131,  -315,   -50,  -315,   -20,   201,   -91,  -315,   101,   123,
      83,    -5,  -315,  -315,  -315,  -315,  -314,  -315,     0,  -315,
      65,  -315,   -24,  -315,  -315,   -19,   -17,    37,    40,  -315,
    -315,    86,  -315,  -315,    -1
};

/* YYDEFGOTO[NTERM-NUM].  */
static const yytype_int16 yydefgoto[] =
{
       0,     1,     2,    27,    28,    68,   205,   206,   207,   270,
     272,    36,   119,    29,   318,    30,    31,   121,    95,    96,
      97,    77,    71,    72,    74,    75,   263,   252,   198,   246,
     200,   259,   260,   111,   291,   104,   105,   106,   107,   108,
     109,   110,    99,   100,   101,   148,   212,   213,   292,   229,
     230,   344,   142,   210,   283,   364,   365,   284,   285,   367,
     286,   287,   288,   371,   289
};

/* YYTABLE[YYPACT[STATE-NUM]] -- What to do in state STATE-NUM.  If
   positive, shift that token.  If negative, reduce the rule whose
   number is the opposite.  If YYTABLE_NINF, syntax error.  */
static const yytype_int16 yytable[] =
{
      32,   103,   112,    79,   211,   202,    69,   140,    76,   209,
      76,   159,     6,   257,   358,    98,   149,   116,    21,   152,
     185,     3,   114,     6,    76,   299,   251,   161,   160,     8,
       9,    10,    11,    12,    87,    88,    89,    90,   179,    81,
     300,    20,   145,    21,   188,    22,    23,   150,   151,   249,
     160,   227,    88,    89,    90,    24,    25,    34,    34,   203,
     204,   143,   144,   102,    91,    92,   255,   160,   342,   310,
     392,   233,   258,   160,   147,   311,   -27,   118,   273,    26,
     102,    91,    92,   304,   186,    93,   160,   326,   146,   156,
      94,   312,  -143,   183,   313,   214,   117,    33,   184,    34,
     203,   204,    93,    33,   132,   337,   192,    94,   157,   194,
     327,   158,   338,   182,   301,   215,   123,    32,   124,    34,
      35,   216,   190,   191,   181,    34,   253,   145,   125,   160,
     196,   132,   160,   201,   177,   141,   302,   178,   228,   377,
      70,   217,   298,   126,   395,    98,    98,   218,   221,   222,
     223,   389,   226,    73,   322,   247,   160,     4,   248,     5,
       6,   323,   132,   374,   133,     7,     8,     9,    10,    11,
      12,    13,    14,    15,    16,    17,    18,    19,    20,   160,
      21,     6,    22,    23,   135,    78,   387,   211,   267,   268,
     320,   120,    24,    25,   296,   132,   297,   136,   325,   267,
     268,   269,   290,    88,    89,    90,    87,    88,    89,    90,
     330,   382,   269,   383,    80,   294,    26,   254,   379,   199,
     163,   164,   165,   166,   167,   168,   169,   170,   127,   128,
     306,   102,    91,    92,   261,   262,    91,    92,   153,   154,
     155,   314,   315,   211,   330,   331,   332,   333,   357,   171,
     172,   173,   308,    93,   242,   243,   244,    93,    94,    82,
     350,   351,    94,   352,   234,   235,   236,   237,   238,   239,
     130,   131,   175,   176,   224,   225,   169,   170,    83,   341,
      84,   228,   385,   386,    85,   347,   385,   396,   219,   220,
     264,   265,   240,   241,   339,   340,    86,   113,   343,   115,
     122,   346,   129,   356,   134,   138,   137,   139,    34,   145,
     162,   174,   141,   160,   366,   180,   197,   245,   373,   271,
     208,   199,   250,   266,   256,   274,   293,   303,   305,   307,
     317,   363,   309,   375,   324,   372,   329,   257,   316,   336,
      76,   353,   354,   359,   328,   355,   349,   362,   378,   380,
     295,   376,   381,   187,   388,   321,   319,   189,   384,   193,
     232,   231,   348,   397,   391,   195,   345,   394,   393,   361,
     360,     0,   335,     0,     0,     0,     0,     0,   390,     0,
       0,   363,     0,   363,     0,     0,     0,     0,     0,     0,
       0,   275,     0,   398,   276,   277,   278,   279,   280,    39,
      40,    41,    42,    43,    44,    45,    46,    47,    48,    49,
      50,    51,    52,    53,    54,    55,    56,    57,    58,    59,
      60,    61,    62,    63,    64,    65,    66,    67,     0,     0,
       0,     0,     0,     0,     0,     0,     0,     0,     0,     0,
       0,     0,     0,     0,     0,     0,   281,     0,     0,     0,
       0,     0,     0,     0,     0,   282,   276,   277,   278,   279,
     280,    39,    40,    41,    42,    43,    44,    45,    46,    47,
      48,    49,    50,    51,    52,    53,    54,    55,    56,    57,
      58,    59,    60,    61,    62,    63,    64,    65,    66,    67,
       0,     0,     0,     0,     0,     0,     0,   334,     0,     0,
       0,     0,     0,     0,     0,     0,     0,     0,   281,   276,
     277,   278,   279,   280,    39,    40,    41,    42,    43,    44,
      45,    46,    47,    48,    49,    50,    51,    52,    53,    54,
      55,    56,    57,    58,    59,    60,    61,    62,    63,    64,
      65,    66,    67,     0,     0,     0,     0,     0,     0,     0,
       0,     0,     0,     0,     0,     0,     0,    37,   368,   369,
       0,   281,    39,    40,    41,    42,    43,    44,    45,    46,
      47,    48,    49,    50,    51,    52,    53,    54,    55,    56,
      57,    58,    59,    60,    61,    62,    63,    64,    65,    66,
      67,     0,     0,     0,     0,     0,     0,     0,     0,     0,
       0,     0,     0,     0,     0,    37,     0,     0,    38,   370,
      39,    40,    41,    42,    43,    44,    45,    46,    47,    48,
      49,    50,    51,    52,    53,    54,    55,    56,    57,    58,
      59,    60,    61,    62,    63,    64,    65,    66,    67,    37,
       0,     0,     0,     0,    39,    40,    41,    42,    43,    44,
      45,    46,    47,    48,    49,    50,    51,    52,    53,    54,
      55,    56,    57,    58,    59,    60,    61,    62,    63,    64,
      65,    66,    67
};

static const yytype_int16 yycheck[] =
{
       2,    21,    22,    12,   145,   136,     7,    83,    10,   139,
      12,   102,     4,     4,   328,    20,    23,    26,    24,    95,
       1,     0,    24,     4,    26,    43,     8,   103,    32,    10,
      11,    12,    13,    14,     4,     5,     6,     7,   114,    15,
      44,    22,    60,    24,   120,    26,    27,    54,    55,   180,
      32,     4,     5,     6,     7,    36,    37,    64,    64,    28,
      29,    85,    86,    33,    34,    35,   197,    32,    60,    41,
     384,   162,    63,    32,    94,    47,     4,    45,   208,    60,
      33,    34,    35,    42,    65,    55,    32,    42,    93,    40,
      60,    63,    61,   117,    66,    41,     1,    42,   118,    64,
      28,    29,    55,    42,    41,    38,   126,    60,    59,   129,
      65,    62,    45,    42,    41,    61,    40,   119,    42,    64,
      65,    41,   123,   125,    61,    64,    65,    60,    30,    32,
     132,    41,    32,   135,    42,    64,    63,    45,   158,    42,
       4,    61,   218,    45,    44,   150,   151,   149,   153,   154,
     155,    61,   157,     4,    38,   175,    32,     1,   178,     3,
       4,    45,    41,    39,    43,     9,    10,    11,    12,    13,
      14,    15,    16,    17,    18,    19,    20,    21,    22,    32,
      24,     4,    26,    27,    30,     4,    39,   328,    28,    29,
     266,    25,    36,    37,   214,    41,   216,    43,   274,    28,
      29,    41,     4,     5,     6,     7,     4,     5,     6,     7,
      41,    42,    41,    44,     4,    44,    60,    60,   349,    62,
      48,    49,    50,    51,    52,    53,    54,    55,    41,    42,
     250,    33,    34,    35,    45,    46,    34,    35,    56,    57,
      58,   261,   262,   384,    41,    42,    43,    44,   324,    56,
      57,    58,   254,    55,   171,   172,   173,    55,    60,     4,
     310,   311,    60,   313,   163,   164,   165,   166,   167,   168,
      41,    42,    41,    42,     5,     6,    54,    55,     4,   299,
       4,   301,    41,    42,     4,   305,    41,    42,   150,   151,
     201,   202,   169,   170,   294,   295,     4,     4,   300,     4,
      42,   303,    45,   323,    43,     4,    60,    60,    64,    60,
      31,    23,    64,    32,   334,    43,     4,     4,   338,     4,
      60,    62,    45,    61,    42,    61,    61,    60,    45,    42,
      41,   333,    38,   342,    61,   336,    39,     4,    42,    40,
     342,     4,    42,     5,    60,    42,    61,     4,    42,    45,
     213,    61,    61,   119,   374,   270,   265,   120,    60,   127,
     161,   160,   306,    61,   383,   130,   301,   387,   385,   332,
     330,    -1,   286,    -1,    -1,    -1,    -1,    -1,   380,    -1,
      -1,   383,    -1,   385,    -1,    -1,    -1,    -1,    -1,    -1,
      -1,     1,    -1,   395,     4,     5,     6,     7,     8,     9,
      10,    11,    12,    13,    14,    15,    16,    17,    18,    19,
      20,    21,    22,    23,    24,    25,    26,    27,    28,    29,
      30,    31,    32,    33,    34,    35,    36,    37,    -1,    -1,
      -1,    -1,    -1,    -1,    -1,    -1,    -1,    -1,    -1,    -1,
      -1,    -1,    -1,    -1,    -1,    -1,    56,    -1,    -1,    -1,
      -1,    -1,    -1,    -1,    -1,    65,     4,     5,     6,     7,
       8,     9,    10,    11,    12,    13,    14,    15,    16,    17,
      18,    19,    20,    21,    22,    23,    24,    25,    26,    27,
      28,    29,    30,    31,    32,    33,    34,    35,    36,    37,
      -1,    -1,    -1,    -1,    -1,    -1,    -1,    45,    -1,    -1,
      -1,    -1,    -1,    -1,    -1,    -1,    -1,    -1,    56,     4,
       5,     6,     7,     8,     9,    10,    11,    12,    13,    14,
      15,    16,    17,    18,    19,    20,    21,    22,    23,    24,
      25,    26,    27,    28,    29,    30,    31,    32,    33,    34,
      35,    36,    37,    -1,    -1,    -1,    -1,    -1,    -1,    -1,
      -1,    -1,    -1,    -1,    -1,    -1,    -1,     4,     5,     6,
      -1,    56,     9,    10,    11,    12,    13,    14,    15,    16,
      17,    18,    19,    20,    21,    22,    23,    24,    25,    26,
      27,    28,    29,    30,    31,    32,    33,    34,    35,    36,
      37,    -1,    -1,    -1,    -1,    -1,    -1,    -1,    -1,    -1,
      -1,    -1,    -1,    -1,    -1,     4,    -1,    -1,     7,    56,
       9,    10,    11,    12,    13,    14,    15,    16,    17,    18,
      19,    20,    21,    22,    23,    24,    25,    26,    27,    28,
      29,    30,    31,    32,    33,    34,    35,    36,    37,     4,
      -1,    -1,    -1,    -1,     9,    10,    11,    12,    13,    14,
      15,    16,    17,    18,    19,    20,    21,    22,    23,    24,
      25,    26,    27,    28,    29,    30,    31,    32,    33,    34,
      35,    36,    37
};

/* YYSTOS[STATE-NUM] -- The symbol kind of the accessing symbol of
   state STATE-NUM.  */
static const yytype_uint8 yystos[] =
{
       0,    68,    69,     0,     1,     3,     4,     9,    10,    11,
      12,    13,    14,    15,    16,    17,    18,    19,    20,    21,
      22,    24,    26,    27,    36,    37,    60,    70,    71,    80,
      82,    83,    87,    42,    64,    65,    78,     4,     7,     9,
      10,    11,    12,    13,    14,    15,    16,    17,    18,    19,
      20,    21,    22,    23,    24,    25,    26,    27,    28,    29,
      30,    31,    32,    33,    34,    35,    36,    37,    72,   131,
       4,    89,    90,     4,    91,    92,    87,    88,     4,    88,
       4,    15,     4,     4,     4,     4,     4,     4,     5,     6,
       7,    34,    35,    55,    60,    85,    86,    87,   108,   109,
     110,   111,    33,   101,   102,   103,   104,   105,   106,   107,
     108,   100,   101,     4,    87,     4,    88,     1,    45,    79,
      25,    84,    42,    40,    42,    30,    45,    41,    42,    45,
      41,    42,    41,    43,    43,    30,    43,    60,     4,    60,
      78,    64,   119,   119,   119,    60,   108,   101,   112,    23,
      54,    55,    78,    56,    57,    58,    40,    59,    62,   103,
      32,    78,    31,    48,    49,    50,    51,    52,    53,    54,
      55,    56,    57,    58,    23,    41,    42,    42,    45,    78,
      43,    61,    42,   119,   101,     1,    65,    80,    78,    83,
     131,    87,   101,    90,   101,    92,    87,     4,    95,    62,
      97,    87,    97,    28,    29,    73,    74,    75,    60,    73,
     120,    75,   113,   114,    41,    61,    41,    61,    87,    86,
      86,   108,   108,   108,     5,     6,   108,     4,   101,   116,
     117,   102,    84,   103,   105,   105,   105,   105,   105,   105,
     106,   106,   107,   107,   107,     4,    96,   101,   101,    97,
      45,     8,    94,    65,    60,    97,    42,     4,    63,    98,
      99,    45,    46,    93,    93,    93,    61,    28,    29,    41,
      76,     4,    77,    73,    61,     1,     4,     5,     6,     7,
       8,    56,    65,   121,   124,   125,   127,   128,   129,   131,
       4,   101,   115,    61,    44,    76,   101,   101,    78,    43,
      44,    41,    63,    60,    42,    45,   101,    42,    87,    38,
      41,    47,    63,    66,   101,   101,    42,    41,    81,    81,
      78,    77,    38,    45,    61,    78,    42,    65,    60,    39,
      41,    42,    43,    44,    45,   128,    40,    38,    45,   115,
     115,   101,    60,    87,   118,   117,    87,   101,    94,    61,
      99,    99,    99,     4,    42,    42,   101,    78,   113,     5,
     125,   124,     4,    87,   122,   123,   101,   126,     5,     6,
      56,   130,   131,   101,    39,    88,    61,    42,    42,    97,
      45,    61,    42,    44,    60,    41,    42,    39,   101,    61,
      87,   122,   113,   123,   101,    44,    42,    61,    87
};

/* YYR1[RULE-NUM] -- Symbol kind of the left-hand side of rule RULE-NUM.  */
static const yytype_uint8 yyr1[] =
{
       0,    67,    68,    69,    69,    69,    69,    70,    70,    70,
      70,    70,    70,    70,    70,    70,    70,    70,    71,    71,
      71,    72,    72,    73,    73,    74,    74,    75,    75,    75,
      76,    76,    76,    77,    77,    77,    78,    78,    79,    79,
      80,    80,    80,    80,    80,    80,    80,    80,    81,    81,
      82,    82,    82,    82,    82,    82,    82,    82,    82,    82,
      82,    83,    84,    84,    84,    85,    85,    85,    86,    86,
      86,    86,    87,    88,    88,    89,    89,    90,    90,    90,
      91,    91,    92,    93,    93,    93,    94,    94,    95,    95,
      96,    96,    97,    97,    98,    98,    98,    98,    99,    99,
     100,   100,   101,   101,   102,   102,   103,   103,   104,   104,
     104,   104,   104,   104,   104,   105,   105,   105,   106,   106,
     106,   106,   107,   107,   108,   108,   109,   109,   110,   110,
     110,   110,   111,   111,   111,   111,   111,   111,   111,   111,
     111,   112,   112,   113,   113,   114,   114,   114,   115,   115,
     115,   116,   116,   117,   117,   117,   117,   117,   118,   118,
     119,   119,   120,   120,   120,   121,   121,   121,   121,   122,
     122,   123,   123,   124,   124,   125,   125,   125,   126,   127,
     127,   128,   128,   128,   128,   128,   128,   128,   129,   129,
     129,   130,   130,   130,   130,   131,   131,   131,   131,   131,
     131,   131,   131,   131,   131,   131,   131,   131,   131,   131,
     131,   131,   131,   131,   131,   131,   131,   131,   131,   131,
     131,   131,   131,   131,   131
};

/* YYR2[RULE-NUM] -- Number of symbols on the right-hand side of rule RULE-NUM.  */
static const yytype_int8 yyr2[] =
{
       0,     2,     2,     0,     2,     2,     3,     3,     3,     6,
       7,     6,     3,     3,     3,     3,     3,     3,     1,     1,
       1,     1,     3,     0,     1,     2,     3,     0,     1,     1,
       1,     1,     1,     1,     2,     3,     3,     4,     0,     2,
       1,     3,     3,     5,     7,     7,     2,     3,     0,     4,
       6,     7,     3,     5,     3,     5,     7,     3,     5,     3,
       1,     4,     0,     2,     2,     1,     3,     3,     1,     3,
       3,     3,     1,     1,     3,     1,     3,     1,     3,     3,
       1,     3,     3,     0,     2,     2,     0,     1,     2,     5,
       1,     4,     2,     3,     1,     3,     3,     3,     1,     2,
       1,     3,     1,     3,     1,     3,     1,     2,     1,     3,
       3,     3,     3,     3,     3,     1,     3,     3,     1,     3,
       3,     3,     1,     3,     1,     2,     1,     3,     1,     4,
       3,     3,     1,     4,     1,     1,     1,     1,     1,     3,
       3,     3,     3,     0,     1,     2,     3,     3,     1,     3,
       2,     1,     3,     1,     3,     5,     7,     3,     1,     3,
       3,     4,     0,     2,     3,     2,     4,     4,     6,     1,
       3,     1,     4,     1,     3,     1,     3,     3,     3,     1,
       2,     1,     1,     4,     1,     1,     3,     1,     1,     1,
       3,     1,     1,     1,     1,     1,     1,     1,     1,     1,
       1,     1,     1,     1,     1,     1,     1,     1,     1,     1,
       1,     1,     1,     1,     1,     1,     1,     1,     1,     1,
       1,     1,     1,     1,     1
};


enum { YYENOMEM = -2 };

#define yyerrok         (yyerrstatus = 0)
#define yyclearin       (yychar = TOKEN_GRAMMAR_EMPTY)

#define YYACCEPT        goto yyacceptlab
#define YYABORT         goto yyabortlab
#define YYERROR         goto yyerrorlab
#define YYNOMEM         goto yyexhaustedlab


#define YYRECOVERING()  (!!yyerrstatus)

#define YYBACKUP(Token, Value)                                    \
  do                                                              \
    if (yychar == TOKEN_GRAMMAR_EMPTY)                                        \
      {                                                           \
        yychar = (Token);                                         \
        yylval = (Value);                                         \
        YYPOPSTACK (yylen);                                       \
        yystate = *yyssp;                                         \
        YY_LAC_DISCARD ("YYBACKUP");                              \
        goto yybackup;                                            \
      }                                                           \
    else                                                          \
      {                                                           \
        yyerror (&yylloc, parser, YY_("syntax error: cannot back up")); \
        YYERROR;                                                  \
      }                                                           \
  while (0)

/* Backward compatibility with an undocumented macro.
   Use TOKEN_GRAMMAR_error or TOKEN_GRAMMAR_UNDEF. */
#define YYERRCODE TOKEN_GRAMMAR_UNDEF

/* YYLLOC_DEFAULT -- Set CURRENT to span from RHS[1] to RHS[N].
   If N is 0, then set CURRENT to the empty location which ends
   the previous symbol: RHS[0] (always defined).  */

#ifndef YYLLOC_DEFAULT
# define YYLLOC_DEFAULT(Current, Rhs, N)                                \
    do                                                                  \
      if (N)                                                            \
        {                                                               \
          (Current).first_line   = YYRHSLOC (Rhs, 1).first_line;        \
          (Current).first_column = YYRHSLOC (Rhs, 1).first_column;      \
          (Current).last_line    = YYRHSLOC (Rhs, N).last_line;         \
          (Current).last_column  = YYRHSLOC (Rhs, N).last_column;       \
        }                                                               \
      else                                                              \
        {                                                               \
          (Current).first_line   = (Current).last_line   =              \
            YYRHSLOC (Rhs, 0).last_line;                                \
          (Current).first_column = (Current).last_column =              \
            YYRHSLOC (Rhs, 0).last_column;                              \
        }                                                               \
    while (0)
#endif

#define YYRHSLOC(Rhs, K) ((Rhs)[K])


/* Enable debugging if requested.  */
#if GRAMMAR_DEBUG

# ifndef YYFPRINTF
#  include <stdio.h> /* INFRINGES ON USER NAME SPACE */
#  define YYFPRINTF fprintf
# endif

# define YYDPRINTF(Args)                        \
do {                                            \
  if (yydebug)                                  \
    YYFPRINTF Args;                             \
} while (0)


/* YYLOCATION_PRINT -- Print the location on the stream.
   This macro was not mandated originally: define only if we know
   we won't break user code: when these are the locations we know.  */

# ifndef YYLOCATION_PRINT

#  if defined YY_LOCATION_PRINT

   /* Temporary convenience wrapper in case some people defined the
      undocumented and private YY_LOCATION_PRINT macros.  */
#   define YYLOCATION_PRINT(File, Loc)  YY_LOCATION_PRINT(File, *(Loc))

#  elif defined GRAMMAR_LTYPE_IS_TRIVIAL && GRAMMAR_LTYPE_IS_TRIVIAL

/* Print *YYLOCP on YYO.  Private, do not rely on its existence. */

YY_ATTRIBUTE_UNUSED
static int
yy_location_print_ (FILE *yyo, YYLTYPE const * const yylocp)
{
  int res = 0;
  int end_col = 0 != yylocp->last_column ? yylocp->last_column - 1 : 0;
  if (0 <= yylocp->first_line)
    {
      res += YYFPRINTF (yyo, "%d", yylocp->first_line);
      if (0 <= yylocp->first_column)
        res += YYFPRINTF (yyo, ".%d", yylocp->first_column);
    }
  if (0 <= yylocp->last_line)
    {
      if (yylocp->first_line < yylocp->last_line)
        {
          res += YYFPRINTF (yyo, "-%d", yylocp->last_line);
          if (0 <= end_col)
            res += YYFPRINTF (yyo, ".%d", end_col);
        }
      else if (0 <= end_col && yylocp->first_column < end_col)
        res += YYFPRINTF (yyo, "-%d", end_col);
    }
  return res;
}

#   define YYLOCATION_PRINT  yy_location_print_

    /* Temporary convenience wrapper in case some people defined the
       undocumented and private YY_LOCATION_PRINT macros.  */
#   define YY_LOCATION_PRINT(File, Loc)  YYLOCATION_PRINT(File, &(Loc))

#  else

#   define YYLOCATION_PRINT(File, Loc) ((void) 0)
    /* Temporary convenience wrapper in case some people defined the
       undocumented and private YY_LOCATION_PRINT macros.  */
#   define YY_LOCATION_PRINT  YYLOCATION_PRINT

#  endif
# endif /* !defined YYLOCATION_PRINT */


# define YY_SYMBOL_PRINT(Title, Kind, Value, Location)                    \
do {                                                                      \
  if (yydebug)                                                            \
    {                                                                     \
      YYFPRINTF (stderr, "%s ", Title);                                   \
      yy_symbol_print (stderr,                                            \
                  Kind, Value, Location, parser); \
      YYFPRINTF (stderr, "\n");                                           \
    }                                                                     \
} while (0)


/*-----------------------------------.
| Print this symbol's value on YYO.  |
`-----------------------------------*/

static void
yy_symbol_value_print (FILE *yyo,
                       yysymbol_kind_t yykind, YYSTYPE const * const yyvaluep, YYLTYPE const * const yylocationp, Parser *parser)
{
  FILE *yyoutput = yyo;
  YY_USE (yyoutput);
  YY_USE (yylocationp);
  YY_USE (parser);
  if (!yyvaluep)
    return;
  YY_IGNORE_MAYBE_UNINITIALIZED_BEGIN
  YY_USE (yykind);
  YY_IGNORE_MAYBE_UNINITIALIZED_END
}


/*---------------------------.
| Print this symbol on YYO.  |
`---------------------------*/

static void
yy_symbol_print (FILE *yyo,
                 yysymbol_kind_t yykind, YYSTYPE const * const yyvaluep, YYLTYPE const * const yylocationp, Parser *parser)
{
  YYFPRINTF (yyo, "%s %s (",
             yykind < YYNTOKENS ? "token" : "nterm", yysymbol_name (yykind));

  YYLOCATION_PRINT (yyo, yylocationp);
  YYFPRINTF (yyo, ": ");
  yy_symbol_value_print (yyo, yykind, yyvaluep, yylocationp, parser);
  YYFPRINTF (yyo, ")");
}

/*------------------------------------------------------------------.
| yy_stack_print -- Print the state stack from its BOTTOM up to its |
| TOP (included).                                                   |
`------------------------------------------------------------------*/

static void
yy_stack_print (yy_state_t *yybottom, yy_state_t *yytop)
{
  YYFPRINTF (stderr, "Stack now");
  for (; yybottom <= yytop; yybottom++)
    {
      int yybot = *yybottom;
      YYFPRINTF (stderr, " %d", yybot);
    }
  YYFPRINTF (stderr, "\n");
}

# define YY_STACK_PRINT(Bottom, Top)                            \
do {                                                            \
  if (yydebug)                                                  \
    yy_stack_print ((Bottom), (Top));                           \
} while (0)


/*------------------------------------------------.
| Report that the YYRULE is going to be reduced.  |
`------------------------------------------------*/

static void
yy_reduce_print (yy_state_t *yyssp, YYSTYPE *yyvsp, YYLTYPE *yylsp,
                 int yyrule, Parser *parser)
{
  int yylno = yyrline[yyrule];
  int yynrhs = yyr2[yyrule];
  int yyi;
  YYFPRINTF (stderr, "Reducing stack by rule %d (line %d):\n",
             yyrule - 1, yylno);
  /* The symbols being reduced.  */
  for (yyi = 0; yyi < yynrhs; yyi++)
    {
      YYFPRINTF (stderr, "   $%d = ", yyi + 1);
      yy_symbol_print (stderr,
                       YY_ACCESSING_SYMBOL (+yyssp[yyi + 1 - yynrhs]),
                       &yyvsp[(yyi + 1) - (yynrhs)],
                       &(yylsp[(yyi + 1) - (yynrhs)]), parser);
      YYFPRINTF (stderr, "\n");
    }
}

# define YY_REDUCE_PRINT(Rule)          \
do {                                    \
  if (yydebug)                          \
    yy_reduce_print (yyssp, yyvsp, yylsp, Rule, parser); \
} while (0)

/* Nonzero means print parse trace.  It is left uninitialized so that
   multiple parsers can coexist.  */
int yydebug;
#else /* !GRAMMAR_DEBUG */
# define YYDPRINTF(Args) ((void) 0)
# define YY_SYMBOL_PRINT(Title, Kind, Value, Location)
# define YY_STACK_PRINT(Bottom, Top)
# define YY_REDUCE_PRINT(Rule)
#endif /* !GRAMMAR_DEBUG */


/* YYINITDEPTH -- initial size of the parser's stacks.  */
#ifndef YYINITDEPTH
# define YYINITDEPTH 200
#endif

/* YYMAXDEPTH -- maximum size the stacks can grow to (effective only
   if the built-in stack extension method is used).

   Do not make this value too large; the results are undefined if
   YYSTACK_ALLOC_MAXIMUM < YYSTACK_BYTES (YYMAXDEPTH)
   evaluated with infinite-precision integer arithmetic.  */

#ifndef YYMAXDEPTH
# define YYMAXDEPTH 10000
#endif


/* Given a state stack such that *YYBOTTOM is its bottom, such that
   *YYTOP is either its top or is YYTOP_EMPTY to indicate an empty
   stack, and such that *YYCAPACITY is the maximum number of elements it
   can hold without a reallocation, make sure there is enough room to
   store YYADD more elements.  If not, allocate a new stack using
   YYSTACK_ALLOC, copy the existing elements, and adjust *YYBOTTOM,
   *YYTOP, and *YYCAPACITY to reflect the new capacity and memory
   location.  If *YYBOTTOM != YYBOTTOM_NO_FREE, then free the old stack
   using YYSTACK_FREE.  Return 0 if successful or if no reallocation is
   required.  Return YYENOMEM if memory is exhausted.  */
static int
yy_lac_stack_realloc (YYPTRDIFF_T *yycapacity, YYPTRDIFF_T yyadd,
#if GRAMMAR_DEBUG
                      char const *yydebug_prefix,
                      char const *yydebug_suffix,
#endif
                      yy_state_t **yybottom,
                      yy_state_t *yybottom_no_free,
                      yy_state_t **yytop, yy_state_t *yytop_empty)
{
  YYPTRDIFF_T yysize_old =
    *yytop == yytop_empty ? 0 : *yytop - *yybottom + 1;
  YYPTRDIFF_T yysize_new = yysize_old + yyadd;
  if (*yycapacity < yysize_new)
    {
      YYPTRDIFF_T yyalloc = 2 * yysize_new;
      yy_state_t *yybottom_new;
      /* Use YYMAXDEPTH for maximum stack size given that the stack
         should never need to grow larger than the main state stack
         needs to grow without LAC.  */
      if (YYMAXDEPTH < yysize_new)
        {
          YYDPRINTF ((stderr, "%smax size exceeded%s", yydebug_prefix,
                      yydebug_suffix));
          return YYENOMEM;
        }
      if (YYMAXDEPTH < yyalloc)
        yyalloc = YYMAXDEPTH;
      yybottom_new =
        YY_CAST (yy_state_t *,
                 YYSTACK_ALLOC (YY_CAST (YYSIZE_T,
                                         yyalloc * YYSIZEOF (*yybottom_new))));
      if (!yybottom_new)
        {
          YYDPRINTF ((stderr, "%srealloc failed%s", yydebug_prefix,
                      yydebug_suffix));
          return YYENOMEM;
        }
      if (*yytop != yytop_empty)
        {
          YYCOPY (yybottom_new, *yybottom, yysize_old);
          *yytop = yybottom_new + (yysize_old - 1);
        }
      if (*yybottom != yybottom_no_free)
        YYSTACK_FREE (*yybottom);
      *yybottom = yybottom_new;
      *yycapacity = yyalloc;
    }
  return 0;
}

/* Establish the initial context for the current lookahead if no initial
   context is currently established.

   We define a context as a snapshot of the parser stacks.  We define
   the initial context for a lookahead as the context in which the
   parser initially examines that lookahead in order to select a
   syntactic action.  Thus, if the lookahead eventually proves
   syntactically unacceptable (possibly in a later context reached via a
   series of reductions), the initial context can be used to determine
   the exact set of tokens that would be syntactically acceptable in the
   lookahead's place.  Moreover, it is the context after which any
   further semantic actions would be erroneous because they would be
   determined by a syntactically unacceptable token.

   YY_LAC_ESTABLISH should be invoked when a reduction is about to be
   performed in an inconsistent state (which, for the purposes of LAC,
   includes consistent states that don't know they're consistent because
   their default reductions have been disabled).  Iff there is a
   lookahead token, it should also be invoked before reporting a syntax
   error.  This latter case is for the sake of the debugging output.

   For parse.lac=full, the implementation of YY_LAC_ESTABLISH is as
   follows.  If no initial context is currently established for the
   current lookahead, then check if that lookahead can eventually be
   shifted if syntactic actions continue from the current context.
   Report a syntax error if it cannot.  */
#define YY_LAC_ESTABLISH                                                \
do {                                                                    \
  if (!yy_lac_established)                                              \
    {                                                                   \
      YYDPRINTF ((stderr,                                               \
                  "LAC: initial context established for %s\n",          \
                  yysymbol_name (yytoken)));                            \
      yy_lac_established = 1;                                           \
      switch (yy_lac (yyesa, &yyes, &yyes_capacity, yyssp, yytoken))    \
        {                                                               \
        case YYENOMEM:                                                  \
          YYNOMEM;                                                      \
        case 1:                                                         \
          goto yyerrlab;                                                \
        }                                                               \
    }                                                                   \
} while (0)

/* Discard any previous initial lookahead context because of Event,
   which may be a lookahead change or an invalidation of the currently
   established initial context for the current lookahead.

   The most common example of a lookahead change is a shift.  An example
   of both cases is syntax error recovery.  That is, a syntax error
   occurs when the lookahead is syntactically erroneous for the
   currently established initial context, so error recovery manipulates
   the parser stacks to try to find a new initial context in which the
   current lookahead is syntactically acceptable.  If it fails to find
   such a context, it discards the lookahead.  */
#if GRAMMAR_DEBUG
# define YY_LAC_DISCARD(Event)                                           \
do {                                                                     \
  if (yy_lac_established)                                                \
    {                                                                    \
      YYDPRINTF ((stderr, "LAC: initial context discarded due to "       \
                  Event "\n"));                                          \
      yy_lac_established = 0;                                            \
    }                                                                    \
} while (0)
#else
# define YY_LAC_DISCARD(Event) yy_lac_established = 0
#endif

/* Given the stack whose top is *YYSSP, return 0 iff YYTOKEN can
   eventually (after perhaps some reductions) be shifted, return 1 if
   not, or return YYENOMEM if memory is exhausted.  As preconditions and
   postconditions: *YYES_CAPACITY is the allocated size of the array to
   which *YYES points, and either *YYES = YYESA or *YYES points to an
   array allocated with YYSTACK_ALLOC.  yy_lac may overwrite the
   contents of either array, alter *YYES and *YYES_CAPACITY, and free
   any old *YYES other than YYESA.  */
static int
yy_lac (yy_state_t *yyesa, yy_state_t **yyes,
        YYPTRDIFF_T *yyes_capacity, yy_state_t *yyssp, yysymbol_kind_t yytoken)
{
  yy_state_t *yyes_prev = yyssp;
  yy_state_t *yyesp = yyes_prev;
  /* Reduce until we encounter a shift and thereby accept the token.  */
  YYDPRINTF ((stderr, "LAC: checking lookahead %s:", yysymbol_name (yytoken)));
  if (yytoken == YYSYMBOL_YYUNDEF)
    {
      YYDPRINTF ((stderr, " Always Err\n"));
      return 1;
    }
  while (1)
    {
      int yyrule = yypact[+*yyesp];
      if (yypact_value_is_default (yyrule)
          || (yyrule += yytoken) < 0 || YYLAST < yyrule
          || yycheck[yyrule] != yytoken)
        {
          /* Use the default action.  */
          yyrule = yydefact[+*yyesp];
          if (yyrule == 0)
            {
              YYDPRINTF ((stderr, " Err\n"));
              return 1;
            }
        }
      else
        {
          /* Use the action from yytable.  */
          yyrule = yytable[yyrule];
          if (yytable_value_is_error (yyrule))
            {
              YYDPRINTF ((stderr, " Err\n"));
              return 1;
            }
          if (0 < yyrule)
            {
              YYDPRINTF ((stderr, " S%d\n", yyrule));
              return 0;
            }
          yyrule = -yyrule;
        }
      /* By now we know we have to simulate a reduce.  */
      YYDPRINTF ((stderr, " R%d", yyrule - 1));
      {
        /* Pop the corresponding number of values from the stack.  */
        YYPTRDIFF_T yylen = yyr2[yyrule];
        /* First pop from the LAC stack as many tokens as possible.  */
        if (yyesp != yyes_prev)
          {
            YYPTRDIFF_T yysize = yyesp - *yyes + 1;
            if (yylen < yysize)
              {
                yyesp -= yylen;
                yylen = 0;
              }
            else
              {
                yyesp = yyes_prev;
                yylen -= yysize;
              }
          }
        /* Only afterwards look at the main stack.  */
        if (yylen)
          yyesp = yyes_prev -= yylen;
      }
      /* Push the resulting state of the reduction.  */
      {
        yy_state_fast_t yystate;
        {
          const int yylhs = yyr1[yyrule] - YYNTOKENS;
          const int yyi = yypgoto[yylhs] + *yyesp;
          yystate = (0 <= yyi && yyi <= YYLAST && yycheck[yyi] == *yyesp
                     ? yytable[yyi]
                     : yydefgoto[yylhs]);
        }
        if (yyesp == yyes_prev)
          {
            yyesp = *yyes;
            YY_IGNORE_USELESS_CAST_BEGIN
            *yyesp = YY_CAST (yy_state_t, yystate);
            YY_IGNORE_USELESS_CAST_END
          }
        else
          {
            if (yy_lac_stack_realloc (yyes_capacity, 1,
#if GRAMMAR_DEBUG
                                      " (", ")",
#endif
                                      yyes, yyesa, &yyesp, yyes_prev))
              {
                YYDPRINTF ((stderr, "\n"));
                return YYENOMEM;
              }
            YY_IGNORE_USELESS_CAST_BEGIN
            *++yyesp = YY_CAST (yy_state_t, yystate);
            YY_IGNORE_USELESS_CAST_END
          }
        YYDPRINTF ((stderr, " G%d", yystate));
      }
    }
}

/* Context of a parse error.  */
typedef struct
{
  yy_state_t *yyssp;
  yy_state_t *yyesa;
  yy_state_t **yyes;
  YYPTRDIFF_T *yyes_capacity;
  yysymbol_kind_t yytoken;
  YYLTYPE *yylloc;
} yypcontext_t;

/* Put in YYARG at most YYARGN of the expected tokens given the
   current YYCTX, and return the number of tokens stored in YYARG.  If
   YYARG is null, return the number of expected tokens (guaranteed to
   be less than YYNTOKENS).  Return YYENOMEM on memory exhaustion.
   Return 0 if there are more than YYARGN expected tokens, yet fill
   YYARG up to YYARGN. */
static int
yypcontext_expected_tokens (const yypcontext_t *yyctx,
                            yysymbol_kind_t yyarg[], int yyargn)
{
  /* Actual size of YYARG. */
  int yycount = 0;

  int yyx;
  for (yyx = 0; yyx < YYNTOKENS; ++yyx)
    {
      yysymbol_kind_t yysym = YY_CAST (yysymbol_kind_t, yyx);
      if (yysym != YYSYMBOL_YYerror && yysym != YYSYMBOL_YYUNDEF)
        switch (yy_lac (yyctx->yyesa, yyctx->yyes, yyctx->yyes_capacity, yyctx->yyssp, yysym))
          {
          case YYENOMEM:
            return YYENOMEM;
          case 1:
            continue;
          default:
            if (!yyarg)
              ++yycount;
            else if (yycount == yyargn)
              return 0;
            else
              yyarg[yycount++] = yysym;
          }
    }
  if (yyarg && yycount == 0 && 0 < yyargn)
    yyarg[0] = YYSYMBOL_YYEMPTY;
  return yycount;
}




/* The kind of the lookahead of this context.  */
static yysymbol_kind_t
yypcontext_token (const yypcontext_t *yyctx) YY_ATTRIBUTE_UNUSED;

static yysymbol_kind_t
yypcontext_token (const yypcontext_t *yyctx)
{
  return yyctx->yytoken;
}

/* The location of the lookahead of this context.  */
static YYLTYPE *
yypcontext_location (const yypcontext_t *yyctx) YY_ATTRIBUTE_UNUSED;

static YYLTYPE *
yypcontext_location (const yypcontext_t *yyctx)
{
  return yyctx->yylloc;
}

/* User defined function to report a syntax error.  */
static int
yyreport_syntax_error (const yypcontext_t *yyctx, Parser *parser);

/*-----------------------------------------------.
| Release the memory associated to this symbol.  |
`-----------------------------------------------*/

static void
yydestruct (const char *yymsg,
            yysymbol_kind_t yykind, YYSTYPE *yyvaluep, YYLTYPE *yylocationp, Parser *parser)
{
  YY_USE (yyvaluep);
  YY_USE (yylocationp);
  YY_USE (parser);
  if (!yymsg)
    yymsg = "Deleting";
  YY_SYMBOL_PRINT (yymsg, yykind, yyvaluep, yylocationp);

  YY_IGNORE_MAYBE_UNINITIALIZED_BEGIN
  YY_USE (yykind);
  YY_IGNORE_MAYBE_UNINITIALIZED_END
}






/*----------.
| yyparse.  |
`----------*/

int
yyparse (Parser *parser)
{
/* Lookahead token kind.  */
int yychar;


/* The semantic value of the lookahead symbol.  */
/* Default value used for initialization, for pacifying older GCCs
   or non-GCC compilers.  */
YY_INITIAL_VALUE (static YYSTYPE yyval_default;)
YYSTYPE yylval YY_INITIAL_VALUE (= yyval_default);

/* Location data for the lookahead symbol.  */
static YYLTYPE yyloc_default
# if defined GRAMMAR_LTYPE_IS_TRIVIAL && GRAMMAR_LTYPE_IS_TRIVIAL
  = { 1, 1, 1, 1 }
# endif
;
YYLTYPE yylloc = yyloc_default;

    /* Number of syntax errors so far.  */
    int yynerrs = 0;

    yy_state_fast_t yystate = 0;
    /* Number of tokens to shift before error messages enabled.  */
    int yyerrstatus = 0;

    /* Refer to the stacks through separate pointers, to allow yyoverflow
       to reallocate them elsewhere.  */

    /* Their size.  */
    YYPTRDIFF_T yystacksize = YYINITDEPTH;

    /* The state stack: array, bottom, top.  */
    yy_state_t yyssa[YYINITDEPTH];
    yy_state_t *yyss = yyssa;
    yy_state_t *yyssp = yyss;

    /* The semantic value stack: array, bottom, top.  */
    YYSTYPE yyvsa[YYINITDEPTH];
    YYSTYPE *yyvs = yyvsa;
    YYSTYPE *yyvsp = yyvs;

    /* The location stack: array, bottom, top.  */
    YYLTYPE yylsa[YYINITDEPTH];
    YYLTYPE *yyls = yylsa;
    YYLTYPE *yylsp = yyls;

    yy_state_t yyesa[20];
    yy_state_t *yyes = yyesa;
    YYPTRDIFF_T yyes_capacity = 20 < YYMAXDEPTH ? 20 : YYMAXDEPTH;

  /* Whether LAC context is established.  A Boolean.  */
  int yy_lac_established = 0;
  int yyn;
  /* The return value of yyparse.  */
  int yyresult;
  /* Lookahead symbol kind.  */
  yysymbol_kind_t yytoken = YYSYMBOL_YYEMPTY;
  /* The variables used to return semantic value and location from the
     action routines.  */
  YYSTYPE yyval;
  YYLTYPE yyloc;

  /* The locations where the error started and ended.  */
  YYLTYPE yyerror_range[3];



#define YYPOPSTACK(N)   (yyvsp -= (N), yyssp -= (N), yylsp -= (N))

  /* The number of symbols on the RHS of the reduced rule.
     Keep to zero when no symbol should be popped.  */
  int yylen = 0;

  YYDPRINTF ((stderr, "Starting parse\n"));

  yychar = TOKEN_GRAMMAR_EMPTY; /* Cause a token to be read.  */


/* User initialization code.  */
{ yylloc = parser->last.span; }


  yylsp[0] = yylloc;
  goto yysetstate;


/*------------------------------------------------------------.
| yynewstate -- push a new state, which is found in yystate.  |
`------------------------------------------------------------*/
yynewstate:
  /* In all cases, when you get here, the value and location stacks
     have just been pushed.  So pushing a state here evens the stacks.  */
  yyssp++;


/*--------------------------------------------------------------------.
| yysetstate -- set current state (the top of the stack) to yystate.  |
`--------------------------------------------------------------------*/
yysetstate:
  YYDPRINTF ((stderr, "Entering state %d\n", yystate));
  YY_ASSERT (0 <= yystate && yystate < YYNSTATES);
  YY_IGNORE_USELESS_CAST_BEGIN
  *yyssp = YY_CAST (yy_state_t, yystate);
  YY_IGNORE_USELESS_CAST_END
  YY_STACK_PRINT (yyss, yyssp);

  if (yyss + yystacksize - 1 <= yyssp)
#if !defined yyoverflow && !defined YYSTACK_RELOCATE
    YYNOMEM;
#else
    {
      /* Get the current used size of the three stacks, in elements.  */
      YYPTRDIFF_T yysize = yyssp - yyss + 1;

# if defined yyoverflow
      {
        /* Give user a chance to reallocate the stack.  Use copies of
           these so that the &'s don't force the real ones into
           memory.  */
        yy_state_t *yyss1 = yyss;
        YYSTYPE *yyvs1 = yyvs;
        YYLTYPE *yyls1 = yyls;

        /* Each stack pointer address is followed by the size of the
           data in use in that stack, in bytes.  This used to be a
           conditional around just the two extra args, but that might
           be undefined if yyoverflow is a macro.  */
        yyoverflow (YY_("memory exhausted"),
                    &yyss1, yysize * YYSIZEOF (*yyssp),
                    &yyvs1, yysize * YYSIZEOF (*yyvsp),
                    &yyls1, yysize * YYSIZEOF (*yylsp),
                    &yystacksize);
        yyss = yyss1;
        yyvs = yyvs1;
        yyls = yyls1;
      }
# else /* defined YYSTACK_RELOCATE */
      /* Extend the stack our own way.  */
      if (YYMAXDEPTH <= yystacksize)
        YYNOMEM;
      yystacksize *= 2;
      if (YYMAXDEPTH < yystacksize)
        yystacksize = YYMAXDEPTH;

      {
        yy_state_t *yyss1 = yyss;
        union yyalloc *yyptr =
          YY_CAST (union yyalloc *,
                   YYSTACK_ALLOC (YY_CAST (YYSIZE_T, YYSTACK_BYTES (yystacksize))));
        if (! yyptr)
          YYNOMEM;
        YYSTACK_RELOCATE (yyss_alloc, yyss);
        YYSTACK_RELOCATE (yyvs_alloc, yyvs);
        YYSTACK_RELOCATE (yyls_alloc, yyls);
#  undef YYSTACK_RELOCATE
        if (yyss1 != yyssa)
          YYSTACK_FREE (yyss1);
      }
# endif

      yyssp = yyss + yysize - 1;
      yyvsp = yyvs + yysize - 1;
      yylsp = yyls + yysize - 1;

      YY_IGNORE_USELESS_CAST_BEGIN
      YYDPRINTF ((stderr, "Stack size increased to %ld\n",
                  YY_CAST (long, yystacksize)));
      YY_IGNORE_USELESS_CAST_END

      if (yyss + yystacksize - 1 <= yyssp)
        YYABORT;
    }
#endif /* !defined yyoverflow && !defined YYSTACK_RELOCATE */


  if (yystate == YYFINAL)
    YYACCEPT;

  goto yybackup;


/*-----------.
| yybackup.  |
`-----------*/
yybackup:
  /* Do appropriate processing given the current state.  Read a
     lookahead token if we need one and don't already have one.  */

  /* First try to decide what to do without reference to lookahead token.  */
  yyn = yypact[yystate];
  if (yypact_value_is_default (yyn))
    goto yydefault;

  /* Not known => get a lookahead token if don't already have one.  */

  /* YYCHAR is either empty, or end-of-input, or a valid lookahead.  */
  if (yychar == TOKEN_GRAMMAR_EMPTY)
    {
      YYDPRINTF ((stderr, "Reading a token\n"));
      yychar = yylex (&yylval, &yylloc, parser);
    }

  if (yychar <= TOKEN_YYEOF)
    {
      yychar = TOKEN_YYEOF;
      yytoken = YYSYMBOL_YYEOF;
      YYDPRINTF ((stderr, "Now at end of input.\n"));
    }
  else if (yychar == TOKEN_GRAMMAR_error)
    {
      /* The scanner already issued an error message, process directly
         to error recovery.  But do not keep the error token as
         lookahead, it is too special and may lead us to an endless
         loop in error recovery. */
      yychar = TOKEN_GRAMMAR_UNDEF;
      yytoken = YYSYMBOL_YYerror;
      yyerror_range[1] = yylloc;
      goto yyerrlab1;
    }
  else
    {
      yytoken = YYTRANSLATE (yychar);
      YY_SYMBOL_PRINT ("Next token is", yytoken, &yylval, &yylloc);
    }

  /* If the proper action on seeing token YYTOKEN is to reduce or to
     detect an error, take that action.  */
  yyn += yytoken;
  if (yyn < 0 || YYLAST < yyn || yycheck[yyn] != yytoken)
    {
      YY_LAC_ESTABLISH;
      goto yydefault;
    }
  yyn = yytable[yyn];
  if (yyn <= 0)
    {
      if (yytable_value_is_error (yyn))
        goto yyerrlab;
      yyn = -yyn;
      YY_LAC_ESTABLISH;
      goto yyreduce;
    }

  /* Count tokens shifted since error; after three, turn off error
     status.  */
  if (yyerrstatus)
    yyerrstatus--;

  /* Shift the lookahead token.  */
  YY_SYMBOL_PRINT ("Shifting", yytoken, &yylval, &yylloc);
  yystate = yyn;
  YY_IGNORE_MAYBE_UNINITIALIZED_BEGIN
  *++yyvsp = yylval;
  YY_IGNORE_MAYBE_UNINITIALIZED_END
  *++yylsp = yylloc;

  /* Discard the shifted token.  */
  yychar = TOKEN_GRAMMAR_EMPTY;
  YY_LAC_DISCARD ("shift");
  goto yynewstate;


/*-----------------------------------------------------------.
| yydefault -- do the default action for the current state.  |
`-----------------------------------------------------------*/
yydefault:
  yyn = yydefact[yystate];
  if (yyn == 0)
    goto yyerrlab;
  goto yyreduce;


/*-----------------------------.
| yyreduce -- do a reduction.  |
`-----------------------------*/
yyreduce:
  /* yyn is the number of a rule to reduce with.  */
  yylen = yyr2[yyn];

  /* If YYLEN is nonzero, implement the default value of the action:
     '$$ = $1'.

     Otherwise, the following line sets YYVAL to garbage.
     This behavior is undocumented and Bison
     users should not rely upon it.  Assigning to YYVAL
     unconditionally makes the parser a bit smaller, and it avoids a
     GCC warning that YYVAL may be used uninitialized.  */
  yyval = yyvsp[1-yylen];

  /* Default location. */
  YYLLOC_DEFAULT (yyloc, (yylsp - yylen), yylen);
  yyerror_range[1] = yyloc;
  YY_REDUCE_PRINT (yyn);
  {
    int yychar_backup = yychar;
    switch (yyn)
      {
  case 2: /* file: items "the end of the file"  */
                        { parser_finish(parser, (yyloc), (yyvsp[-1].list)); }
    break;

  case 3: /* items: %empty  */
                        { (yyval.list) = parser_list(parser, NULL); }
    break;

  case 4: /* items: items declaration  */
                        { (yyval.list) = parser_append(parser, (yyvsp[-1].list), (yyvsp[0].node)); }
    break;

  case 5: /* items: items statement  */
                        { (yyval.list) = parser_extend(parser, (yyvsp[-1].list), (yyvsp[0].list)); }
    break;

  case 6: /* items: items error "}"  */
                        { (yyval.list) = (yyvsp[-2].list); yyerrok; }
    break;

  case 7: /* declaration: "import" import_path ";"  */
                                                      { (yyval.node) = LIST(IMPORT, (yyloc), (yyvsp[-1].list)); }
    break;

  case 8: /* declaration: "import" "a string" ";"  */
                                                      { (yyval.node) = NODE(IMPORT, (yyloc), LEAF(STRING, (yylsp[-1]), (yyvsp[-1].token))); }
    break;

  case 9: /* declaration: "fn" "a name" "(" formals ")" block  */
                                                      { (yyval.node) = NAMED(FUNCTION, (yyloc), (yyvsp[-4].token), (yylsp[-4]), LIST(LIST, (yylsp[-2]), (yyvsp[-2].list)), (yyvsp[0].node)); }
    break;

  case 10: /* declaration: "composite" "fn" "a name" "(" formals ")" block  */
    { (yyval.node) = with_flags(NAMED(FUNCTION, (yyloc), (yyvsp[-4].token), (yylsp[-4]), LIST(LIST, (yylsp[-2]), (yyvsp[-2].list)), (yyvsp[0].node)), AST_COMPOSITE); }
    break;

  case 11: /* declaration: "update" "a name" "(" formals ")" block  */
                                                      { (yyval.node) = NAMED(UPDATE, (yyloc), (yyvsp[-4].token), (yylsp[-4]), LIST(LIST, (yylsp[-2]), (yyvsp[-2].list)), (yyvsp[0].node)); }
    break;

  case 12: /* declaration: "model" "a name" block  */
                                                      { (yyval.node) = NAMED(MODEL, (yyloc), (yyvsp[-1].token), (yylsp[-1]), (yyvsp[0].node)); }
    break;

  case 13: /* declaration: "layout" "a name" setting_block  */
                                  { (yyval.node) = parser_setting_owner(parser, AST_LAYOUT, (yyloc), (yyvsp[-1].token), (yylsp[-1]), (yyvsp[0].node)); }
    break;

  case 14: /* declaration: "precision" "a name" setting_block  */
                                  { (yyval.node) = parser_setting_owner(parser, AST_PRECISION, (yyloc), (yyvsp[-1].token), (yylsp[-1]), (yyvsp[0].node)); }
    break;

  case 15: /* declaration: "recipe" "a name" setting_block  */
                                  { (yyval.node) = parser_setting_owner(parser, AST_RECIPE, (yyloc), (yyvsp[-1].token), (yylsp[-1]), (yyvsp[0].node)); }
    break;

  case 16: /* declaration: setting_keyword error setting_block  */
                                                      { (yyval.node) = (yyvsp[0].node); yyerrok; }
    break;

  case 17: /* declaration: setting_keyword error ";"  */
                                                      { (yyval.node) = NULL; yyerrok; }
    break;

  case 21: /* import_path: word  */
                        { (yyval.list) = parser_list(parser, LEAF(NAME, (yylsp[0]), (yyvsp[0].token))); }
    break;

  case 22: /* import_path: import_path "." word  */
                        { (yyval.list) = parser_append(parser, (yyvsp[-2].list), LEAF(NAME, (yylsp[0]), (yyvsp[0].token))); }
    break;

  case 23: /* formals: %empty  */
                        { (yyval.list) = parser_list(parser, NULL); }
    break;

  case 25: /* formal_list: lead formal  */
                                { (yyval.list) = parser_formal(parser, parser_list(parser, NULL), (yyvsp[-1].group), (yyvsp[0].node)); }
    break;

  case 26: /* formal_list: formal_list separator formal  */
                                { (yyval.list) = parser_formal(parser, (yyvsp[-2].list), (yyvsp[-1].group), (yyvsp[0].node)); }
    break;

  case 27: /* lead: %empty  */
                        { (yyval.group) = GROUP_PLAIN; }
    break;

  case 28: /* lead: "over"  */
                        { (yyval.group) = GROUP_OVER; }
    break;

  case 29: /* lead: "to"  */
                        { (yyval.group) = GROUP_TO; }
    break;

  case 30: /* separator: ","  */
                        { (yyval.group) = GROUP_PLAIN; }
    break;

  case 31: /* separator: "over"  */
                        { (yyval.group) = GROUP_OVER; }
    break;

  case 32: /* separator: "to"  */
                        { (yyval.group) = GROUP_TO; }
    break;

  case 33: /* formal: "a name"  */
                          { (yyval.node) = NAMED(FORMAL, (yyloc), (yyvsp[0].token), (yylsp[0]), NULL); }
    break;

  case 34: /* formal: "a name" "..."  */
                          { (yyval.node) = with_flags(NAMED(FORMAL, (yyloc), (yyvsp[-1].token), (yylsp[-1]), NULL), AST_VARIADIC); }
    break;

  case 35: /* formal: "a name" "=" expression  */
                          { (yyval.node) = NAMED(FORMAL, (yyloc), (yyvsp[-2].token), (yylsp[-2]), (yyvsp[0].node)); }
    break;

  case 36: /* block: "{" statements "}"  */
                                  { (yyval.node) = parser_block(parser, (yyloc), (yyvsp[-1].list)); }
    break;

  case 37: /* block: "{" statements error "}"  */
                                  { (yyval.node) = parser_block(parser, (yyloc), (yyvsp[-2].list)); yyerrok; }
    break;

  case 38: /* statements: %empty  */
                        { (yyval.list) = parser_list(parser, NULL); }
    break;

  case 39: /* statements: statements statement  */
                        { (yyval.list) = parser_extend(parser, (yyvsp[-1].list), (yyvsp[0].list)); }
    break;

  case 40: /* statement: simple  */
                                  { (yyval.list) = parser_list(parser, (yyvsp[0].node)); }
    break;

  case 41: /* statement: "axis" axis_items ";"  */
                                  { (yyval.list) = parser_group((yyvsp[-1].list), (yyloc)); }
    break;

  case 42: /* statement: "const" const_items ";"  */
                                  { (yyval.list) = parser_group((yyvsp[-1].list), (yyloc)); }
    break;

  case 43: /* statement: "input" names ":" type ";"  */
    {
      for (int i = 0; i < (yyvsp[-3].list)->count; i++) {
        (yyvsp[-3].list)->at[i] = declared(parser, AST_INPUT, (yyvsp[-3].list)->at[i], KIDS((yyvsp[-1].node)));
      }
      (yyval.list) = parser_group((yyvsp[-3].list), (yyloc));
    }
    break;

  case 44: /* statement: "state" names ":" axes initial combine ";"  */
    {
      Ast *drawn = (yyvsp[-2].node) && (yyvsp[-2].node)->kind == AST_LIST ? (yyvsp[-2].node)->kids[0] : NULL, *constant = drawn ? NULL : (yyvsp[-2].node);
      for (int i = 0; i < (yyvsp[-5].list)->count; i++) {
        (yyvsp[-5].list)->at[i] = declared(parser, AST_STATE, (yyvsp[-5].list)->at[i], KIDS((yyvsp[-3].node), NULL, drawn, constant, (yyvsp[-1].node)));
      }
      (yyval.list) = parser_group((yyvsp[-5].list), (yyloc));
    }
    break;

  case 45: /* statement: "state" names "like" name initial combine ";"  */
    {
      Ast *drawn = (yyvsp[-2].node) && (yyvsp[-2].node)->kind == AST_LIST ? (yyvsp[-2].node)->kids[0] : NULL, *constant = drawn ? NULL : (yyvsp[-2].node);
      for (int i = 0; i < (yyvsp[-5].list)->count; i++) {
        (yyvsp[-5].list)->at[i] = declared(parser, AST_STATE, (yyvsp[-5].list)->at[i], KIDS(NULL, (yyvsp[-3].node), drawn, constant, (yyvsp[-1].node)));
      }
      (yyval.list) = parser_group((yyvsp[-5].list), (yyloc));
    }
    break;

  case 46: /* statement: error ";"  */
                                  { (yyval.list) = parser_list(parser, NULL); yyerrok; }
    break;

  case 47: /* statement: error block else_part  */
                                  { (yyval.list) = parser_list(parser, NULL); yyerrok; }
    break;

  case 48: /* combine: %empty  */
                                  { (yyval.node) = NULL; }
    break;

  case 49: /* combine: "," "a name" "=" name  */
                                  { (yyval.node) = NAMED(ARGUMENT, (yyloc), (yyvsp[-2].token), (yylsp[-2]), (yyvsp[0].node)); }
    break;

  case 50: /* simple: "param" "a name" ":" axes initial ";"  */
    {
      Ast *drawn = (yyvsp[-1].node) && (yyvsp[-1].node)->kind == AST_LIST ? (yyvsp[-1].node)->kids[0] : NULL;
      (yyval.node) = NAMED(PARAM, (yyloc), (yyvsp[-4].token), (yylsp[-4]), (yyvsp[-2].node), drawn, drawn ? NULL : (yyvsp[-1].node));
    }
    break;

  case 51: /* simple: "carry" "a name" ":" axes "=" expression ";"  */
                                                     { (yyval.node) = NAMED(CARRY, (yyloc), (yyvsp[-5].token), (yylsp[-5]), (yyvsp[-3].node), (yyvsp[-1].node)); }
    break;

  case 52: /* simple: "output" "a name" ";"  */
                                                     { (yyval.node) = NAMED(OUTPUT, (yyloc), (yyvsp[-1].token), (yylsp[-1]), NULL); }
    break;

  case 53: /* simple: "output" "a name" "=" expression ";"  */
                                                     { (yyval.node) = NAMED(OUTPUT, (yyloc), (yyvsp[-3].token), (yylsp[-3]), (yyvsp[-1].node)); }
    break;

  case 54: /* simple: "return" expressions ";"  */
                                                     { (yyval.node) = LIST(RETURN, (yyloc), (yyvsp[-1].list)); }
    break;

  case 55: /* simple: name "=" expression label ";"  */
                                                     { (yyval.node) = NODE(ASSIGN, (yyloc), NODE(LIST, (yylsp[-4]), (yyvsp[-4].node)), (yyvsp[-2].node), (yyvsp[-1].node)); }
    break;

  case 56: /* simple: "(" names ")" "=" expression label ";"  */
    { (yyval.node) = NODE(ASSIGN, (yyloc), LIST(LIST, (yylsp[-5]), (yyvsp[-5].list)), (yyvsp[-2].node), (yyvsp[-1].node)); }
    break;

  case 57: /* simple: "repeat" count block  */
                                                     { (yyval.node) = NODE(REPEAT, (yyloc), (yyvsp[-1].node), NULL, (yyvsp[0].node)); }
    break;

  case 58: /* simple: "repeat" count "as" name block  */
                                                     { (yyval.node) = NODE(REPEAT, (yyloc), (yyvsp[-3].node), (yyvsp[-1].node), (yyvsp[0].node)); }
    break;

  case 59: /* simple: "scan" name block  */
                                                     { (yyval.node) = NODE(SCAN, (yyloc), (yyvsp[-1].node), (yyvsp[0].node)); }
    break;

  case 61: /* if: "if" expression block else_part  */
                                                     { (yyval.node) = NODE(IF, (yyloc), (yyvsp[-2].node), (yyvsp[-1].node), (yyvsp[0].node)); }
    break;

  case 62: /* else_part: %empty  */
                        { (yyval.node) = NULL; }
    break;

  case 63: /* else_part: "else" block  */
                        { (yyval.node) = (yyvsp[0].node); }
    break;

  case 64: /* else_part: "else" if  */
                        { (yyval.node) = (yyvsp[0].node); }
    break;

  case 66: /* count: count "+" count_product  */
                                     { (yyval.node) = binary(parser, (yyloc), "+", (yylsp[-1]), (yyvsp[-2].node), (yyvsp[0].node)); }
    break;

  case 67: /* count: count "-" count_product  */
                                     { (yyval.node) = binary(parser, (yyloc), "-", (yylsp[-1]), (yyvsp[-2].node), (yyvsp[0].node)); }
    break;

  case 69: /* count_product: count_product "*" unary  */
                                     { (yyval.node) = binary(parser, (yyloc), "*", (yylsp[-1]), (yyvsp[-2].node), (yyvsp[0].node)); }
    break;

  case 70: /* count_product: count_product "/" unary  */
                                     { (yyval.node) = binary(parser, (yyloc), "/", (yylsp[-1]), (yyvsp[-2].node), (yyvsp[0].node)); }
    break;

  case 71: /* count_product: count_product "%" unary  */
                                     { (yyval.node) = binary(parser, (yyloc), "%", (yylsp[-1]), (yyvsp[-2].node), (yyvsp[0].node)); }
    break;

  case 72: /* name: "a name"  */
                                     { (yyval.node) = LEAF(NAME, (yylsp[0]), (yyvsp[0].token)); }
    break;

  case 73: /* names: name  */
                                     { (yyval.list) = parser_list(parser, (yyvsp[0].node)); }
    break;

  case 74: /* names: names "," name  */
                                     { (yyval.list) = parser_append(parser, (yyvsp[-2].list), (yyvsp[0].node)); }
    break;

  case 75: /* axis_items: axis_item  */
                                     { (yyval.list) = parser_list(parser, (yyvsp[0].node)); }
    break;

  case 76: /* axis_items: axis_items "," axis_item  */
                                     { (yyval.list) = parser_append(parser, (yyvsp[-2].list), (yyvsp[0].node)); }
    break;

  case 77: /* axis_item: "a name"  */
                                     { (yyval.node) = NAMED(AXIS, (yyloc), (yyvsp[0].token), (yylsp[0]), NULL, NULL); }
    break;

  case 78: /* axis_item: "a name" "=" expression  */
                                     { (yyval.node) = NAMED(AXIS, (yyloc), (yyvsp[-2].token), (yylsp[-2]), (yyvsp[0].node), NULL); }
    break;

  case 79: /* axis_item: "a name" "like" name  */
                                     { (yyval.node) = NAMED(AXIS, (yyloc), (yyvsp[-2].token), (yylsp[-2]), NULL, (yyvsp[0].node)); }
    break;

  case 80: /* const_items: const_item  */
                                     { (yyval.list) = parser_list(parser, (yyvsp[0].node)); }
    break;

  case 81: /* const_items: const_items "," const_item  */
                                     { (yyval.list) = parser_append(parser, (yyvsp[-2].list), (yyvsp[0].node)); }
    break;

  case 82: /* const_item: "a name" "=" expression  */
                                     { (yyval.node) = NAMED(CONST, (yyloc), (yyvsp[-2].token), (yylsp[-2]), (yyvsp[0].node)); }
    break;

  case 83: /* initial: %empty  */
                                     { (yyval.node) = NULL; }
    break;

  case 84: /* initial: "~" expression  */
                                     { (yyval.node) = NODE(LIST, (yyloc), (yyvsp[0].node)); }
    break;

  case 85: /* initial: "=" expression  */
                                     { (yyval.node) = (yyvsp[0].node); }
    break;

  case 86: /* label: %empty  */
                                     { (yyval.node) = NULL; }
    break;

  case 87: /* label: "a label"  */
                                     { (yyval.node) = LEAF(LABEL, (yylsp[0]), (yyvsp[0].token)); }
    break;

  case 88: /* type: "a name" axes  */
                                     { (yyval.node) = parser_type(parser, (yyloc), (yyvsp[-1].token), (yylsp[-1]), NULL, (yyvsp[0].node)); }
    break;

  case 89: /* type: "a name" "(" name ")" axes  */
                                     { (yyval.node) = parser_type(parser, (yyloc), (yyvsp[-4].token), (yylsp[-4]), (yyvsp[-2].node), (yyvsp[0].node)); }
    break;

  case 90: /* cast_type: "a name"  */
                                     { (yyval.node) = parser_type(parser, (yyloc), (yyvsp[0].token), (yylsp[0]), NULL, NULL); }
    break;

  case 91: /* cast_type: "a name" "(" name ")"  */
                                     { (yyval.node) = parser_type(parser, (yyloc), (yyvsp[-3].token), (yylsp[-3]), (yyvsp[-1].node), NULL); }
    break;

  case 92: /* axes: "[" "]"  */
                                     { (yyval.node) = parser_node(parser, AST_AXES, (yyloc), NULL, 0); }
    break;

  case 93: /* axes: "[" axes_items "]"  */
                                     { (yyval.node) = LIST(AXES, (yyloc), (yyvsp[-1].list)); }
    break;

  case 94: /* axes_items: axes_item  */
                                     { (yyval.list) = parser_list(parser, (yyvsp[0].node)); }
    break;

  case 95: /* axes_items: axes_items "," axes_item  */
                                     { (yyval.list) = parser_append(parser, (yyvsp[-2].list), (yyvsp[0].node)); }
    break;

  case 96: /* axes_items: axes_items "|" axes_item  */
    { (yyval.list) = parser_append(parser, parser_append(parser, (yyvsp[-2].list), parser_node(parser, AST_BAR, (yylsp[-1]), NULL, 0)), (yyvsp[0].node)); }
    break;

  case 97: /* axes_items: axes_items "`;` between axes" axes_item  */
    { (yyval.list) = parser_append(parser, parser_append(parser, (yyvsp[-2].list), parser_node(parser, AST_SEMICOLON, (yylsp[-1]), NULL, 0)), (yyvsp[0].node)); }
    break;

  case 98: /* axes_item: "a name"  */
                                     { (yyval.node) = LEAF(NAME, (yylsp[0]), (yyvsp[0].token)); }
    break;

  case 99: /* axes_item: "a name" "..."  */
    { (yyval.node) = with_flags(parser_named(parser, AST_NAME, (yyloc), (yyvsp[-1].token), (yylsp[-1]), NULL, 0), AST_VARIADIC); }
    break;

  case 100: /* expressions: expression  */
                                     { (yyval.list) = parser_list(parser, (yyvsp[0].node)); }
    break;

  case 101: /* expressions: expressions "," expression  */
                                     { (yyval.list) = parser_append(parser, (yyvsp[-2].list), (yyvsp[0].node)); }
    break;

  case 103: /* expression: expression "or" conjunction  */
                                     { (yyval.node) = binary(parser, (yyloc), "or", (yylsp[-1]), (yyvsp[-2].node), (yyvsp[0].node)); }
    break;

  case 105: /* conjunction: conjunction "and" negation  */
                                     { (yyval.node) = binary(parser, (yyloc), "and", (yylsp[-1]), (yyvsp[-2].node), (yyvsp[0].node)); }
    break;

  case 107: /* negation: "not" negation  */
                                     { (yyval.node) = unary(parser, (yyloc), "not", (yylsp[-1]), (yyvsp[0].node)); }
    break;

  case 109: /* comparison: sum "==" sum  */
                                     { (yyval.node) = binary(parser, (yyloc), "==", (yylsp[-1]), (yyvsp[-2].node), (yyvsp[0].node)); }
    break;

  case 110: /* comparison: sum "!=" sum  */
                                     { (yyval.node) = binary(parser, (yyloc), "!=", (yylsp[-1]), (yyvsp[-2].node), (yyvsp[0].node)); }
    break;

  case 111: /* comparison: sum "<" sum  */
                                     { (yyval.node) = binary(parser, (yyloc), "<", (yylsp[-1]), (yyvsp[-2].node), (yyvsp[0].node)); }
    break;

  case 112: /* comparison: sum "<=" sum  */
                                     { (yyval.node) = binary(parser, (yyloc), "<=", (yylsp[-1]), (yyvsp[-2].node), (yyvsp[0].node)); }
    break;

  case 113: /* comparison: sum ">" sum  */
                                     { (yyval.node) = binary(parser, (yyloc), ">", (yylsp[-1]), (yyvsp[-2].node), (yyvsp[0].node)); }
    break;

  case 114: /* comparison: sum ">=" sum  */
                                     { (yyval.node) = binary(parser, (yyloc), ">=", (yylsp[-1]), (yyvsp[-2].node), (yyvsp[0].node)); }
    break;

  case 116: /* sum: sum "+" product  */
                                     { (yyval.node) = binary(parser, (yyloc), "+", (yylsp[-1]), (yyvsp[-2].node), (yyvsp[0].node)); }
    break;

  case 117: /* sum: sum "-" product  */
                                     { (yyval.node) = binary(parser, (yyloc), "-", (yylsp[-1]), (yyvsp[-2].node), (yyvsp[0].node)); }
    break;

  case 119: /* product: product "*" cast  */
                                     { (yyval.node) = binary(parser, (yyloc), "*", (yylsp[-1]), (yyvsp[-2].node), (yyvsp[0].node)); }
    break;

  case 120: /* product: product "/" cast  */
                                     { (yyval.node) = binary(parser, (yyloc), "/", (yylsp[-1]), (yyvsp[-2].node), (yyvsp[0].node)); }
    break;

  case 121: /* product: product "%" cast  */
                                     { (yyval.node) = binary(parser, (yyloc), "%", (yylsp[-1]), (yyvsp[-2].node), (yyvsp[0].node)); }
    break;

  case 123: /* cast: cast "as" cast_type  */
                                     { (yyval.node) = NODE(AS, (yyloc), (yyvsp[-2].node), (yyvsp[0].node)); }
    break;

  case 125: /* unary: "-" unary  */
                                     { (yyval.node) = unary(parser, (yyloc), "-", (yylsp[-1]), (yyvsp[0].node)); }
    break;

  case 127: /* power: postfix "^" unary  */
                                     { (yyval.node) = binary(parser, (yyloc), "^", (yylsp[-1]), (yyvsp[-2].node), (yyvsp[0].node)); }
    break;

  case 129: /* postfix: postfix "[" brackets "]"  */
                                     { (yyval.node) = NODE(INDEX, (yyloc), (yyvsp[-3].node), LIST(LIST, (yylsp[-1]), (yyvsp[-1].list))); }
    break;

  case 130: /* postfix: postfix "." "an integer"  */
                                     { (yyval.node) = parser_member(parser, (yyloc), (yyvsp[-2].node), (yyvsp[0].token), (yylsp[0])); }
    break;

  case 131: /* postfix: postfix "." "a number"  */
                                     { (yyval.node) = parser_member(parser, (yyloc), (yyvsp[-2].node), (yyvsp[0].token), (yylsp[0])); }
    break;

  case 133: /* primary: "a name" "(" arguments ")"  */
                                     { (yyval.node) = NAMED(CALL, (yyloc), (yyvsp[-3].token), (yylsp[-3]), LIST(LIST, (yylsp[-1]), (yyvsp[-1].list))); }
    break;

  case 134: /* primary: "an integer"  */
                                     { (yyval.node) = with_flags(LEAF(NUMBER, (yylsp[0]), (yyvsp[0].token)), AST_INTEGER); }
    break;

  case 135: /* primary: "a number"  */
                                     { (yyval.node) = LEAF(NUMBER, (yylsp[0]), (yyvsp[0].token)); }
    break;

  case 136: /* primary: "a string"  */
                                     { (yyval.node) = LEAF(STRING, (yylsp[0]), (yyvsp[0].token)); }
    break;

  case 137: /* primary: "true"  */
                                     { (yyval.node) = parser_node(parser, AST_TRUE, (yylsp[0]), NULL, 0); }
    break;

  case 138: /* primary: "false"  */
                                     { (yyval.node) = parser_node(parser, AST_FALSE, (yylsp[0]), NULL, 0); }
    break;

  case 139: /* primary: "(" expression ")"  */
                                     { (yyval.node) = with_flags((yyvsp[-1].node), AST_PARENTHESES); }
    break;

  case 140: /* primary: "(" elements ")"  */
                                     { (yyval.node) = LIST(TUPLE, (yyloc), (yyvsp[-1].list)); }
    break;

  case 141: /* elements: expression "," expression  */
                                     { (yyval.list) = parser_append(parser, parser_list(parser, (yyvsp[-2].node)), (yyvsp[0].node)); }
    break;

  case 142: /* elements: elements "," expression  */
                                     { (yyval.list) = parser_append(parser, (yyvsp[-2].list), (yyvsp[0].node)); }
    break;

  case 143: /* arguments: %empty  */
                                     { (yyval.list) = parser_list(parser, NULL); }
    break;

  case 145: /* argument_list: lead argument  */
                                     { (yyval.list) = parser_argument(parser, parser_list(parser, NULL), (yyvsp[-1].group), (yyvsp[0].node)); }
    break;

  case 146: /* argument_list: argument_list separator argument  */
                                     { (yyval.list) = parser_argument(parser, (yyvsp[-2].list), (yyvsp[-1].group), (yyvsp[0].node)); }
    break;

  case 147: /* argument_list: argument_list "->" argument  */
                                     { (yyval.list) = parser_argument(parser, (yyvsp[-2].list), GROUP_ARROW, (yyvsp[0].node)); }
    break;

  case 148: /* argument: expression  */
                                     { (yyval.node) = NODE(ARGUMENT, (yyloc), (yyvsp[0].node)); }
    break;

  case 149: /* argument: "a name" "=" expression  */
                                     { (yyval.node) = NAMED(ARGUMENT, (yyloc), (yyvsp[-2].token), (yylsp[-2]), (yyvsp[0].node)); }
    break;

  case 150: /* argument: "a name" "..."  */
    { (yyval.node) = with_flags(NODE(ARGUMENT, (yyloc), LEAF(NAME, (yylsp[-1]), (yyvsp[-1].token))), AST_VARIADIC); }
    break;

  case 151: /* brackets: bracket  */
                                     { (yyval.list) = parser_list(parser, (yyvsp[0].node)); }
    break;

  case 152: /* brackets: brackets "," bracket  */
                                     { (yyval.list) = parser_append(parser, (yyvsp[-2].list), (yyvsp[0].node)); }
    break;

  case 154: /* bracket: "a name" ":" expression  */
    { (yyval.node) = NODE(SLICE, (yyloc), LEAF(NAME, (yylsp[-2]), (yyvsp[-2].token)), (yyvsp[0].node), NULL, NULL); }
    break;

  case 155: /* bracket: "a name" ":" expression ".." expression  */
    { (yyval.node) = NODE(SLICE, (yyloc), LEAF(NAME, (yylsp[-4]), (yyvsp[-4].token)), (yyvsp[-2].node), (yyvsp[0].node), NULL); }
    break;

  case 156: /* bracket: "a name" ":" expression ".." expression "->" name  */
    { (yyval.node) = NODE(SLICE, (yyloc), LEAF(NAME, (yylsp[-6]), (yyvsp[-6].token)), (yyvsp[-4].node), (yyvsp[-2].node), (yyvsp[0].node)); }
    break;

  case 157: /* bracket: expression "->" rename_target  */
                                     { (yyval.node) = parser_rename(parser, (yyloc), (yyvsp[-2].node), (yyvsp[0].node)); }
    break;

  case 158: /* rename_target: name  */
                                     { (yyval.node) = NODE(LIST, (yyloc), (yyvsp[0].node)); }
    break;

  case 159: /* rename_target: "(" names ")"  */
                                     { (yyval.node) = LIST(LIST, (yyloc), (yyvsp[-1].list)); }
    break;

  case 160: /* setting_block: "{" settings "}"  */
                                     { (yyval.node) = parser_block(parser, (yyloc), (yyvsp[-1].list)); }
    break;

  case 161: /* setting_block: "{" settings error "}"  */
                                     { (yyval.node) = parser_block(parser, (yyloc), (yyvsp[-2].list)); yyerrok; }
    break;

  case 162: /* settings: %empty  */
                                     { (yyval.list) = parser_list(parser, NULL); }
    break;

  case 163: /* settings: settings setting  */
                                     { (yyval.list) = parser_append(parser, (yyvsp[-1].list), (yyvsp[0].node)); }
    break;

  case 164: /* settings: settings error ";"  */
                                     { (yyval.list) = (yyvsp[-2].list); yyerrok; }
    break;

  case 165: /* setting: phrases ";"  */
                                     { (yyval.node) = NODE(SETTING, (yyloc), LIST(LIST, (yylsp[-1]), (yyvsp[-1].list)), NULL, NULL); }
    break;

  case 166: /* setting: phrases ":" phrases ";"  */
                                     { (yyval.node) = NODE(SETTING, (yyloc), LIST(LIST, (yylsp[-3]), (yyvsp[-3].list)), LIST(LIST, (yylsp[-1]), (yyvsp[-1].list)), NULL); }
    break;

  case 167: /* setting: phrases "->" targets ";"  */
                                       { (yyval.node) = NODE(SETTING, (yyloc), LIST(LIST, (yylsp[-3]), (yyvsp[-3].list)), NULL, LIST(LIST, (yylsp[-1]), (yyvsp[-1].list))); }
    break;

  case 168: /* setting: phrases ":" phrases "->" targets ";"  */
    { (yyval.node) = NODE(SETTING, (yyloc), LIST(LIST, (yylsp[-5]), (yyvsp[-5].list)), LIST(LIST, (yylsp[-3]), (yyvsp[-3].list)), LIST(LIST, (yylsp[-1]), (yyvsp[-1].list))); }
    break;

  case 169: /* targets: target  */
                                     { (yyval.list) = parser_list(parser, (yyvsp[0].node)); }
    break;

  case 170: /* targets: targets "," target  */
                                     { (yyval.list) = parser_append(parser, (yyvsp[-2].list), (yyvsp[0].node)); }
    break;

  case 172: /* target: "a name" "(" arguments ")"  */
                                     { (yyval.node) = NAMED(CALL, (yyloc), (yyvsp[-3].token), (yylsp[-3]), LIST(LIST, (yylsp[-1]), (yyvsp[-1].list))); }
    break;

  case 173: /* phrases: phrase  */
                                     { (yyval.list) = parser_list(parser, (yyvsp[0].node)); }
    break;

  case 174: /* phrases: phrases "," phrase  */
                                     { (yyval.list) = parser_append(parser, (yyvsp[-2].list), (yyvsp[0].node)); }
    break;

  case 175: /* phrase: terms  */
                                     { (yyval.node) = NODE(PHRASE, (yyloc), LIST(LIST, (yylsp[0]), (yyvsp[0].list)), NULL); }
    break;

  case 176: /* phrase: terms "=" expression  */
                                     { (yyval.node) = NODE(PHRASE, (yyloc), LIST(LIST, (yylsp[-2]), (yyvsp[-2].list)), (yyvsp[0].node)); }
    break;

  case 177: /* phrase: terms "=" range  */
                                     { (yyval.node) = NODE(PHRASE, (yyloc), LIST(LIST, (yylsp[-2]), (yyvsp[-2].list)), (yyvsp[0].node)); }
    break;

  case 178: /* range: expression ".." expression  */
                                     { (yyval.node) = NAMED(RANGE, (yyloc), spelled(parser, ".."), (yylsp[-1]), (yyvsp[-2].node), (yyvsp[0].node)); }
    break;

  case 179: /* terms: term  */
                                     { (yyval.list) = parser_list(parser, (yyvsp[0].node)); }
    break;

  case 180: /* terms: terms term  */
                                     { (yyval.list) = parser_append(parser, (yyvsp[-1].list), (yyvsp[0].node)); }
    break;

  case 181: /* term: path  */
                                     { (yyval.node) = LEAF(PATH, (yylsp[0]), (yyvsp[0].token)); }
    break;

  case 182: /* term: "a label"  */
                                     { (yyval.node) = LEAF(PATH, (yylsp[0]), spelled(parser, "@%s", (yyvsp[0].token).text)); }
    break;

  case 183: /* term: "a name" "(" arguments ")"  */
                                     { (yyval.node) = NAMED(CALL, (yyloc), (yyvsp[-3].token), (yylsp[-3]), LIST(LIST, (yylsp[-1]), (yyvsp[-1].list))); }
    break;

  case 184: /* term: "an integer"  */
                                     { (yyval.node) = with_flags(LEAF(NUMBER, (yylsp[0]), (yyvsp[0].token)), AST_INTEGER); }
    break;

  case 185: /* term: "a number"  */
                                     { (yyval.node) = LEAF(NUMBER, (yylsp[0]), (yyvsp[0].token)); }
    break;

  case 186: /* term: "an integer" ".." "an integer"  */
    { (yyval.node) = NAMED(RANGE, (yyloc), spelled(parser, ".."), (yylsp[-1]), with_flags(LEAF(NUMBER, (yylsp[-2]), (yyvsp[-2].token)), AST_INTEGER),
                 with_flags(LEAF(NUMBER, (yylsp[0]), (yyvsp[0].token)), AST_INTEGER)); }
    break;

  case 187: /* term: "a string"  */
                                     { (yyval.node) = LEAF(STRING, (yylsp[0]), (yyvsp[0].token)); }
    break;

  case 189: /* path: "*"  */
                                     { (yyval.token) = spelled(parser, "*"); }
    break;

  case 190: /* path: path "." path_part  */
                                     { (yyval.token) = spelled(parser, "%s.%s", (yyvsp[-2].token).text, (yyvsp[0].token).text); }
    break;

  case 194: /* path_part: "*"  */
                                         { (yyval.token) = spelled(parser, "*"); }
    break;



        default: break;
      }
    if (yychar_backup != yychar)
      YY_LAC_DISCARD ("yychar change");
  }
  /* User semantic actions sometimes alter yychar, and that requires
     that yytoken be updated with the new translation.  We take the
     approach of translating immediately before every use of yytoken.
     One alternative is translating here after every semantic action,
     but that translation would be missed if the semantic action invokes
     YYABORT, YYACCEPT, or YYERROR immediately after altering yychar or
     if it invokes YYBACKUP.  In the case of YYABORT or YYACCEPT, an
     incorrect destructor might then be invoked immediately.  In the
     case of YYERROR or YYBACKUP, subsequent parser actions might lead
     to an incorrect destructor call or verbose syntax error message
     before the lookahead is translated.  */
  YY_SYMBOL_PRINT ("-> $$ =", YY_CAST (yysymbol_kind_t, yyr1[yyn]), &yyval, &yyloc);

  YYPOPSTACK (yylen);
  yylen = 0;

  *++yyvsp = yyval;
  *++yylsp = yyloc;

  /* Now 'shift' the result of the reduction.  Determine what state
     that goes to, based on the state we popped back to and the rule
     number reduced by.  */
  {
    const int yylhs = yyr1[yyn] - YYNTOKENS;
    const int yyi = yypgoto[yylhs] + *yyssp;
    yystate = (0 <= yyi && yyi <= YYLAST && yycheck[yyi] == *yyssp
               ? yytable[yyi]
               : yydefgoto[yylhs]);
  }

  goto yynewstate;


/*--------------------------------------.
| yyerrlab -- here on detecting error.  |
`--------------------------------------*/
yyerrlab:
  /* Make sure we have latest lookahead translation.  See comments at
     user semantic actions for why this is necessary.  */
  yytoken = yychar == TOKEN_GRAMMAR_EMPTY ? YYSYMBOL_YYEMPTY : YYTRANSLATE (yychar);
  /* If not already recovering from an error, report this error.  */
  if (!yyerrstatus)
    {
      ++yynerrs;
      {
        yypcontext_t yyctx
          = {yyssp, yyesa, &yyes, &yyes_capacity, yytoken, &yylloc};
        if (yychar != TOKEN_GRAMMAR_EMPTY)
          YY_LAC_ESTABLISH;
        if (yyreport_syntax_error (&yyctx, parser) == 2)
          YYNOMEM;
      }
    }

  yyerror_range[1] = yylloc;
  if (yyerrstatus == 3)
    {
      /* If just tried and failed to reuse lookahead token after an
         error, discard it.  */

      if (yychar <= TOKEN_YYEOF)
        {
          /* Return failure if at end of input.  */
          if (yychar == TOKEN_YYEOF)
            YYABORT;
        }
      else
        {
          yydestruct ("Error: discarding",
                      yytoken, &yylval, &yylloc, parser);
          yychar = TOKEN_GRAMMAR_EMPTY;
        }
    }

  /* Else will try to reuse lookahead token after shifting the error
     token.  */
  goto yyerrlab1;


/*---------------------------------------------------.
| yyerrorlab -- error raised explicitly by YYERROR.  |
`---------------------------------------------------*/
yyerrorlab:
  /* Pacify compilers when the user code never invokes YYERROR and the
     label yyerrorlab therefore never appears in user code.  */
  if (0)
    YYERROR;
  ++yynerrs;

  /* Do not reclaim the symbols of the rule whose action triggered
     this YYERROR.  */
  YYPOPSTACK (yylen);
  yylen = 0;
  YY_STACK_PRINT (yyss, yyssp);
  yystate = *yyssp;
  goto yyerrlab1;


/*-------------------------------------------------------------.
| yyerrlab1 -- common code for both syntax error and YYERROR.  |
`-------------------------------------------------------------*/
yyerrlab1:
  yyerrstatus = 3;      /* Each real token shifted decrements this.  */

  /* Pop stack until we find a state that shifts the error token.  */
  for (;;)
    {
      yyn = yypact[yystate];
      if (!yypact_value_is_default (yyn))
        {
          yyn += YYSYMBOL_YYerror;
          if (0 <= yyn && yyn <= YYLAST && yycheck[yyn] == YYSYMBOL_YYerror)
            {
              yyn = yytable[yyn];
              if (0 < yyn)
                break;
            }
        }

      /* Pop the current state because it cannot handle the error token.  */
      if (yyssp == yyss)
        YYABORT;

      yyerror_range[1] = *yylsp;
      yydestruct ("Error: popping",
                  YY_ACCESSING_SYMBOL (yystate), yyvsp, yylsp, parser);
      YYPOPSTACK (1);
      yystate = *yyssp;
      YY_STACK_PRINT (yyss, yyssp);
    }

  /* If the stack popping above didn't lose the initial context for the
     current lookahead token, the shift below will for sure.  */
  YY_LAC_DISCARD ("error recovery");

  YY_IGNORE_MAYBE_UNINITIALIZED_BEGIN
  *++yyvsp = yylval;
  YY_IGNORE_MAYBE_UNINITIALIZED_END

  yyerror_range[2] = yylloc;
  ++yylsp;
  YYLLOC_DEFAULT (*yylsp, yyerror_range, 2);

  /* Shift the error token.  */
  YY_SYMBOL_PRINT ("Shifting", YY_ACCESSING_SYMBOL (yyn), yyvsp, yylsp);

  yystate = yyn;
  goto yynewstate;


/*-------------------------------------.
| yyacceptlab -- YYACCEPT comes here.  |
`-------------------------------------*/
yyacceptlab:
  yyresult = 0;
  goto yyreturnlab;


/*-----------------------------------.
| yyabortlab -- YYABORT comes here.  |
`-----------------------------------*/
yyabortlab:
  yyresult = 1;
  goto yyreturnlab;


/*-----------------------------------------------------------.
| yyexhaustedlab -- YYNOMEM (memory exhaustion) comes here.  |
`-----------------------------------------------------------*/
yyexhaustedlab:
  yyerror (&yylloc, parser, YY_("memory exhausted"));
  yyresult = 2;
  goto yyreturnlab;


/*----------------------------------------------------------.
| yyreturnlab -- parsing is finished, clean up and return.  |
`----------------------------------------------------------*/
yyreturnlab:
  if (yychar != TOKEN_GRAMMAR_EMPTY)
    {
      /* Make sure we have latest lookahead translation.  See comments at
         user semantic actions for why this is necessary.  */
      yytoken = YYTRANSLATE (yychar);
      yydestruct ("Cleanup: discarding lookahead",
                  yytoken, &yylval, &yylloc, parser);
    }
  /* Do not reclaim the symbols of the rule whose action triggered
     this YYABORT or YYACCEPT.  */
  YYPOPSTACK (yylen);
  YY_STACK_PRINT (yyss, yyssp);
  while (yyssp != yyss)
    {
      yydestruct ("Cleanup: popping",
                  YY_ACCESSING_SYMBOL (+*yyssp), yyvsp, yylsp, parser);
      YYPOPSTACK (1);
    }
#ifndef yyoverflow
  if (yyss != yyssa)
    YYSTACK_FREE (yyss);
#endif
  if (yyes != yyesa)
    YYSTACK_FREE (yyes);

  return yyresult;
}



int grammar_lex(GRAMMAR_STYPE *value, Span *span, Parser *parser) {
  return parser_token(parser, &value->token, span);
}

// Only for a full stack; syntax errors come through yyreport_syntax_error.
static void grammar_error(const Span *span, Parser *parser, const char *message) {
  (void)message;
  parser_stop(parser, *span, "the text is nested too deeply");
}

static int yyreport_syntax_error(const yypcontext_t *context, Parser *parser) {
  yysymbol_kind_t kinds[YYNTOKENS];
  const char *expected[YYNTOKENS];
  int count = yypcontext_expected_tokens(context, kinds, YYNTOKENS);
  for (int i = 0; i < count; i++) {
    expected[i] = yysymbol_name(kinds[i]);
  }
  parser_syntax_error(parser, parser->last.kind, *yypcontext_location(context), expected, count);
  return 0;
}

static Ast *binary(Parser *parser, Span span, const char *operation, Span place, Ast *left, Ast *right) {
  return NAMED(BINARY, span, ((Token){name_of(parser->lexer.names, operation), 0}), place, left, right);
}

static Ast *unary(Parser *parser, Span span, const char *operation, Span place, Ast *operand) {
  return NAMED(UNARY, span, ((Token){name_of(parser->lexer.names, operation), 0}), place, operand);
}

static Ast *with_flags(Ast *node, int flags) {
  node->flags |= flags;
  return node;
}

static Token spelled(Parser *parser, const char *format, ...) {
  char text[256];
  va_list args;
  va_start(args, format);
  int length = vsnprintf(text, sizeof text, format, args);
  va_end(args);
  if ((size_t)length >= sizeof text) {
    parser_stop(parser, parser->last.span, "a path has more than 255 characters");
  }
  return (Token){name_of(parser->lexer.names, text), 0};
}

static Ast *declared(Parser *parser, AstKind kind, const Ast *name, Ast *const *kids, int count) {
  return parser_named(parser, kind, name->span, (Token){name->name, 0}, name->span, kids, count);
}
