"""The report on a farm: tables, one page, pictures."""
