"""Ways to reach models: one module a protocol, each importing its SDK when it is first used."""
