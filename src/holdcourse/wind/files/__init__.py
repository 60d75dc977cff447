"""Wind data as people have them, brought to one kind of record."""
