" mdl.vim: the colours of mdl texts; tests/lsp checks its words against the compiler.
if exists('b:current_syntax')
  finish
endif

syntax keyword mdlDeclaration axis const input param state fn composite update model layout precision recipe carry output
syntax keyword mdlStatement import repeat if else return scan
syntax keyword mdlWord over to like as and or not
syntax keyword mdlConstant true false inf pi training step
syntax keyword mdlType real index int bool
syntax match mdlCall /\<[A-Za-z_][A-Za-z0-9_]*\ze\s*(/ contains=mdlBuiltin,mdlType
syntax keyword mdlBuiltin contained dot outer sum mean max min exp log sqrt rsqrt reciprocal sin cos tanh sigmoid erf
syntax keyword mdlBuiltin contained abs sign floor is_finite square where stop pos size concat window top
syntax keyword mdlBuiltin contained draw_normal draw_uniform fan_in fan_out total
syntax match mdlNumber /\<\d\+\(\.\d\+\)\?\([eE][+-]\?\d\+\)\?\>/
syntax match mdlLabel /@[A-Za-z_][A-Za-z0-9_]*/
syntax match mdlOperator /->\|==\|!=\|<=\|>=\|\.\.\.\?\|[-+*%^<>=~|]/
syntax match mdlOperator "/"
syntax region mdlString start=/"/ skip=/\\./ end=/"/ oneline contains=mdlEscape
syntax match mdlEscape /\\[nt"\\]/ contained
syntax match mdlComment "//.*$" contains=@Spell

highlight default link mdlDeclaration StorageClass
highlight default link mdlStatement Statement
highlight default link mdlWord Keyword
highlight default link mdlConstant Constant
highlight default link mdlType Type
highlight default link mdlCall Function
highlight default link mdlBuiltin Special
highlight default link mdlNumber Number
highlight default link mdlLabel Tag
highlight default link mdlOperator Operator
highlight default link mdlString String
highlight default link mdlEscape SpecialChar
highlight default link mdlComment Comment

let b:current_syntax = 'mdl'
