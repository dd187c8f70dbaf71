"""How a group of ranks outlives the death of one: who calls the roll, how survivors meet and what they agree on."""
