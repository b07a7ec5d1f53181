"""The parts of the belief-optimal solver; `markovlens.pomdp.solve` puts them together."""
