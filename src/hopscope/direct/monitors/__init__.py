"""DTA's Table 2: what existing monitoring systems report, as small reporters and the queries behind them."""
