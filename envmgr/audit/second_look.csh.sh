# A start of csh, reported as bash tells its own: `+FILE:LINE<CALLER:LINE: text`. Csh names no files. By `-V` it prints each line that it reads, and
# by `-X` each command that it runs, `source FILE` among them; awk looks for these lines in the files, as the user. What is in no file came from
# the line before. Csh is ended a second early, for awk holds back what it has until then.
: "${look_seconds?}"
look_csh_places='
  function bare(text) { gsub(/[ \t]/, "", text); gsub(/\\!/, "!", text); return text }
  function fits(has, said) {
    if (index(has, said) == 1) return substr(has, length(said) + 1) ~ /^([#;&|\\].*)?$/
    return sub(/\\$/, "", has) && has != "" && index(said, has) == 1
  }
  function enter(name,  line) {
    file[++depth] = name; at[depth] = 0
    if (name in count) return
    for (count[name] = 0; (getline line <name) > 0;) has[name, ++count[name]] = bare(line)
    close(name)
  }
  # In the file at hand, or in one that reads it, from the line at hand on; only a loop goes back.
  function move(said,  back, d, i, last) {
    for (back = 0; back < 2; back++) for (d = depth; d > 0; d--) {
      last = back ? at[d] : count[file[d]]
      for (i = back || !at[d] ? 1 : at[d]; i <= last; i++) if (fits(has[file[d], i], said)) { depth = d; at[d] = i; return }
    }
  }
  function place(  d, all) {
    for (d = depth; d > 0; d--) if (at[d]) all = all "<" file[d] ":" at[d]
    return substr(all, 2)
  }
  BEGIN {
    home = ENVIRON["HOME"]
    enter(home ((getline line <(home "/.tcshrc")) < 0 ? "/.cshrc" : "/.tcshrc"))
    enter("/etc/csh.cshrc")
  }
  { sub(/^[ \t]+/, "") }
  !NF || /^(end|else|endif|endsw|breaksw)( |$)/ { next }
  {
    move(bare($0))
    said = $0; name = ""
    if (sub(/^setenv +/, "", said)) { sub(/ +/, "=", said); said = "export " said }
    else if (/^set( -[a-z]+)* path( |=)/) said = "PATH="
    else if (/^source .*\//) { name = said; sub(/^source +/, "", name); gsub(/["\047;]/, "", name); sub(/^~\//, home "/", name); said = ". " name }
    else if (!sub(/^unsetenv /, "unset ", said) && !sub(/^limit /, "ulimit ", said) && !/^(alias|unalias|umask|module|ml|exec|exit|cd)( |$)/) said = ": " $0
    print "+" place() ": " said
    fflush()
    if (name ~ /^\//) enter(name)
  }'
look_csh() { # ACCOUNT
  as "$1" /bin/sh -c 'timeout -k 1 "$1" csh -XV -c "unset savehist savedirs" 2>&1 | head -c 8000000 | LC_ALL=C awk "$0"' "$look_csh_places" \
    "$((look_seconds - 1))"
}
