# newest_checkpoint FOLDER PATTERN LAST prints the newest checkpoint that is complete, so that one which was cut off while it
# was written, or is not in the bucket as a whole, is passed over. PATTERN: its name, which ends in * for the digits of its
# step. LAST: the file without which it is none.
is_never_empty() { # what a run goes on from; another file, such as a chat template, may be empty
  case "${1##*/}" in
    *.safetensors | *.pt | *.pth | *.bin | *.distcp | .metadata | latest | *.index.json) ;;
    trainer_state.json | config.json | adapter_config.json) ;;
    *) return 1 ;;
  esac
}
count_of() { # how many of the characters $2 stand outside the texts of a JSON document; a text that is cut counts as {
  LC_ALL=C sed 's/\\.//g; s/"[^"]*"//g; s/".*/{/' "$1" | tr -cd "$2" | wc -c
}
file_is_whole() {
  if [ ! -s "$1" ]; then
    if is_never_empty "$1"; then return 1; fi
    return 0
  fi
  case "$1" in
    *.safetensors) # a header with the place of each tensor, then the tensors
      size=$(wc -c < "$1") && head=$(head -c 8 "$1" | od -An -tu8 | tr -d ' ') || return 1
      [ "$size" -gt 8 ] && [ "$head" -le "$size" ] 2> /dev/null || return 1
      end=$(head -c "$((head + 8))" "$1" | grep -ao '"data_offsets": *\[[0-9]*, *[0-9]*\]' | grep -o '[0-9]*\]' \
        | tr -d ']' | sort -n | tail -n 1)
      [ "$size" -eq "$((head + 8 + ${end:-0}))" ] ;;
    *.pt | *.pth | *.bin | *.distcp) # PyTorch writes zip archives, whose directory is their end
      [ "$(head -c 2 "$1")" != PK ] || [ "$(tail -c 22 "$1" | od -An -tx1 -N4 | tr -d ' ')" = 504b0506 ] ;;
    *.json) # each bracket is closed, the first one by the last
      opened=$(count_of "$1" '{[')
      [ "$opened" -gt 0 ] && [ "$opened" -eq "$(count_of "$1" ']}')" ] ;;
  esac
}
parts_are_there() { # the parts that an index of weights or the metadata of shards name
  case "$1" in
    *.index.json) parts=$(grep -o '"[^"/]*\.\(safetensors\|bin\)"' "$1" | tr -d '"' | sort -u) ;;
    *) parts=$(grep -ao '__[0-9]*_[0-9]*\.distcp' "$1" | sort -u) ;;
  esac
  printf '%s\n' "$parts" | while IFS= read -r part; do [ -s "$(dirname "$1")/$part" ] || exit 1; done
}
has_weights() {
  for one in "$1"/model.safetensors "$1"/adapter_model.safetensors "$1"/pytorch_model.bin "$1"/adapter_model.bin \
    "$1"/*.index.json "$1"/pytorch_model_fsdp* "$1"/latest "$1"/lit_model.pth; do [ ! -e "$one" ] || return 0; done
  return 1
}
has_optimizer() {
  for one in "$1"/optimizer* "$1"/latest "$1"/lit_model.pth; do [ ! -e "$one" ] || return 0; done
  return 1
}
states_of_each_process_are_there() { # DeepSpeed names them by process; as many as processes were counted when it was saved
  [ -e "$1/latest" ] || return 0
  states="$1/$(cat "$1/latest")"
  saved=$(find "$1" -maxdepth 1 -name 'rng_state_*.pth' | wc -l)
  [ "$(find "$states" -name '*optim_states.pt' | wc -l)" -ge "$((saved > 0 ? saved : 1))" ] \
    && [ -n "$(find "$states" -name '*model_states.pt')" ]
}
checkpoint_is_complete() {
  [ -s "$1/$2" ] && has_weights "$1" && states_of_each_process_are_there "$1" || return 1
  # Transformers loads the optimizer only where the schedule is there, too, and says nothing; LitGPT has one file of both.
  { [ -e "$1/lit_model.pth" ] || ! has_optimizer "$1" || [ -s "$1/scheduler.pt" ]; } || return 1
  { [ ! -e "$1/adapter_model.safetensors" ] || [ -s "$1/adapter_config.json" ]; } || return 1
  for one in "$1"/pytorch_model_fsdp_* "$1"/optimizer_*; do
    [ ! -d "$one" ] || [ -s "$one/.metadata" ] || return 1
  done
  find "$1" -type f | while IFS= read -r file; do
    file_is_whole "$file" || exit 1
    case "$file" in *.index.json | */.metadata) parts_are_there "$file" || exit 1 ;; esac
  done
}
newest_checkpoint() {
  weights_alone=
  find "$1" -maxdepth 1 -type d -name "$2" 2> /dev/null | sort -rV | {
    while IFS= read -r folder; do
      start=${2%\*} && step=${folder##*/} && step=${step#"$start"}
      case "$step" in '' | *[!0-9]*) continue ;; esac # a copy, or one that is still written under another name
      if ! checkpoint_is_complete "$folder" "$3"; then
        echo "$folder is incomplete: passed over" >&2
      elif has_optimizer "$folder"; then
        printf '%s\n' "$folder"
        exit 0
      else
        weights_alone=${weights_alone:-$folder}
      fi
    done
    [ -z "$weights_alone" ] || echo "$weights_alone has no states of the optimizer: it starts anew" >&2
    [ -z "$weights_alone" ] || printf '%s\n' "$weights_alone"
  }
}
