"""Names and periods of the jobs of the schedule; plain values, because the settings read them."""

SWEEP = "plans_sweep"
SWEEP_SECONDS = 5.0
