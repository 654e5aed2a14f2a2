"""What RisuAI posts: messages rewritten for the model, text formats, options."""
