"""Labels as text."""

from hypothesis import given
from hypothesis import strategies as st

from kwhere.series.labels import bounds, decode_labels, encode_labels, fragments, matches

WORD = st.text(st.sampled_from('aé"\\{},:\n\0 /=unit'), max_size=6)
LABELS = st.dictionaries(st.sampled_from(["cluster", "manager", "unit", "run", "node", "a", "z", "uni", "it"]), WORD)


def test_the_labels_of_a_unit_come_first() -> None:
    text = encode_labels({"component": "cpu", "node": "n", "run": "r", "unit": "u", "cluster": "c"}.items())

    assert text == '{"cluster":"c","unit":"u","run":"r","node":"n","component":"cpu"}'


def test_an_empty_value_is_no_label() -> None:
    assert encode_labels([("mig", ""), ("gpu", "0")]) == '{"gpu":"0"}'


@given(LABELS)
def test_labels_come_back(labels: dict[str, str]) -> None:
    assert decode_labels(encode_labels(labels.items())) == {k: v for k, v in labels.items() if v}


@given(LABELS, LABELS)
def test_text_search_and_bounds_agree_with_matching_by_value(wanted: dict[str, str], labels: dict[str, str]) -> None:
    text = encode_labels(labels.items())
    present, absent = fragments(wanted)
    low, high = bounds(wanted)

    by_text = all(part in text for part in present) and not any(part in text for part in absent)

    assert by_text == matches(wanted, labels)
    assert not by_text or low.encode() <= text.encode() < high.encode()
