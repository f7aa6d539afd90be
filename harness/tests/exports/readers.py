"""Programs of others read what `harness export` writes, and find the figures that are in it.

    PYTHONPATH=target/python python3 harness/tests/exports/readers.py HARNESS

At the root of the repository, with the packages inference-doctor and polars. Two arms of one committed run, five repetitions
each, are written for inference-doctor, which must judge them (exit 0, 1 or 2, and of its reasons none but statistics) by the
figures in the files. A Parquet file of all samples is read by polars, and its medians are those of `harness query`.
Exit 0 if all of this holds, else 1 with what does not.
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

from inference_doctor.adapters import load_directory

RUN = "results/radix-few-shot/2026-11-30-x86_64-avx512-2c-2"
ARMS = ("instance-shared", "fused")
SESSION = "session-50x5"
# What inference-doctor says of itself, and where the same stands in a file of either layout.
METRICS = {
    "output_token_throughput": ("output_throughput", "output_token_throughput"),
    "ttft_mean_ms": ("mean_ttft_ms", "time_to_first_token"),
    "tpot_mean_ms": ("mean_tpot_ms", "inter_token_latency"),
    "e2el_mean_ms": ("mean_e2el_ms", "request_latency"),
}
VERDICTS = {"PASS": 0, "FAIL": 1, "INCONCLUSIVE": 2}
PARQUET = """import polars, sys
samples = polars.read_parquet(sys.argv[1])
spoken = samples.filter(polars.col("speaks") & (polars.col("envelope") == sys.argv[2]))
medians = spoken.group_by("arm").agg(polars.col("wall_ns").median()).sort("arm")
print(medians.write_json())"""


def harness(*arguments):
    """What the program under test prints."""
    done = subprocess.run([sys.argv[1], *arguments], capture_output=True, text=True)
    assert done.returncode == 0, f"{arguments}: exit {done.returncode}\n{done.stderr}"
    return done.stdout


def doctor(*arguments):
    """Exit code, answer and complaint of inference-doctor's command line."""
    command = [sys.executable, "-m", "inference_doctor", *map(str, arguments), "--json"]
    done = subprocess.run(command, capture_output=True, text=True)
    return done.returncode, done.stdout, done.stderr


def judged(directories, metric):
    """Its report on two directories, which it must not have refused."""
    baseline, candidate = directories
    code, answer, complaint = doctor(
        "compare-runs", "--baseline", baseline, "--candidate", candidate, "--metric", metric
    )
    assert code in VERDICTS.values(), f"{metric}: exit {code}\n{complaint}"
    report = json.loads(answer)
    assert VERDICTS[report["result"]] == code, f"{report['result']} with exit {code}"
    return report


def reads(place, layout, number):
    """Both arms in one layout: accepted, comparable, and read as they are written."""
    directories = []
    for arm in ARMS:
        directories.append(place / f"{layout}-{arm}")
        harness("export", RUN, "--format", layout, "--arm", arm, "--out", str(directories[-1]))
    for metric, names in METRICS.items():
        report = judged(directories, metric)
        reasons = "; ".join(report.get("reasons", [])) or report.get("explanation", "")
        for refusal in ("mismatch", "missing", "failed", "required"):
            assert refusal not in reasons, f"{layout}, {metric}: {reasons}"
        for side, directory in zip(("baseline", "candidate"), directories):
            written = [json.loads(path.read_text()) for path in sorted(directory.glob("*.json"))]
            values = [file[names[number]] for file in written]
            values = [value["avg"] if isinstance(value, dict) else value for value in values]
            assert len(values) == 5, f"{directory}: {len(values)} files"
            assert report[side]["values"] == values, f"{layout}, {metric}, {side}"
        found = f"{report['regression_percent']:+.2f} %"
        print(f"{layout:10}  {metric:24}  {report['result']:12}  {ARMS[1]} against {ARMS[0]}: {found}")
    records = load_directory(directories[0]).records
    models = {record.result.environment.model for record in records}
    assert len(models) == 1 and "unspecified" not in models, models
    for record in records:
        assert record.result.metrics.requests.failed == 0
        assert record.result.metrics.ttft_ms.p99 is None, "32 requests allow no p99"


def unlike_arms_are_told_apart(place):
    """Arms of unlike concurrency are not compared, and inference-doctor says so."""
    alone = place / "alone"
    harness("export", RUN, "--format", "vllm-bench", "--arm", "naive", "--out", str(alone))
    report = judged((alone, place / "vllm-bench-fused"), "output_token_throughput")
    assert report["result"] == "INCONCLUSIVE" and "mismatch" in json.dumps(report), report


def parquet(place):
    """Five lines of polars find the medians that the query finds."""
    path = place / "samples.parquet"
    harness("export", "--all", "--format", "parquet", "--out", str(path))
    assert len(PARQUET.splitlines()) == 5
    script = [sys.executable, "-c", PARQUET, str(path), SESSION]
    read = json.loads(subprocess.run(script, capture_output=True, text=True, check=True).stdout)
    sql = (
        "SELECT arm, MEDIAN(wall_ns) AS wall_ns FROM samples "
        f"WHERE envelope = '{SESSION}' AND speaks GROUP BY arm ORDER BY arm"
    )
    asked = json.loads(harness("query", sql, "--json"))["rows"]
    assert read == asked and len(read) > 3, f"{read}\n{asked}"
    for row in read:
        print(f"{SESSION}  {row['arm']:28}  {row['wall_ns'] / 1e9:9.2f} s")


def main():
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        reads(place, "vllm-bench", 0)
        reads(place, "aiperf", 1)
        unlike_arms_are_told_apart(place)
        parquet(place)
    print("inference-doctor and polars read the exports as they are written")


if __name__ == "__main__":
    main()
