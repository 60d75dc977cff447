"""Tables as people have them, read without a guess: text files, Excel, Parquet, data frames.

`text` makes bytes text, `cells` makes text a table, `sources` makes one of Excel, Parquet and frames; `numbers` and
`times` read the cells. What a file leaves open is an error that names the line, the value and the option that settles
it. Wind and plants read their files with the same modules.
"""
