-- Written by envmgr, generation 42. Do not edit: change the recipe and build again.

help("7zip/23.01: says \"hello\", ]] and ]==] -- \\ {{ braces }} {% tags %} {# notes #}\010\010Line one\013\010line two\009tab\000nul\226\128\168end é ü 漢字 🐍\010\010Installed in /cluster/envmgr/store/7zip/23.01-deadbeef\010")
whatis("Name: 7zip")
whatis("Version: 23.01")
whatis("Description: says \"hello\", ]] and ]==] -- \\ {{ braces }} {% tags %} {# notes #}")
pushenv("_7ZIP_ROOT", "/cluster/envmgr/store/7zip/23.01-deadbeef")
pushenv("ENVMGR__7ZIP_DIGEST", "deadbeef884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08")
pushenv("ENVMGR_GENERATION", "42")
pushenv("GREETING", "it's \"$HOME\" `x` \\n\009]]\0011 é 漢")
