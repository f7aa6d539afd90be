"""Holds the committed evidence to the schemas with the package jsonschema, an implementation that is not ours.

    python3 audit/tests/schemas/independent.py [ANSWER.json]...

ANSWER is what `audit --json` printed. Not here: documents told wrongly; the Rust tests beside this file do that, and this only shows that they read the schemas
as others do: every document passes, and the same one with a field too many does not.
"""

import collections
import json
import pathlib
import sys

import jsonschema

# Lines of a kind that are read of a trace: an implementation in Python takes minutes for all of them.
LINES_OF_A_KIND = 16
ROOT = pathlib.Path(__file__).resolve().parents[3]


def validator(tag):
    name = tag.replace("/", ".") + ".schema.json"
    schema = json.loads((ROOT / "audit/schemas" / name).read_text())
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


def documents():
    """Tag, place and document of everything committed, and of the answers given."""
    for path in sys.argv[1:]:
        yield "fak.audit/1", path, json.loads(pathlib.Path(path).read_text())
    for line in (ROOT / "results/INDEX").read_text().splitlines():
        run = ROOT / "results" / line.split("  ")[1]
        yield "fak.envelope/1", run / "envelope.json", json.loads((run / "envelope.json").read_text())
        record = json.loads((run / "run.json").read_text())
        yield record["schema"], run / "run.json", record  # fak.run/1, or fak.counts/1 where nothing ran
        # The first trace of every arm has lines of every kind; the auditor reads them all, here a few of each are enough.
        for path in sorted(run.glob("trace/*-0.jsonl")):
            seen = collections.Counter()
            for text in path.read_text().splitlines():
                line = json.loads(text)
                seen[line.get("kind")] += 1
                if seen[line.get("kind")] <= LINES_OF_A_KIND:
                    yield "fak.trace/1", path, line
    for path in sorted((ROOT / "results/gate").glob("*.json")):
        yield "fak.gate/1", path, json.loads(path.read_text())


def main():
    tags = ["fak.envelope/1", "fak.run/1", "fak.trace/1", "fak.gate/1", "fak.counts/1", "fak.audit/1"]
    validators = {tag: validator(tag) for tag in tags}
    counted = dict.fromkeys(tags, 0)
    faults = []
    stretched = set()
    for tag, place, document in documents():
        check = validators[tag]
        faults += [f"{place}: {error.message}" for error in check.iter_errors(document)]
        # One line of each kind of a trace is told wrongly: the others have the same schema.
        kind = (place, document.get("kind"))
        if kind not in stretched and check.is_valid(document | {"unheard of": 1}):
            faults.append(f"{place}: a field too many passes")
        stretched.add(kind)
        counted[tag] += 1
    print(", ".join(f"{count} of {tag}" for tag, count in counted.items()))
    for fault in faults[:20]:
        print(fault)
    return 1 if faults or not all(counted[tag] for tag in tags[:-2]) else 0


if __name__ == "__main__":
    sys.exit(main())
