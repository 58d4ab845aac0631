#!/usr/bin/env python3
"""The documents: links lead somewhere, the README is short and its sample looks like today's summary, and the page on
options has every option."""

import glob
import os
import re
import subprocess
import unittest

SOURCE = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", "..", ".."))
SKIPPED_FOLDERS = {"build", "dist", "node_modules", "third_party"}
SEVERITIES = {"high", "medium", "low", "info"}
MOST_README_LINES = 120


def read(*path):
    with open(os.path.join(SOURCE, *path), encoding="utf-8") as file:
        return file.read()


def documents():
    for folder, folders, names in os.walk(SOURCE):
        folders[:] = [name for name in folders if name not in SKIPPED_FOLDERS and not name.startswith(".")]
        for name in names:
            if name.endswith(".md"):
                yield os.path.relpath(os.path.join(folder, name), SOURCE)


def without_code(text):
    text = re.sub(r"^ *```.*?^ *```", "", text, flags=re.DOTALL | re.MULTILINE)
    return re.sub(r"`[^`\n]*`", "", text)


def links(text):
    """(path, anchor) of each link that is not an address on the web."""
    for target in re.findall(r"\]\(([^)\s]+)\)", without_code(text)):
        if not re.match(r"[a-z]+:", target):
            path, _, anchor = target.partition("#")
            yield path, anchor


def anchors(text):
    """Those that GitHub makes of the headings."""
    text = re.sub(r"^ *```.*?^ *```", "", text, flags=re.DOTALL | re.MULTILINE)
    seen = {}
    for heading in re.findall(r"^#{1,6} +(.*?) *$", text, flags=re.MULTILINE):
        heading = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading).replace("`", "").replace("*", "")
        anchor = re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
        number = seen.get(anchor, 0)
        seen[anchor] = number + 1
        yield anchor if number == 0 else f"{anchor}-{number}"


def summary_in(readme):
    return re.search(r"^```\n(clusterprof: .*?)^```", readme, flags=re.DOTALL | re.MULTILINE).group(1).splitlines()


def labels(summary):
    """What stands in front of the values of a summary, and its headings, between the first line and the last."""
    for line in summary[1:-1]:
        label = re.match(r"  (\S+(?: \S+)*)(?:  |$)", line)
        if label:
            yield label.group(1)


class Links(unittest.TestCase):
    def test_lead_somewhere(self):
        found = list(documents())
        self.assertGreater(len(found), 40)
        dead = []
        for document in found:
            for path, anchor in links(read(document)):
                target = os.path.normpath(os.path.join(os.path.dirname(document), path)) if path else document
                if not os.path.exists(os.path.join(SOURCE, target)):
                    dead.append(f"{document}: {path}")
                elif anchor and anchor not in set(anchors(read(target))):
                    dead.append(f"{document}: {path}#{anchor}")
        self.assertEqual(dead, [])

    def test_every_page_is_in_the_index(self):
        index = {os.path.normpath(path) for path, _ in links(read("docs", "README.md"))}
        pages = {os.path.basename(path) for path in glob.glob(os.path.join(SOURCE, "docs", "*.md"))} - {"README.md"}
        self.assertEqual(pages - index, set())

    def test_dead_links_are_noticed(self):
        self.assertEqual(list(links("[a](b.md#c), `[d](e)`, [f](https://g)")), [("b.md", "c")])
        self.assertEqual(list(anchors("# One `two`\n## One two\n```\n# no\n```\n")), ["one-two", "one-two-1"])


class Readme(unittest.TestCase):
    def test_is_short(self):
        self.assertLessEqual(len(read("README.md").splitlines()), MOST_README_LINES)

    def test_sample_looks_like_a_summary_of_today(self):
        """Like the golden summary, which another test compares with what the report prints."""
        golden = read("tests", "golden", "report", "training-banner.txt").splitlines()
        sample = summary_in(read("README.md"))
        self.assertEqual(*(re.sub(r"\d+(\.\d+)?", "0", text[0]).replace("nodes", "node") for text in (golden, sample)))
        for text in (golden, sample):
            self.assertRegex(text[-1], "^  clusterprof report clusterprof-train-")
        usual = [line for line in labels(golden) if line not in SEVERITIES]
        self.assertGreater(len(usual), 4)
        self.assertEqual([line for line in labels(sample) if line in usual], usual)
        self.assertLessEqual(set(labels(sample)) - set(usual) - SEVERITIES, {"page"})
        efficiency = [next(line for line in text if line.startswith("  efficiency")) for text in (golden, sample)]
        self.assertEqual(*(re.sub(r"[\d.]+ %", "0 %", line) for line in efficiency))


class Options(unittest.TestCase):
    def test_all_are_documented(self):
        documented = read("docs", "options.md")
        helped = subprocess.run([os.environ["CLUSTERPROF"], "--help"], capture_output=True, text=True, check=True)
        options = set(re.findall(r"^  (?:-\w,)?(--[a-z-]+)", helped.stdout, flags=re.MULTILINE))
        self.assertGreater(len(options), 15)
        missing = {option for option in options if not re.search(rf"{option}\b(?!-)", documented)}
        self.assertEqual(missing, set())


if __name__ == "__main__":
    unittest.main()
