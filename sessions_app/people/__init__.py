"""Who people are and what they may do: accounts, sign-in links, devices, tokens, members and roles."""
