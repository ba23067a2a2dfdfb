#!/bin/bash
# What a check of LBNL Node Health Check is given, as its README tells it ("Configuration", "Writing Checks"): the functions die, dbg and
# log, names in HOSTNAME and HOSTNAME_S, no expansion of file names, stdin and a small PATH of NHC's. Debian and PyPI have no NHC; the
# tests run the real one where ENVMGR_NHC names a checkout of it.
#
#   nhc [-a] [-d]    checks of /etc/nhc/nhc.conf with the functions of /etc/nhc/scripts/*.nhc; -a goes on after a failure
NAME=nhc
PATH=/sbin:/usr/sbin:/bin:/usr/bin
read -r HOSTNAME </proc/sys/kernel/hostname
HOSTNAME_S=${HOSTNAME%%.*}
DEBUG=0 NHC_CHECK_ALL=0 FAIL_CNT=0
export PATH HOSTNAME HOSTNAME_S

while getopts ":ad" OPTION; do
    case "$OPTION" in
        a) NHC_CHECK_ALL=1 ;;
        d) DEBUG=1 ;;
        *) exit 9 ;;
    esac
done

function die() {
    local status="$1"

    shift
    echo "ERROR:  $NAME:  Health check failed:  $*"
    # as NHC marks a node offline: its words go through a shell once more
    eval printf "'%s\n'" "'$*'" >>/run/nhc-offline
    ((++FAIL_CNT))
    [[ "$NHC_CHECK_ALL" == 1 ]] || exit "$status"
    return 0
}

function dbg() { [[ "$DEBUG" != 1 ]] || echo "DEBUG:  $*"; }

function log() { echo "$*"; }

for file in /etc/nhc/scripts/*.nhc; do
    # shellcheck source=/dev/null
    . "$file"
done
set -f
while read -r line; do
    match="${line%%||*}"
    match="${match%"${match##*[! ]}"}"
    # shellcheck disable=SC2053 # a pattern
    if [[ "$line" == *"||"* && "$line" != "#"* && "$HOSTNAME" == $match ]]; then
        CHECK="${line#*||}"
        eval "$CHECK" </dev/null || {
            ((FAIL_CNT)) || die 1 "$CHECK returned $?"
        }
    fi
done </etc/nhc/nhc.conf
((FAIL_CNT == 0))
