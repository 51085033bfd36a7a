"""From graphs to compiled models: graphs by name, programs written here, the vendor's compiler."""
