"""The pages of the catalogue: they have its problems, and a problem of one's own is short."""

from launch import ROOT

from sciml_par.problems import catalogue_entries

PAGE = (ROOT / "docs" / "catalogue.md").read_text(encoding="utf-8")
OWN = (ROOT / "docs" / "time-dependent.md").read_text(encoding="utf-8")


def test_the_page_lists_all_problems_as_the_program_does() -> None:
    rows = [line for line in PAGE.splitlines() if line.startswith("| `")]
    for name, entry in catalogue_entries().items():
        equation = entry.equation.replace("|h|", "\\|h\\|")
        assert [row for row in rows if row.startswith(f"| `{name}` | {equation} |")]


def test_burgers_equation_in_a_file_of_ones_own_needs_at_most_15_lines() -> None:
    program = OWN.split("```python\n")[1].split("```")[0].splitlines()
    lines = [line for line in program if line.strip() and not line.lstrip().startswith("#")]
    assert len(lines) <= 15
    assert f"These {len(lines)} lines" in OWN
