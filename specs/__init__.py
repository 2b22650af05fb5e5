"""The shipped memory rules: one TOML file per rule."""
