# How this node has the prefix, from a file that no mount can hang. The mount that is seen there is the last one of those on its way:
# the kernel lists them as they were mounted.
awk -v prefix="${ENVMGR_REAL:-${prefix?}}" '
  $5 == "/" || index(prefix "/", $5 "/") == 1 {
    for (i = 7; $i != "-"; i++);
    said = "@mount.root=" $4 "\n@mount.point=" $5 "\n@mount.options=" $6 "\n@mount.type=" $(i + 1) "\n@mount.source=" $(i + 2)
    count = split($(i + 3), option, ",")
    super = ""
    for (i = 1; i <= count; i++) if (option[i] !~ /^(clientaddr|addr|mountaddr|port|mountport|fd|context|seclabel|lowerdir|upperdir|workdir)(=|$)/) super = super "," option[i]
    said = said "\n@mount.super=" substr(super, 2)
  }
  END { if (said) print said }' /proc/self/mountinfo
