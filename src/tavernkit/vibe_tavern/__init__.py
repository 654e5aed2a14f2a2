"""Run prompts on real models: configuration, tools, directives, language policy."""
