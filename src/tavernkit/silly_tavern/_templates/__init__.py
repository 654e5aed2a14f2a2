"""Text completion's templates: context, instruct, system prompt and reasoning; story strings and Handlebars."""
