"""Wind data as people have them, brought to one form."""
