# What software.look.sh, in `software_look`, finds as the ordinary user; its arguments are this shell's.
: "${software_seconds?}" "${software_look?}"

look_as_user software $((software_seconds + 2)) "$software_look" "$software_seconds" "$@" || put software.user unknown
