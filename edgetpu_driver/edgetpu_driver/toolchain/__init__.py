"""From graphs to compiled models: graphs by name, the vendor's compiler, recognising compiled files."""
