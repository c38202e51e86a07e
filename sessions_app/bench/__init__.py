"""`steerweb bench`: what a stop, an append, a watcher and a start cost on this machine.

Everything runs on servers and processes of its own in a temporary directory, started as `up` starts them; a running
`up` and its data are never touched. One module per measurement, and beside each number the same thing without us,
measured in the same run by the same harness: on a busy machine only these ratios mean anything.

`--json` gives `{"v": 1, "at", "quick", "machine": {...}, "stop"?, "append"?, "page"?, "fanout"?, "start"?}`, each of
the last five only where it was measured, and in the shape of its dataclass: `stops.Stops`, `appends.Appends`,
`pages.Pages`, `fanout.Fanout`, `starts.Starts`. Wherever several tries were made there is a `figures.Spread`:
`{"n", "p50", "p99", "worst"}`.
"""
