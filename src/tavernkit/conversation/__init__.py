"""One object that a bot is written with: a chat, its model and where it is saved."""
