"""`make docs`: gather the pages, build the site, warnings being errors, and follow every link of what was built."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from making.apart import hide
from making.api import write_api
from making.assets import write_assets
from making.check import check_names, check_site
from making.citation import write_citation
from making.contents import write_contents
from making.gallery import write_gallery
from making.notebooks import write_notebooks
from making.paper_pages import write_paper_map
from making.reproduction import write_reproduction
from making.stage import ROOT, Stage, gather
from making.theory import write_theory

__all__ = ["build", "main"]


def build(output: Path) -> int:
    """Build the site in a folder; its source, and what is remembered, are beside it. Return Sphinx's exit code."""
    from sphinx.cmd.build import main as sphinx

    hide()
    source, memory, runs = (output.with_name(f"{output.name}-{what}") for what in ("source", "doctrees", "runs"))
    stage = Stage(source)
    gather(stage)
    write_theory(stage)
    write_api(stage)
    write_reproduction(stage)
    write_gallery(stage, runs)
    write_notebooks(stage, runs)
    write_citation(stage)
    write_paper_map(stage)
    write_assets(stage)
    write_contents(stage)
    stage.sweep()
    given = ["-c", str(Path(__file__).parent), "-d", str(memory), "-q", "-W", "--keep-going"]
    return sphinx([*given, "-b", "html", str(source), str(output)])


def main() -> None:
    """Build the site, and check it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, default=ROOT / "build" / "site", help="the folder of the site")
    output = parser.parse_args().output
    code = build(output)
    faults = [] if code else [*check_site(output), *check_names(output)]
    print("\n".join(faults) or ("the site was not built" if code else f"wrote {output / 'index.html'}"))
    sys.exit(code or bool(faults))


if __name__ == "__main__":
    main()
