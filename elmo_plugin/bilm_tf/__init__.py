"""bilm-tf's files, both ways. Only this package knows their names."""
