" mdl.vim: files that end in .mdl are mdl texts.
autocmd BufRead,BufNewFile *.mdl setfiletype mdl
