"""Text that a spreadsheet runs, and text that it does not, as cells of CSV: by hand, after OWASP's list."""

CELLS = [
    ("=1+1", "'=1+1"),
    ("+cmd|' /C calc'!A0", "'+cmd|' /C calc'!A0"),
    ("-2+3", "'-2+3"),
    ("@SUM(1)", "'@SUM(1)"),
    ("\t=1", "'\t=1"),
    ("\r=1", "'\r=1"),
    ("＝1+1", "'＝1+1"),
    ('="a,b"', '\'="a,b"'),
    ("-5", "-5"),
    ("-9223372036854775809", "-9223372036854775809"),
    ("+1.5e-9", "+1.5e-9"),
    ("-", "-"),
    ("leaf-1", "leaf-1"),
    ("10.0.0.1", "10.0.0.1"),
    ("a=1", "a=1"),
]
"""Text, and its cell."""
