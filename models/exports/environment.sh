# A virtual environment of this run, made once: pip refuses to install into the Python of the system.
enter_environment() { # NAME
  VENV=${VENV:-${HOME:-/root}/.venvs/$1}
  if [ ! -x "$VENV/bin/pip" ]; then
    rm -rf "$VENV"
    if command -v uv > /dev/null; then
      uv venv --quiet --seed --system-site-packages "$VENV"
    else
      "$(command -v python3 || command -v python)" -m venv --system-site-packages "$VENV"
    fi || {
      echo "no virtual environment: install uv, or python3 with its module venv (Debian: apt install python3-venv)" >&2
      return 1
    }
  fi
  . "$VENV/bin/activate"
}
