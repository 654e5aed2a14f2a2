"""What the service keeps: tables, connections, and the operations on them."""
