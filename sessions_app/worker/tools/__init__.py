"""What an agent can do: one tool a file, behind the small protocol of `base`; `registry` lists and runs them."""
