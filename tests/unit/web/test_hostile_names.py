"""Names that people made, on a page: none is markup, and none reorders what stands beside it."""

import pytest
from markupsafe import Markup

from kwhere.web.rendering import build_environment


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        pytest.param("\u202egnp.exe", "\ufffdgnp.exe", id="case_users_40_direction"),
        pytest.param("a\u2066b\u2069", "a\ufffdb\ufffd", id="case_users_40_isolates"),
        pytest.param("\x1b[2J\0\x9b", "\ufffd[2J\ufffd\ufffd", id="control_signs"),
        pytest.param("<script>alert(1)</script>", "&lt;script&gt;alert(1)&lt;/script&gt;", id="markup"),
        pytest.param('"><img src=x>', "&#34;&gt;&lt;img src=x&gt;", id="out_of_an_attribute"),
        pytest.param("{{ 7 * 7 }}", "{{ 7 * 7 }}", id="template"),
        pytest.param("two\nlines", "two\nlines", id="case_users_39_lines"),
        pytest.param("aàb שלום 日本 🚀", "aàb שלום 日本 🚀", id="case_users_40_what_people_write"),
        pytest.param(Markup("<b>ours</b>"), "<b>ours</b>", id="our_own_markup"),
    ],
)
def test_a_name_is_text(name: str, shown: str) -> None:
    assert build_environment().from_string("<td>{{ name }}</td>").render(name=name) == f"<td>{shown}</td>"
