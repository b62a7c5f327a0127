# SPDX-License-Identifier: BSD-2-Clause
"""Tables of the benchmarks, as text and as Markdown."""


class Table:
    def __init__(self, title, head, rows, notes=()):
        """head: titles of the columns. rows: lists of as many cells, all texts. notes: lines below the table."""
        self.title, self.head, self.rows, self.notes = title, head, rows, notes

    def text(self):
        widths = [max(map(len, column)) for column in zip(self.head, *self.rows)]
        lines = ["  ".join([row[0].ljust(widths[0])] + [c.rjust(w) for c, w in zip(row[1:], widths[1:])])
                 for row in [self.head] + self.rows]
        return "\n".join([f"== {self.title}", *lines, *self.notes, ""])

    def markdown(self):
        lines = ["| " + " | ".join(row) + " |" for row in [self.head] + self.rows]
        lines.insert(1, "|" + " --- |" + " ---: |" * (len(self.head) - 1))
        return "\n".join([f"### {self.title}", "", *lines, "", *(f"- {n}" for n in self.notes), ""])


def pivot(rows, line, column, cell):
    """Makes (head, lines) of a table with a line for each value of line(row) and a column for each value of
    column(row). The cell where they meet is cell(row)."""
    heads, lines = [], {}
    for row in rows:
        if column(row) not in heads:
            heads.append(column(row))
        lines.setdefault(line(row), {})[column(row)] = cell(row)
    return heads, [[name] + [cells.get(h, "-") for h in heads] for name, cells in lines.items()]


def size_text(size):
    for unit in ("B", "KiB", "MiB"):
        if size < 1024 or unit == "MiB":
            return f"{size} {unit}"
        size //= 1024
