# A folder of llama.cpp may be there already (LLAMA_CPP), with its converter and, for 4 bits, llama-quantize in build/bin.
prepare_gguf() { # ARCHIVE BITS PACKAGE...
  if [ ! -e "$LLAMA_CPP/convert_hf_to_gguf.py" ]; then
    rm -rf "$LLAMA_CPP.part"
    python -c 'import sys, tarfile, urllib.request
with urllib.request.urlopen(sys.argv[1]) as archive, tarfile.open(fileobj=archive, mode="r|gz") as files:
    files.extractall(sys.argv[2])' "$1" "$LLAMA_CPP.part"
    mv "$LLAMA_CPP.part"/*/ "$LLAMA_CPP"
  fi
  bits=$2
  shift 2
  pip install "$@"
  if [ "$bits" = 4 ] && [ ! -x "$LLAMA_CPP/build/bin/llama-quantize" ]; then
    pip install cmake ninja
    cmake -S "$LLAMA_CPP" -B "$LLAMA_CPP/build" -G Ninja -D CMAKE_BUILD_TYPE=Release -D LLAMA_CURL=OFF
    cmake --build "$LLAMA_CPP/build" --target llama-quantize
  fi
}
make_gguf() { # WEIGHTS RESULT BITS TYPE
  rm -rf "$2.part"
  mkdir "$2.part"
  if [ "$3" = 8 ]; then
    python "$LLAMA_CPP/convert_hf_to_gguf.py" "$1" --outtype q8_0 --outfile "$2.part/model-q8_0.gguf"
  else
    python "$LLAMA_CPP/convert_hf_to_gguf.py" "$1" --outtype "$4" --outfile "$2.part/model-16bit.gguf"
    "$LLAMA_CPP/build/bin/llama-quantize" "$2.part/model-16bit.gguf" "$2.part/model-q4_0.gguf" Q4_0
    rm "$2.part/model-16bit.gguf"
  fi
  mv "$2.part" "$2" # a folder of this name is whole
}
