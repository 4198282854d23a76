"""The fields of the page, and the settings of a scenario that their values make."""
