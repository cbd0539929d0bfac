" mdl.vim: how mdl texts are commented and indented.
if exists('b:did_ftplugin')
  finish
endif
let b:did_ftplugin = 1

setlocal commentstring=//\ %s comments=://
setlocal expandtab shiftwidth=2 softtabstop=2
setlocal cindent cinoptions=+2,(0,L0
let b:undo_ftplugin = 'setlocal commentstring< comments< expandtab< shiftwidth< softtabstop< cindent< cinoptions<'
