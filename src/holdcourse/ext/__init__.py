"""Optional parts, a module for each extra; importing one that is not installed names the command that installs it."""
