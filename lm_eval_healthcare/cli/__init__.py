"""The command `lm-eval-healthcare`: one file a subcommand; each parses, calls and prints, with no logic of its own."""
