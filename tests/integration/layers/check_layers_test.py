"""The test of layers finds what it is for: circles and forbidden includes that are made on purpose."""

import pathlib
import tempfile
import unittest

import check_layers


def problems(sources, folders=None):
    """Of sources given as path -> paths that it includes. Folders without one get an empty source."""
    folders = folders or {"low": [], "high": ["low"]}
    texts = {path: "".join(f'#include "{target}"\n' for target in targets) for path, targets in sources.items()}
    for folder in folders:
        texts.setdefault(f"{folder}/empty.h", "")
    return check_layers.check(texts, folders)


class Circles(unittest.TestCase):
    def test_tree_without_circle_has_no_problem(self):
        self.assertEqual(problems({"low/a.cpp": ["low/a.hpp", "low/b.hpp"], "low/a.hpp": [], "low/b.hpp": [],
                                   "high/c.cpp": ["low/a.hpp"]}), [])

    def test_circle_through_a_source_file_is_found(self):
        # The headers alone have none.
        found = problems({"low/a.hpp": ["low/b.hpp"], "low/b.hpp": [], "low/b.cpp": ["low/a.hpp", "low/b.hpp"]})
        self.assertEqual(len(found), 1)
        self.assertIn("circle of units: low/a, low/b\n", found[0])
        self.assertIn("low/a.hpp:1 includes low/b.hpp", found[0])
        self.assertIn("low/b.cpp:1 includes low/a.hpp", found[0])

    def test_circle_of_three_is_one_circle(self):
        found = problems({"low/a.h": ["low/b.h"], "low/b.h": ["low/c.h"], "low/c.h": ["low/a.h"], "low/d.h": ["low/a.h"]})
        self.assertEqual([f.split("\n")[0] for f in found], ["circle of units: low/a, low/b, low/c"])

    def test_two_circles_are_two(self):
        found = problems({"low/a.h": ["low/b.h"], "low/b.h": ["low/a.h", "low/c.h"], "low/c.h": ["low/d.h"],
                          "low/d.h": ["low/c.h"]})
        self.assertEqual([f.split("\n")[0] for f in found],
                         ["circle of units: low/a, low/b", "circle of units: low/c, low/d"])

    def test_circle_of_folders_without_circle_of_units_is_found(self):
        folders = {"low": ["high"], "high": ["low"]}
        found = problems({"low/a.h": ["high/b.h"], "high/b.h": [], "high/c.h": ["low/d.h"], "low/d.h": []}, folders)
        self.assertTrue(any("circle of folders: high, low\n" in problem for problem in found), found)
        self.assertIn("the row of low lists high, whose row is not above it", found)


class Folders(unittest.TestCase):
    def test_folder_may_include_what_its_row_lists_and_no_more(self):
        sources = {"high/a.cpp": ["low/b.h", "low/inner/c.h", "other/one.h"], "low/inner/c.h": ["low/b.h"]}
        folders = {"low": [], "low/inner": ["low"], "other": [], "high": ["low/", "other/one.h"]}
        self.assertEqual(problems(sources, folders), [])
        found = problems({**sources, "high/d.cpp": ["other/two.h"], "low/e.h": ["low/inner/c.h"]}, folders)
        self.assertIn("high/d.cpp:1: high may not include other/two.h", found)
        self.assertIn("low/e.h:1: low may not include low/inner/c.h", found)

    def test_row_lists_only_rows_above_it(self):
        self.assertEqual(problems({}, {"low": ["high"], "high": []}),
                         ["the row of low lists high, whose row is not above it"])
        self.assertEqual(problems({}, {"low": ["high/a.h"], "high": []}),
                         ["the row of low lists high, whose row is not above it"])
        self.assertEqual(problems({}, {"low": ["lower"]}), ["the row of low lists lower, which is no folder with a row"])

    def test_folder_needs_a_row_and_a_row_needs_a_folder(self):
        self.assertEqual(check_layers.check({"new/a.h": ""}, {}), ["new has no row in FOLDERS"])
        self.assertEqual(check_layers.check({}, {"old": []}), ["the row of old has no sources"])

    def test_sources_of_all_kinds_are_read_but_not_what_is_installed_or_built(self):
        with tempfile.TemporaryDirectory() as top:
            for path in ("low/a.h", "low/b.hpp", "low/c.cpp", "low/d.c", "low/e.inc", "low/f.txt", "low/dist/g.h",
                         "low/node_modules/h.h", "other/i.h"):
                file = pathlib.Path(top, path)
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_text("// text\n")
            self.assertEqual(sorted(check_layers.read_sources(top, ["low"])),
                             ["low/a.h", "low/b.hpp", "low/c.cpp", "low/d.c", "low/e.inc"])


class Texts(unittest.TestCase):
    def test_only_folders_that_show_them_include_sentences_and_libraries(self):
        folders = {"report/words": [], "report/analysis": ["report/words"]}
        found = check_layers.check({"report/words/a.hpp": "", "report/analysis/b.cpp":
                                    '#include "report/words/a.hpp"\n#include <fmt/format.h>\n#include <hdf5.h>\n'},
                                   folders)
        self.assertEqual(len(found), 4)
        self.assertIn("report/words/a.hpp makes sentences", found[0])

    def test_note_is_not_made_of_a_text_that_is_put_together(self):
        made = "push(\nnote_of_run(Code::kX, 0, %s));"
        for text, wrong in (('"it is full"', [2]), ("fmt::format(kText, a)", [2]), ("a + b", [2]), ("path_", []),
                            ("hex(id), path_", []), ('""', [])):
            self.assertEqual(check_layers.formatted_notes(made % text), wrong, text)


if __name__ == "__main__":
    unittest.main()
