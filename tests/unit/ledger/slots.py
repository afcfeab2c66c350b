"""Slots for the ledger's tests: one by hand, and a hypothesis strategy over all that may be booked."""

from hypothesis import strategies as st

from kwhere.core.terms import Component, EntryKind, Flag, Method, Part
from kwhere.core.unit import UnitKey
from kwhere.ledger.gpu_uses import GpuUse
from kwhere.ledger.pages import COLUMNS, FORMAT, PageHeader
from kwhere.ledger.rows import ENERGY_COLUMNS, NUMBER_COLUMNS, Control, Entry, Figures, Slot

EPOCH = "6f9619ff-8b86-4d01-b42d-00cf4fc964ff"
LATER_EPOCH = "7f9619ff-8b86-4d01-b42d-00cf4fc964ff"
START_NS = 1_795_975_931_000_000_000
MINUTE_NS = 60_000_000_000

numbers = st.integers(0, 2**63 - 1)
texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=12)
filled_texts = texts.filter(bool)
flag_sets = st.frozensets(st.sampled_from(Flag))
figures = st.builds(
    Figures,
    energy_uj=st.dictionaries(st.sampled_from(ENERGY_COLUMNS), numbers),
    **{column: st.none() | numbers for column in NUMBER_COLUMNS},
)
gpu_uses = st.builds(
    GpuUse,
    device=filled_texts,
    instance=texts,
    **dict.fromkeys(("model", "profile", "source"), texts),
    **dict.fromkeys(("index", "held_ns", "allocated_ns", "place_ns", "unknown_ns"), numbers),
    **{
        name: st.none() | numbers
        for name in ("busy_ns", "held_idle_ns", "energy_uj", "held_idle_uj", "memory_peak_bytes", "memory_total_bytes")
    },
    idle_since_ns=st.none() | numbers,
)
facts = {
    "figures": figures,
    "name": st.none() | texts,
    "user": st.none() | texts,
    "project": st.none() | texts,
    "node_name": st.none() | texts,
    "labels": st.dictionaries(texts, texts, max_size=3).map(lambda labels: tuple(labels.items())),
    "flags": flag_sets,
    "gpus": st.lists(gpu_uses, max_size=2, unique_by=lambda use: use.place).map(tuple),
}
unit_entries = st.builds(
    Entry,
    kind=st.just(EntryKind.UNIT),
    key=st.builds(UnitKey, filled_texts, filled_texts, filled_texts),
    **facts,
)
other_entries = st.builds(
    Entry,
    kind=st.sampled_from([EntryKind.SYSTEM, EntryKind.UNALLOCATED]),
    key=st.none(),
    **facts,
)
entry_lists = st.lists(unit_entries | other_entries, max_size=4, unique_by=lambda entry: (entry.kind, entry.key))
control_lists = st.lists(
    st.builds(Control, st.sampled_from(Component), numbers, numbers, st.sampled_from(Method), texts),
    unique_by=lambda control: control.component,
).map(lambda controls: tuple(sorted(controls, key=lambda control: list(Component).index(control.component))))


@st.composite
def any_slots(draw: st.DrawFn, seq: int = 1) -> Slot:
    """A slot with anything that may be booked in it."""
    start_ns = draw(st.integers(0, 2**62))
    return Slot(
        seq=seq,
        start_ns=start_ns,
        end_ns=start_ns + draw(st.integers(1, 2**61)),
        monotonic_ns=draw(numbers),
        controls=draw(control_lists),
        entries=tuple(draw(entry_lists)),
        node_busy_ns=draw(st.none() | numbers),
        flags=draw(flag_sets),
    )


def slot(seq: int = 1, start_ns: int | None = None, dynamic_uj: int = 160_000_000) -> Slot:
    """One minute of one unit, `system` and `unallocated`, balanced."""
    start = START_NS + (seq - 1) * MINUTE_NS if start_ns is None else start_ns
    key = UnitKey("slurm", "4242", "4242@1795975900")
    return Slot(
        seq=seq,
        start_ns=start,
        end_ns=start + MINUTE_NS,
        monotonic_ns=MINUTE_NS,
        controls=(Control(Component.CPU, dynamic_uj + 30, MINUTE_NS, Method.COUNTER, "powercap"),),
        entries=(
            Entry(
                EntryKind.UNIT, key, Figures({(Component.CPU, Part.DYNAMIC): dynamic_uj}, cpu_user_ns=7), user="alice"
            ),
            Entry(EntryKind.SYSTEM, None, Figures({(Component.CPU, Part.DYNAMIC): 10})),
            Entry(EntryKind.UNALLOCATED, None, Figures({(Component.CPU, Part.IDLE): 20})),
        ),
        node_busy_ns=9,
    )


def header(
    *,
    oldest: int | None = 1,
    newest: int | None = 1,
    next: str | None = f"{EPOCH}:1",
    epochs: tuple[str, ...] = (EPOCH,),
    columns: tuple[str, ...] = COLUMNS,
) -> PageHeader:
    """A page header of one node."""
    return PageHeader(
        format=FORMAT,
        node="c1",
        node_names=("c1",),
        machine_id="0123456789abcdef0123456789abcdef",
        boot_id="b",
        parent=None,
        epoch=EPOCH,
        oldest=oldest,
        newest=newest,
        epochs=epochs,
        next=next,
        slot_seconds=60,
        idle_policy="allocation",
        cpus=8,
        p_max_mw={"cpu": 500_000},
        columns=columns,
        version="0.1.0",
    )
