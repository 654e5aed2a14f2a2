"""Messages, blocks, plans and the pipeline that makes them: knows nothing of platforms, files or networks."""
