# Whether sshd lets the ordinary user in, by a real ssh of that user from this node to itself, and whether a command runs there and has `module`: the words
# are the same in bash, zsh, csh and fish. Nothing is written in the home, and no key of a host is asked for. Only root can ask: a user is in already.
ssh_in() {
  as "${user?}" ssh -n -T -o BatchMode=yes -o ConnectTimeout=4 -o LogLevel=ERROR -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null \
    -o GlobalKnownHostsFile=/dev/null -o ControlPath=none -o ProxyJump=none -o ClearAllForwardings=yes -o PermitLocalCommand=no "${host_name?}" 'echo ran; module --version && echo module'
}
if [ "${probe_uid?}" = 0 ] && [ "$user" != root ] && command -v ssh >/dev/null && account_of "$user"; then
  with_limit 6 "$0.ssh" ssh_in
  case $?:$(tail -n 3 "$0.ssh.err" 2>/dev/null) in
    255:*"no active jobs"*) ssh_said="no job" ;;
    255:*"ermission denied"*) ssh_said="Permission denied" ;;
    255:*refused*) ssh_said="Connection refused" ;;
    255:*closed* | 255:*reset*) ssh_said="the connection was closed" ;;
    255:*resolve*) ssh_said='' ;; # a fault of names
    255:*) ssh_said="ssh ends with status 255" ;;
    124:*) ssh_said="no answer in 6 s" ;;
    *) ssh_said=in; put ssh.runs "${account_shell:-/bin/sh} $(grep -x -e ran -e module "$0.ssh" | tr '\n' ' ')" ;;
  esac
  [ -z "$ssh_said" ] || put ssh.user "$ssh_said"
fi
