# A virtual environment of this run, made once: pip refuses to install into the Python of the system.
enter_environment() { # NAME
  VENV=${VENV:-${HOME:-/root}/.venvs/$1} VENV=${VENV%/}
  if [ -e "$VENV.unfinished" ]; then rm -rf "$VENV"; fi # cut off while it was made; a folder of the user is never removed
  if [ ! -x "$VENV/bin/pip" ] && [ -n "$(ls -A "$VENV" 2> /dev/null)" ]; then
    echo "$VENV has no bin/pip: install pip into that environment, or set VENV to a folder that is not there yet" >&2
    return 1
  fi
  if [ ! -x "$VENV/bin/pip" ]; then
    mkdir -p "$(dirname "$VENV")" && touch "$VENV.unfinished"
    uv=$(command -v uv) || uv=${HOME:-/root}/.local/bin/uv # where its installer puts it, and SkyPilot
    if [ -x "$uv" ]; then
      # TRL 1.16, Transformers 5.23 and LLaMA-Factory 0.9.5 need 3.11, and Ubuntu 22.04 has 3.10; PyTorch 2.8 has wheels up to 3.13.
      "$uv" venv --quiet --seed --system-site-packages --python '>=3.11,<3.14' "$VENV"
    else
      "$(command -v python3 || command -v python)" -m venv --system-site-packages "$VENV"
    fi || {
      echo "no virtual environment: install uv, or python3 with its module venv (Debian: apt install python3-venv)" >&2
      return 1
    }
    rm "$VENV.unfinished"
  fi
  # shellcheck disable=SC1091 # it was made above
  . "$VENV/bin/activate"
}
