# What is made of the trained weights has an environment of its own: its packages want other releases than those of a trainer.
in_environment_of_result() ( # COMMAND...
  VENV=$VENV-result
  enter_environment result
  "$@"
)
