"""Tool calling: registries, the dispatcher, transforms, presets and the loop."""
