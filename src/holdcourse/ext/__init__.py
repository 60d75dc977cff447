"""Optional parts, one file per extra; importing one that is not installed names the command that installs it."""
