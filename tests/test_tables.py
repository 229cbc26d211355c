"""Tables for people, as text and as HTML."""

from __future__ import annotations

from html.parser import HTMLParser

import pytest

from totalqboost.tables import Table, counted

TABLE = Table("A & B", ("kg", "<name>"), [("1.5", "apple"), ("12", "<b>'x'</b>")], "rl")


class Cells(HTMLParser):
    """Read a page back: its tags and the texts between them."""

    def __init__(self, page):
        super().__init__()
        self.tags, self.texts, self.styles = [], [], []
        self.feed(page)

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        self.styles.append(dict(attributes).get("style", ""))

    def handle_data(self, data):
        self.texts.append(data)


def test_words_stand_left_and_numbers_right():
    assert TABLE.text() == "A & B\n   kg  <name>\n  1.5  apple\n   12  <b>'x'</b>"


def test_no_line_ends_with_blanks():
    table = Table("t", ("a", "b"), [("x", ""), ("y", "long")], "ll")
    assert all(line == line.rstrip() for line in table.text().splitlines())


def test_whatever_the_cells_hold_is_text():
    page = Cells(TABLE.html())
    assert page.texts == ["A & B", "kg", "<name>", "1.5", "apple", "12", "<b>'x'</b>"]
    assert set(page.tags) == {"div", "table", "thead", "tbody", "tr", "th", "td"}


@pytest.mark.parametrize("name", ['"', "'", "&amp;", "</td><script>alert(1)</script>"])
def test_no_name_leaves_its_cell(name):
    page = Cells(Table(name, (name,), [(name,)], "l").html())
    assert page.texts == [name] * 3
    assert "script" not in page.tags


def test_a_table_without_rows_is_its_title():
    table = Table("nothing <here>", ("a",), [], "l")
    assert table.text() == "nothing <here>"
    assert Cells(table.html()).texts == ["nothing <here>"]
    assert "<table" not in table.html()


def test_bars_are_as_long_as_their_numbers_and_show_the_sign():
    rows = [(str(i),) for i in range(4)]
    page = Cells(Table("t", ("n",), rows, "r", [2.0, -1.0, None, 0.5]).html())
    bars = [style for style in page.styles if "background" in style]
    assert [style.split(";")[0] for style in bars] == ["width:80px", "width:40px", "width:20px"]
    colours = [style.split("background:")[1] for style in bars]
    assert colours[0] == colours[2] != colours[1]
    assert page.tags.count("td") == 8  # a cell for the bar in every row, empty or not
    assert page.tags.count("th") == 2


def test_bars_of_zeros_are_none():
    assert "background" not in Table("t", ("n",), [("0",)], "r", [0.0]).html()


def test_things_are_counted():
    assert [counted(n, "row") for n in (0, 1, 2)] == ["0 rows", "1 row", "2 rows"]
