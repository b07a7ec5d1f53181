"""To and from other libraries' environments. Nothing here is imported before it is asked for."""
