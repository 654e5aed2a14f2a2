"""The macro contracts that both platforms' engines implement."""
