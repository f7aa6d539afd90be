//! Pages of single runs: what they name, that nothing is left out, and that every number can be looked up.
//!
//! Not here: how they look; a browser opens them in `tests/browser`.

use std::fs;

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::fixture::{LOSING, Repository, Run};

const PAGE: &str = "reports/runs/session-small.md";

/// The HTML pages of a repository.
struct Pages(TempDir);

impl Pages {
    fn of(repository: &Repository, png: bool) -> Self {
        let directory = TempDir::new().unwrap();
        let outcome = repository.report();
        outcome.write_html(directory.path(), png).unwrap();
        Self(directory)
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.0.path().join(name)).unwrap()
    }

    fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(self.0.path()).unwrap();
        let mut names: Vec<String> = entries
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }
}

/// The page of `run` alone, and the losing ones of its group.
fn page_of(run: &Run) -> (Repository, String) {
    let repository = Repository::published();
    repository.anchor(run);
    let name = run.path().split('/').next().unwrap().to_owned();
    let page = Pages::of(&repository, false).read(&format!("{name}.html"));
    (repository, page)
}

/// Attribute values of every element that has this attribute: (its value, `data-value`, shown text).
fn figures(page: &str, attribute: &str) -> Vec<(String, Value, String)> {
    let unescaped = |text: &str| {
        text.replace("&quot;", "\"")
            .replace("&#39;", "'")
            .replace("&lt;", "<")
            .replace("&gt;", ">")
            .replace("&amp;", "&")
    };
    page.split(&format!(" data-{attribute}=\""))
        .skip(1)
        .map(|rest| {
            let (place, rest) = rest.split_once('"').unwrap();
            let (_, rest) = rest.split_once("data-value=\"").unwrap();
            let (value, rest) = rest.split_once('"').unwrap();
            let (_, rest) = rest.split_once('>').unwrap();
            let (text, _) = rest.split_once('<').unwrap();
            let value = serde_json::from_str(&unescaped(value)).unwrap();
            (unescaped(place), value, unescaped(text))
        })
        .collect()
}

/// The value at a place as pages write it, read by code of its own.
fn lookup<'a>(root: &'a Value, place: &str) -> &'a Value {
    let mut value = root;
    let mut rest = place;
    while !rest.is_empty() {
        if let Some(quoted) = rest.strip_prefix("[\"") {
            let (name, after) = quoted.split_once("\"]").unwrap();
            (value, rest) = (&value[name], after);
        } else if let Some(index) = rest.strip_prefix('[') {
            let (number, after) = index.split_once(']').unwrap();
            (value, rest) = (&value[number.parse::<usize>().unwrap()], after);
        } else {
            let name = rest.trim_start_matches('.');
            let end = name.find(['.', '[']).unwrap_or(name.len());
            (value, rest) = (&value[&name[..end]], &name[end..]);
        }
    }
    value
}

#[test]
fn a_changed_character_of_a_run_page_or_its_plot_fails_the_check() {
    const STEP: usize = 997;
    let repository = Repository::published();
    for page in [
        PAGE,
        "reports/runs/README.md",
        "reports/runs/session-small-walls.svg",
    ] {
        let path = repository.path(page);
        let good = fs::read(&path).unwrap();
        for at in (0..good.len()).step_by(STEP).chain([good.len() - 1]) {
            let mut edited = good.clone();
            edited[at] ^= 1;
            fs::write(&path, &edited).unwrap();
            let outcome = repository.check().unwrap();
            assert_eq!(outcome.exit_code(), 1, "{page} byte {at}");
            assert!(
                outcome
                    .render(None)
                    .contains(&format!("{page}: differs first at line"))
            );
        }
        fs::remove_file(&path).unwrap();
        assert_eq!(repository.check().unwrap().exit_code(), 1, "{page} missing");
        repository.report();
        assert_eq!(fs::read(&path).unwrap(), good);
    }
}

#[test]
fn a_file_that_is_no_page_any_more_fails_the_check_and_is_removed() {
    let repository = Repository::published();
    for file in ["reports/runs/gone.md", "reports/runs/empty.svg"] {
        repository.write(file, if file.ends_with("md") { "old\n" } else { "" });
        let outcome = repository.check().unwrap();
        assert_eq!(outcome.exit_code(), 1);
        assert!(
            outcome
                .render(None)
                .contains(&format!("{file}: is no page any more"))
        );
        assert!(repository.path(file).exists(), "a check removes nothing");
        let outcome = repository.report();
        assert!(outcome.render(None).contains(&format!("{file}: removed")));
        assert!(!repository.path(file).exists());
        assert_eq!(repository.check().unwrap().exit_code(), 0);
    }
}

#[test]
fn a_page_names_what_was_measured_against_what_where_and_what_is_not_shown() {
    let repository = Repository::published();
    let html = Pages::of(&repository, false).read("session-small.html");
    let markdown = repository.read(PAGE);
    for words in [
        "What this does not show",
        "is no engine in use.",
        "x86_64-avx2-2c",
        "a cpu",
        "synthetic-tiny",
        "1970-04-11",
        "0123456789ab",
        "What stands beside it",
        LOSING[0],
    ] {
        assert!(markdown.contains(words), "{words}");
        assert!(html.contains(words), "{words}");
    }
    assert!(markdown.contains("The floor `naive` is no engine"));
    assert!(html.contains("The floor <code>naive</code> is no engine"));
    let sums = repository.read("results/INDEX");
    let anchored = sums
        .lines()
        .find(|line| line.ends_with("  session-small/first"))
        .unwrap();
    assert!(html.contains(&anchored[..64]) && markdown.contains(&anchored[..64]));
    let opening = markdown.split("\n## ").next().unwrap();
    let sentence = "`instance-shared` took 1.00× the time of `fused` (median of n = 5 pairs, 95 % interval 0.99× to 1.01×): PARITY";
    assert!(opening.contains(sentence), "{opening}");
    assert!(opening.contains("identical answers"), "{opening}");
}

#[test]
fn every_number_of_a_page_is_the_one_in_run_json() {
    let repository = Repository::published();
    let server = Run::beside_a_server("session-50x5", "first");
    repository.anchor(&server);
    repository.anchor(&Run::of_cells("engine-decode", "first"));
    let pages = Pages::of(&repository, false);
    for (name, least) in [("session-50x5", 90), ("engine-decode", 20), ("smoke", 60)] {
        let page = pages.read(&format!("{name}.html"));
        let root = |file: &str| -> Value {
            serde_json::from_str(&repository.read(&format!("results/{name}/first/{file}"))).unwrap()
        };
        let mut seen = 0;
        for (origin, record) in [
            ("field", root("run.json")),
            ("envelope", root("envelope.json")),
        ] {
            for (place, value, text) in figures(&page, origin) {
                assert_eq!(lookup(&record, &place), &value, "{name}: {place}");
                assert!(!value.is_null() && !text.is_empty(), "{name}: {place}");
                seen += 1;
            }
        }
        assert!(seen >= least, "{name} has {seen}");
        let run = root("run.json");
        for (place, value, _) in figures(&page, "derived") {
            let parts: Vec<&str> = place.split(' ').collect();
            if let ["difference", first, second] = parts[..] {
                let number = |place| lookup(&run, place).as_f64().unwrap();
                let found = json!((number(first) - number(second)) as i64);
                assert_eq!(found, value, "{place}");
            }
        }
        assert!(page.contains(&format!("<body data-run=\"{name}/first\">")));
    }
}

#[test]
fn a_losing_ratio_stands_on_the_page_and_is_told_at_its_beginning() {
    let run = Run::new("of-my-own", "first")
        .with("/ratios/1/verdict", "SLOWER")
        .with("/ratios/1/wall", 0.5)
        .with("/ratios/2/verdict", "SLOWER");
    let (repository, page) = page_of(&run);
    assert!(
        page.contains("<td>") && page.matches("SLOWER").count() >= 3,
        "{page}"
    );
    let markdown = repository.read("reports/runs/of-my-own.md");
    let opening = markdown.split("\n## ").next().unwrap();
    assert!(
        opening.contains("0.50× the time of `fused`") && opening.contains("fused is slower"),
        "{opening}"
    );
    assert!(opening.contains("In some the first arm is slower"));
    assert!(markdown.contains("nothing is written about what it does not show"));
}

#[test]
fn a_withheld_ratio_says_why_and_a_value_that_is_missing_is_no_zero() {
    let run = Run::new("of-my-own", "first")
        .with_short_naive(2)
        .with("/arms/fused/kv_bytes_peak", Value::Null);
    let (repository, page) = page_of(&run);
    assert!(page.contains("withheld: ") && page.contains("unequal turns: fused 6, naive 2"));
    assert!(page.contains("not measured"), "{page}");
    assert!(!page.contains("data-value=\"null\""));
    let markdown = repository.read("reports/runs/of-my-own.md");
    for words in [
        "Some ratios are withheld",
        "their turns are unequal, 2 of `naive` and 6 of `agent-kv`, and nothing is extrapolated",
        "the run has no arm agent-kv-batched",
    ] {
        assert!(markdown.contains(words), "{words}\n{markdown}");
    }
}

#[test]
fn an_arm_that_failed_is_said_to_have_failed() {
    let repository = Repository::published();
    let reason = "killed <by> nobody";
    let mut cells = Run::of_cells("engine-decode", "first");
    let arm = "/cells/0/arms/llama-bench:fa0";
    cells = cells
        .with(&format!("{arm}/error"), reason)
        .with(&format!("{arm}/tokens_per_s"), Value::Null);
    let cells = cells
        .with("/cells/0/ratios/0/withheld", "llama-bench:fa0 failed")
        .with("/cells/0/ratios/0/speed", Value::Null);
    repository.anchor(&cells);
    let run = Run::new("of-my-own", "first").with("/arms/agent-kv/error", reason);
    repository.anchor(&run);
    let pages = Pages::of(&repository, false);
    let page = pages.read("engine-decode.html");
    assert!(
        page.contains("killed &lt;by&gt; nobody")
            && page.contains("no ratio of speeds can be given")
    );
    let page = pages.read("of-my-own.html");
    assert!(page.contains("failed: ") && page.contains("Its ratios are withheld."));
}

#[test]
fn hostile_text_of_an_envelope_stays_text() {
    let hostile =
        "</p><script>alert(1)</script><img src=x onerror=y> | \"quoted\" `open\n# heading";
    let run = Run::new("of-my-own", "first")
        .asking("", "question", hostile)
        .with("/machine/cpu", hostile);
    let (repository, page) = page_of(&run);
    assert!(
        !page.contains("<script") && !page.contains("<img"),
        "{page}"
    );
    assert!(page.contains("&lt;script&gt;alert(1)&lt;/script&gt;"));
    let found = figures(&page, "envelope");
    let question = found.iter().find(|it| it.0 == "question").unwrap();
    assert_eq!(
        (&question.1, question.2.as_str()),
        (&json!(hostile), hostile)
    );
    let markdown = repository.read("reports/runs/of-my-own.md");
    assert!(
        !markdown.contains("<script") && !markdown.contains("\n# heading"),
        "{markdown}"
    );
}

#[test]
fn files_need_nothing_beside_them_and_plots_are_there_in_both_forms() {
    let repository = Repository::published();
    let pages = Pages::of(&repository, true);
    let names = pages.names();
    for name in [
        "index.html",
        "smoke.html",
        "smoke-walls.png",
        "smoke-memory.png",
        "session-small-steps.png",
    ] {
        assert!(names.iter().any(|it| it == name), "{name} of {names:?}");
    }
    assert!(!names.iter().any(|it| it.contains("tmp")), "{names:?}");
    for name in names.iter().filter(|it| it.ends_with("html")) {
        let page = pages.read(name);
        for outside in [
            "<script", "<link", "@import", "url(", "src=", "http://", "https://",
        ] {
            let used = page.replace("http://www.w3.org/2000/svg", "");
            assert!(!used.contains(outside), "{name} has {outside}");
        }
        for need in [
            "<html lang=\"en\">",
            "<title>",
            "<caption>",
            "scope=\"col\"",
            "scope=\"row\"",
        ] {
            assert!(page.contains(need), "{name} lacks {need}");
        }
        let (plots, said) = (
            page.matches("<svg").count(),
            page.matches("role=\"img\" aria-label=\"").count(),
        );
        assert_eq!(plots, said, "{name}");
    }
    for name in names.iter().filter(|it| it.ends_with("png")) {
        assert!(
            fs::read(pages.0.path().join(name))
                .unwrap()
                .starts_with(b"\x89PNG"),
            "{name}"
        );
    }
}

#[test]
fn the_index_has_every_run_that_speaks_and_what_was_only_counted() {
    let repository = Repository::published();
    repository.anchor(&Run::new("ladder", "counted").with("/schema", "fak.counts/1"));
    repository.anchor(&Run::new("smoke", "broken").with("/complete", false));
    repository.report();
    let index = repository.read("reports/runs/README.md");
    for envelope in ["smoke", "session-small"].into_iter().chain(LOSING) {
        assert!(
            index.contains(&format!("[`{envelope}`]({envelope}.md)")),
            "{envelope}"
        );
    }
    assert!(index.contains("[results/ladder/counted](../../results/ladder/counted)"));
    assert!(!index.contains("smoke/broken"));
    assert!(!repository.path("reports/runs/ladder.md").exists());
}

#[test]
fn runs_of_two_machine_classes_have_a_page_each_and_an_envelope_called_index_hides_nothing() {
    let repository = Repository::published();
    let other = Run::new("smoke", "other")
        .with("/machine/class", "aarch64-neon-4c")
        .on_day(90);
    repository.anchor(&other);
    repository.anchor(&Run::new("index", "first"));
    let pages = Pages::of(&repository, false);
    let names = pages.names();
    for name in [
        "smoke.html",
        "smoke.aarch64-neon-4c.html",
        "index.html",
        "index.run.html",
    ] {
        assert!(names.iter().any(|it| it == name), "{name} of {names:?}");
    }
    assert!(
        pages
            .read("smoke.html")
            .contains("data-run=\"smoke/first\"")
    );
    assert!(
        pages
            .read("index.html")
            .contains("href=\"smoke.aarch64-neon-4c.html\"")
    );
}

#[test]
fn reuse_stands_over_capacity_where_runs_differ_in_nothing_else() {
    let repository = Repository::published();
    for (envelope, pages, rate) in [("small-cache", 20, 0.25), ("large-cache", 60, 0.75)] {
        let run = Run::new(envelope, "first").asking("/run", "kv_pages", pages);
        repository.anchor(&run.with("/arms/fused/reuse_rate", rate));
    }
    let other = Run::new("other-session", "first").asking("/run", "kv_pages", 40);
    repository.anchor(&other.asking("/workload", "turns", 9));
    repository.report();
    let index = repository.read("reports/runs/README.md");
    let section = index
        .split("\n## Hit rate against capacity\n")
        .nth(1)
        .unwrap();
    let rows: Vec<&str> = section
        .lines()
        .filter(|line| line.starts_with("| `fused`"))
        .collect();
    assert_eq!(rows.len(), 2, "{section}");
    assert!(
        rows[0].starts_with("| `fused` | 20 | 25.0 % |")
            && rows[1].starts_with("| `fused` | 60 | 75.0 % |")
    );
    assert!(section.contains("A curve takes runs at three capacities or more"));
    assert!(repository.path("reports/runs/index-capacity.svg").exists());
}
