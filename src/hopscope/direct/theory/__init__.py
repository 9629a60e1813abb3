"""Success and error probabilities of direct telemetry access: closed forms of DTA and DART.

Terms: a key's *age* is the number of distinct keys reported after it, over the slots (α in the papers); the
*load* of a store is all keys over the slots, which is the age of its oldest key. `copies` is N, `bits` is b.
All functions take arrays, allocate little, and keep small probabilities exact (they sum positive terms).
"""

from .copies import best_copies as best_copies
from .copies import copies_present as copies_present
from .copies import distinct_copies as distinct_copies
from .copies import optimum as optimum
from .copies import success_after_reports as success_after_reports
from .copies import write_swap_average as write_swap_average
from .copies import write_swap_success as write_swap_success
from .counting import append_age as append_age
from .counting import append_wait as append_wait
from .counting import cardinality_error as cardinality_error
from .counting import increment_error_chance as increment_error_chance
from .counting import increment_exact as increment_exact
from .counting import increment_excess as increment_excess
from .counting import increment_size as increment_size
from .key_write import Outcomes as Outcomes
from .key_write import Rule as Rule
from .key_write import age_for as age_for
from .key_write import average as average
from .key_write import empty_bounds as empty_bounds
from .key_write import empty_terms as empty_terms
from .key_write import error_bound as error_bound
from .key_write import error_bounds as error_bounds
from .key_write import load_for as load_for
from .key_write import outcomes as outcomes
from .key_write import stranger as stranger
from .key_write import used_bits as used_bits
from .postcarding import cell_match as cell_match
from .postcarding import chunk_match as chunk_match
from .postcarding import early_emission as early_emission
from .postcarding import postcard_empty_terms as postcard_empty_terms
from .postcarding import postcard_error_bound as postcard_error_bound
from .postcarding import postcard_outcomes as postcard_outcomes
