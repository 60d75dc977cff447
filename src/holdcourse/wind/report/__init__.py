"""What a backtest found, as tables, pictures and a page."""
