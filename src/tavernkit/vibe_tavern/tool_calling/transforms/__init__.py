"""Named changes to messages, tools, answers, calls and results that make models and providers behave."""
