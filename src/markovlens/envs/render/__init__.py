"""Pictures of environments: what happens, and beside it what the agent sees."""
