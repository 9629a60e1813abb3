"""Success and error probabilities of direct telemetry access: closed forms of DTA and DART.

Terms: a key's *age* is the number of distinct keys reported after it, over the slots (α in the papers); the
*load* of a store is all keys over the slots, which is the age of its oldest key. `copies` is N, `bits` is b.
All functions take arrays, allocate little, and keep small probabilities exact (they sum positive terms).
"""

from .copies import (
    best_copies,
    copies_present,
    distinct_copies,
    optimum,
    success_after_reports,
    write_swap_average,
    write_swap_success,
)
from .counting import (
    cardinality_error,
    increment_error_chance,
    increment_exact,
    increment_excess,
    increment_size,
)
from .key_write import (
    Outcomes,
    Rule,
    age_for,
    average,
    empty_bounds,
    empty_terms,
    error_bound,
    error_bounds,
    load_for,
    outcomes,
    stranger,
    used_bits,
)
from .lists import append_age, append_wait
from .postcarding import (
    cell_match,
    chunk_match,
    early_emission,
    postcard_empty_terms,
    postcard_error_bound,
    postcard_outcomes,
)

__all__ = [
    "Outcomes",
    "Rule",
    "age_for",
    "append_age",
    "append_wait",
    "average",
    "best_copies",
    "cardinality_error",
    "cell_match",
    "chunk_match",
    "copies_present",
    "distinct_copies",
    "early_emission",
    "empty_bounds",
    "empty_terms",
    "error_bound",
    "error_bounds",
    "increment_error_chance",
    "increment_exact",
    "increment_excess",
    "increment_size",
    "load_for",
    "optimum",
    "outcomes",
    "postcard_empty_terms",
    "postcard_error_bound",
    "postcard_outcomes",
    "stranger",
    "success_after_reports",
    "used_bits",
    "write_swap_average",
    "write_swap_success",
]
