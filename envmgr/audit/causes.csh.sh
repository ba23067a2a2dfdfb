# shellcheck shell=sh
# Which line of which file sets a variable in csh, or an alias, by csh's own trace, which names no files: `-X` shows each command,
# and each `source FILE` among them. Of the files that were read before the command, the last one that has such a line is named.
: "${trace_home?}" "${trace_pin?}"

# trace_csh NAME TRACE [PART]: FILE:LINE. PART: what the line brings into a list; else the line that sets it last.
trace_csh() {
  trace_files=$(awk -v name="$1" -v part="${3-}" '
    function told(  i) { for (i = count; i > 0; i--) print of[i] }
    /^source / { sub(/^source +/, ""); gsub(/["\047;]/, ""); of[++count] = $0; next }
    /^eval .*(LMOD_CMD|lmod) +t?csh / {
      cause = $0
      sub(/.*t?csh +/, "", cause); sub(/ *`.*/, "", cause)
    }
    $1 ~ /^(un)?(setenv|alias)$/ && $2 == name || name == "PATH" && $1 == "set" && /^set +path/ {
      if (part != "" && (found || !index($0, part))) next
      found = 1; last = count; value = $0; by = cause
      sub(/^[^ ]+ +[^ ]+ */, "", value)
      if (/^un/) value = $1
    }
    /^eval .*\/pin csh/ { cause = "pin" }
    { if (!/^eval |^setenv |^\//) cause = "" }
    END { if (found) { print value; print by; count = last; told() } }' "$2")
  [ -n "$trace_files" ] || return 0
  printf '%s\n' "$trace_files" | {
    IFS= read -r trace_value
    IFS= read -r trace_cause
    if [ "$trace_cause" = pin ]; then # ours, which is no answer to what it found there
      [ -n "${3-}" ] || printf '%s:1\n' "${trace_pin?}pin"
      return
    fi
    trace_own=$trace_home/.cshrc
    [ ! -r "$trace_home/.tcshrc" ] || trace_own=$trace_home/.tcshrc
    { cat && printf '%s\n' "$trace_own" /etc/csh.cshrc; } | while IFS= read -r trace_file; do
      if [ ! -r "$trace_file" ] || trace_untouched "$trace_file"; then continue; fi
      trace_line=$(trace_name=$1 trace_value=$trace_value trace_cause=$trace_cause trace_part=${3-} awk '
        BEGIN { name = ENVIRON["trace_name"]; value = ENVIRON["trace_value"]; cause = ENVIRON["trace_cause"]; part = ENVIRON["trace_part"] }
        /^[ \t]*#/ { next }
        part != "" && !index($0, part) { next }
        match($0, "(setenv|alias)[ \t]+" name "([ \t]|$)") || name == "PATH" && /set[ \t]+path[ \t=]/ {
          if (part == "" && (value ~ /^un/ || !/[$`]/) && !index($0, value)) next
          line = NR
        }
        /module/ && cause != "" && index($0, cause) { line = NR }
        part != "" && line { exit }
        END { if (line) print line }' "$trace_file")
      [ -n "$trace_line" ] || continue
      trace_line=$trace_file:$trace_line
      case $trace_file in
        /etc/* | "$trace_home"/*) ;;
        *) # others share a vendor's file: who reads it
          trace_by=$({ printf '%s\n' "$trace_files" && printf '%s\n' "$trace_own" /etc/csh.cshrc; } | grep -e '^/etc/' -e "^$trace_home/" | while IFS= read -r trace_at; do
            grep -n -F -e "/${trace_file##*/}" "$trace_at" 2>/dev/null | sed -n "/source/s|^|$trace_at:|p"
          done | head -n 1 | cut -d: -f1,2)
          trace_line=${trace_by:-$trace_line}
          ;;
      esac
      printf '%s\n' "$trace_line" && break
    done
  }
}
