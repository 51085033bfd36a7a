"""From graphs to compiled models: graphs by name, programs generated here, the vendor's compiler."""
