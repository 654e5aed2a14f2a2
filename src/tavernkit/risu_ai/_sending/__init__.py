"""A whole send: prompt, request, reply, and what follows from the reply. The model is the caller's."""
