"""The labelling rule of a switch (INT-label, sections 3 and 5), for simulation and software switch."""

from ..base.kernels.jit import I64, U64, inlined
from .records import EVERY, Chance

F1 = int(Chance.F1)
F2 = int(Chance.F2)
F2_LISTING = int(Chance.F2_LISTING)
F3 = int(Chance.F3)
CUSTOM, TABLE = int(Chance.CUSTOM), int(Chance.TABLE)
TWO_53 = 9007199254740992.0
HALF, LOW, HIGH_PART, LOW_PART = U64(32), U64(0xFFFFFFFF), U64(11), U64(53)


@inlined
def is_below(random, part, whole):
    """Whether `random` < part / whole, computed exactly with integers of 128 bits, so that a switch without
    floating point decides the same (`label_rule.h`). `random` is a multiple of 2^-53, `part` and `whole` are
    below 2^63.
    """
    bits, part, whole = U64(random * TWO_53), U64(part), U64(whole)
    low = (bits & LOW) * (whole & LOW)
    one = (bits >> HALF) * (whole & LOW) + (low >> HALF)
    other = (bits & LOW) * (whole >> HALF) + (one & LOW)
    high = (bits >> HALF) * (whole >> HALF) + (one >> HALF) + (other >> HALF)
    low = (other << HALF) | (low & LOW)
    return high < part >> HIGH_PART or (high == part >> HIGH_PART and low < part << LOW_PART)


@inlined
def chance_of(count, max_hop, elapsed, interval, chance, table, custom):
    """Probability of another label for a packet with `count` labels, `elapsed` after the port's last label;
    for all functions except F3.
    """
    if custom is not None:
        if chance == CUSTOM:
            return custom(count, max_hop, elapsed, interval)
    if chance == TABLE:
        part = I64(elapsed) * I64(table.shape[1]) // I64(interval)
        part = max(I64(0), min(part, I64(table.shape[1] - 1)))
        return table[min(I64(count), I64(len(table) - 1)), part]
    if count == 0:
        return 0.0
    if chance == F1:
        return 1.0
    if chance == F2:
        return float(count) / float(max_hop - 1)
    if chance == F2_LISTING:
        return float(count) / float(max_hop)
    return 0.0


@inlined
def wants_label(count, now, last, interval, shift, rest, chance, max_hop, random, table, custom):
    """Whether a port labels a packet that leaves it at `now`; all times are int64 in the same unit.

    `count` is INT_num, which starts at `max_hop` for a tracked flow: such a packet is labelled at every
    switch (3.3), even during the rest time and with Base A.  `last` is Reg1, `shift` Reg2: the interval is
    `interval` / 2^shift, or EVERY.  `rest` is T1, during which no label is written by chance (Algorithm 5).
    `chance` is a `Chance`, `random` uniform in [0, 1), `table` float64 [labels, parts of the interval] for
    Chance.TABLE, `custom` a kernel for Chance.CUSTOM, or None.
    """
    if shift == EVERY or count >= max_hop:
        return True
    interval = interval >> shift
    elapsed = now - last
    if elapsed > interval or interval == 0:  # 0: shorter than the clock's unit, so every packet
        return True
    if chance == 0 or elapsed < rest:
        return False
    if chance == F3:
        return count > 0 and is_below(random, count * elapsed, (max_hop - 1) * interval)
    return random < chance_of(count, max_hop, elapsed, interval, chance, table, custom)
