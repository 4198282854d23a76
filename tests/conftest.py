"""Makes the helpers beside this file (`tables`) importable from every test folder."""
