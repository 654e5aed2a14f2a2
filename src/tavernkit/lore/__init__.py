"""The lore contracts that both platforms' engines implement."""
