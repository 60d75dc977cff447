"""One module per family of files; each turns what it finds at one site into a `Piece`."""
