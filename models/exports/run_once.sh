# A folder belongs to one plan: its file planned.txt says which model, data and recipe its checkpoints are of.
take_folder() { # FOLDER RECIPE
  mkdir -p "$1"
  if [ ! -e "$1/planned.txt" ]; then
    printf '%s\n' "$2" > "$1/planned.txt.${NODE_RANK:-0}.$$" && mv "$1/planned.txt.${NODE_RANK:-0}.$$" "$1/planned.txt"
  elif [ "$(cat "$1/planned.txt")" != "$2" ]; then
    echo "$1 holds a run of another plan, which is not gone on with: give the job another name, or remove the folder" >&2
    printf '  there: %s\n  here:  %s\n' "$(cat "$1/planned.txt")" "$2" >&2
    return 3
  fi
}
# A machine that is taken away sends SIGTERM: every process of the run gets it. A run that was stopped is not at its end, but
# where the trainer came to it all the same: it ended well, and LAST is there, the checkpoint of the last step. Signals are named
# by -s: dash, the shell of dstack's tasks, takes no -- after -TERM.
pass_signal_on() { # to the group of the run, or to its first process where that has not made the group yet
  [ -z "$run" ] || kill -s TERM -- "-$run" 2> /dev/null || kill -s TERM "$run" 2> /dev/null || true
}
run_to_its_end() { # LAST COMMAND...
  last=$1 stopped='' run=''
  shift
  trap 'stopped=yes signalled=yes; pass_signal_on' TERM INT
  set +m # in an interactive shell, as dstack has, a job in the background leads a group: setsid would fork, and end at once
  setsid "$@" &
  run=$!
  [ -z "$stopped" ] || pass_signal_on # it came before the run had a number
  while :; do # a signal ends the wait with a code of its own, also where the run has ended by then
    signalled='' code=0
    wait "$run" || code=$?
    [ -n "$signalled" ] || break
  done
  # A launcher may end before its workers, of which one may still save: they have two minutes, as clouds give them.
  left=1200
  while [ -n "$stopped" ] && [ "$left" -gt 0 ] && kill -s 0 -- "-$run" 2> /dev/null; do
    left=$((left - 1))
    sleep 0.1
  done
  [ -z "$stopped" ] || kill -s KILL -- "-$run" 2> /dev/null || true
  trap - TERM INT
  [ -z "$stopped" ] || { [ "$code" = 0 ] && [ -e "$last" ]; } || {
    echo "stopped before its end: start it again to go on from the newest checkpoint" >&2
    code=143
  }
  return "$code"
}
