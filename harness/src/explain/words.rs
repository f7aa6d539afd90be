//! The sentences of an explanation. Not here: finding out (`misses`, `slowest`).

use std::io::Write;

use workloads::arm;
use workloads::envelope::ResolvedEnvelope;
use workloads::record::{RatioRecord, RunRecord};

use super::misses::{Group, Why};
use super::slowest::Slow;
use super::{Told, judged};
use crate::error::Error;
use crate::fairness::{Receipts, asymmetries, servers};
use crate::sealed::SealedRun;
use crate::table::{Table, counted, duration, grouped, or_dash};

/// Positions of a block of the cache.
const PAGE_POSITIONS: usize = engine::PAGE_POSITIONS;

/// A run of a session.
pub(super) fn session(
    run: &SealedRun,
    envelope: &ResolvedEnvelope,
    told: &[Told<'_>],
    receipts: &Receipts,
    out: &mut dyn Write,
) -> Result<(), Error> {
    heading(run, out)?;
    asked(envelope, told, out)?;
    tokens(told, out)?;
    asked_again(told, out)?;
    times(told, out)?;
    missed(told, out)?;
    slow(told, out)?;
    others(&run.record, receipts, out)?;
    saved(&run.record.ratios, told, out)?;
    closing(run, out)
}

fn heading(run: &SealedRun, out: &mut dyn Write) -> Result<(), Error> {
    let record = &run.record;
    let question = run.asked["question"].as_str().unwrap_or_default();
    writeln!(
        out,
        "{}: {question}\nModel {} ({}), {} mode, {} kernels, {}, on a machine with {}.\n",
        record.envelope,
        record.model.name,
        record.model.label,
        record.effective.mode,
        record.effective.kernels,
        counted(record.effective.threads, "thread"),
        counted(record.machine.cores, "core"),
    )?;
    Ok(())
}

fn asked(envelope: &ResolvedEnvelope, told: &[Told<'_>], out: &mut dyn Write) -> Result<(), Error> {
    let work = &envelope.workload;
    let turns = if work.turns == 1 {
        format!("ask once. The\n  model writes {} tokens.", work.decode)
    } else {
        format!(
            "take {} each. In every turn an agent sends\n  its whole conversation so far and the model writes {} \
             tokens; before the next turn {} tokens of a tool's\n  result are added.",
            counted(work.turns, "turn"),
            work.decode,
            work.result,
        )
    };
    writeln!(
        out,
        "What was asked\n  {} start from the same {} tokens, the prefix, and {turns} Each arm below is one way to answer \
         the same {}; they differ in what\n  they keep and what they do at once:",
        counted(work.agents, "agent"),
        work.prefix,
        counted(envelope.requests(), "request"),
    )?;
    let width = told.iter().map(|told| told.arm.len()).max().unwrap_or(0);
    for Told { arm: name, .. } in told {
        let stands_for = arm::named(name).map_or("simulated", |arm| arm.stands_for);
        writeln!(out, "    {name:<width$}  {stands_for}")?;
    }
    if let Some(tree) = &work.tree {
        writeln!(
            out,
            "  Before its first turn an agent reads {} more tokens, its way to one of {} ends of a tree\n  that parts in {} at \
             each of {}, with {} tokens at every node.",
            tree.way_tokens().unwrap_or(0),
            work.agents,
            tree.branches,
            counted(tree.levels, "level"),
            tree.tokens,
        )?;
    }
    if work.passes > 1 {
        writeln!(
            out,
            "  All of it is asked {} times, of the same cache.",
            work.passes
        )?;
    }
    for (arm, turns) in &envelope.run.arm_turns {
        writeln!(
            out,
            "  {arm} plays only the first {}.",
            counted(*turns, "turn")
        )?;
    }
    writeln!(out)?;
    Ok(())
}

fn tokens(told: &[Told<'_>], out: &mut dyn Write) -> Result<(), Error> {
    let mut table = Table::new(&[
        "arm", "sent", "found", "carried", "computed", "written", "again",
    ]);
    for Told { arm, record, .. } in told {
        table.row([
            (*arm).to_owned(),
            or_dash(record.prefill_tokens_logical, grouped),
            or_dash(record.prefix_tokens_hit, grouped),
            or_dash(record.carried_tokens, grouped),
            or_dash(record.prefill_tokens_computed, grouped),
            or_dash(record.decode_tokens, grouped),
            or_dash(record.replayed_tokens, grouped),
        ]);
    }
    writeln!(
        out,
        "Where the tokens went\n{}  sent: tokens of all prompts. Each was found in a cache, or computed, or carried: \
         the last token of an\n  answer is computed only when the next turn needs it. written: tokens of the answers. \
         again: tokens found\n  whole and run once more, because their result picks the first word.\n",
        table.render()
    )?;
    Ok(())
}

/// What was computed the first time and what when it was asked again.
fn asked_again(told: &[Told<'_>], out: &mut dyn Write) -> Result<(), Error> {
    let mut table = Table::new(&["arm", "asked", "found", "computed", "first token p50"]);
    for Told { arm, passes, .. } in told {
        for (place, pass) in passes.iter().enumerate() {
            table.row([
                if place == 0 {
                    (*arm).to_owned()
                } else {
                    String::new()
                },
                if place == 0 { "cold" } else { "again" }.to_owned(),
                grouped(pass.found),
                grouped(pass.computed),
                or_dash(pass.ttft_ns, duration),
            ]);
        }
    }
    if told.iter().all(|told| told.passes.is_empty()) {
        return Ok(());
    }
    writeln!(
        out,
        "Cold, and asked again\n{}  cold: of an empty cache. again: the same session, of the cache the first time left.\n",
        table.render()
    )?;
    Ok(())
}

fn times(told: &[Told<'_>], out: &mut dyn Write) -> Result<(), Error> {
    let mut table = Table::new(&[
        "arm",
        "in all",
        "reading prompts",
        "writing answers",
        "the rest",
    ]);
    for Told { arm, record, .. } in told {
        let parts = record.prefill_ns.zip(record.decode_ns);
        let rest = record
            .wall_ns
            .zip(parts)
            .map(|(wall_ns, (prefill_ns, decode_ns))| {
                wall_ns.saturating_sub(prefill_ns).saturating_sub(decode_ns)
            });
        table.row([
            (*arm).to_owned(),
            or_dash(record.wall_ns, duration),
            or_dash(record.prefill_ns, duration),
            or_dash(record.decode_ns, duration),
            or_dash(rest, duration),
        ]);
    }
    writeln!(
        out,
        "Where the time went\n{}  Medians over the repetitions, each column its own, from the first request to the \
         last answer. the rest:\n  choosing what to do next, and writing the trace.\n",
        table.render()
    )?;
    for Told { arm, record, .. } in told {
        if let Some(error) = &record.error {
            let failed = record.reps.saturating_sub(record.completed);
            writeln!(
                out,
                "  {arm} FAILED in {failed} of {}: {error}\n",
                record.reps
            )?;
        }
    }
    Ok(())
}

fn missed(told: &[Told<'_>], out: &mut dyn Write) -> Result<(), Error> {
    writeln!(
        out,
        "Why requests missed\n  The cache holds blocks of {PAGE_POSITIONS} positions; positions and blocks are counted \
         from 0. A prompt is found from\n  its start up to the first token that differs from all that is kept."
    )?;
    // Of another engine it is known how much it found, and not why.
    let ours = told.iter().filter(|told| !arm::is_server(told.arm));
    for Told { arm, misses, .. } in ours {
        writeln!(out, "  {arm}")?;
        for group in misses {
            writeln!(out, "    {}", sentence(group))?;
            if group.why != Why::Nothing {
                writeln!(out, "      {}", example(group))?;
            }
        }
    }
    writeln!(out)?;
    Ok(())
}

fn sentence(group: &Group) -> String {
    let many = counted(group.requests.len(), "request");
    let Group {
        matched,
        known,
        new,
        carried,
        ..
    } = group;
    let tokens = |count: &usize| format!("{} tokens", grouped(*count as u64));
    match group.why {
        Why::First => format!(
            "{many}: nothing that begins alike had been asked before, so {} were computed.",
            tokens(new)
        ),
        Why::NothingKept => format!(
            "{many}: this arm keeps nothing, so {} were computed though they had been before, beside {} that were new.",
            tokens(known),
            tokens(new)
        ),
        Why::OutOfReach => format!(
            "{many}: another agent's cache had it and this arm shares nothing between agents, so {} were computed once more.",
            tokens(known)
        ),
        Why::Quarantined => format!(
            "{many}: a text in them was quarantined, so nothing from there on may be found: {} were computed again, beside \
             {} that were new.",
            tokens(known),
            tokens(new)
        ),
        Why::Evicted => format!(
            "{many}: {} had been computed before and were evicted for want of room, so they were computed again.",
            tokens(known)
        ),
        Why::NotThere => format!(
            "{many}: {} had been asked before and were still being computed.",
            tokens(known)
        ),
        Why::NewText => format!(
            "{many}: all that could be found was, {}; {} were new, {} carried.",
            tokens(matched),
            tokens(new),
            tokens(carried)
        ),
        Why::Nothing => format!("{many}: the whole prompt was found, {}.", tokens(matched)),
    }
}

fn example(group: &Group) -> String {
    let miss = &group.example;
    format!(
        "{} found {} of {} tokens; the first not found is position {}, in block {}: {}.",
        miss.request,
        miss.matched,
        miss.prompt,
        miss.matched,
        miss.matched / PAGE_POSITIONS,
        match group.why {
            Why::NewText if miss.carried > 0 => "the last token of its last answer, fed only now",
            Why::Quarantined if miss.barred_at == Some(miss.matched) =>
                "there the quarantined text begins",
            Why::Quarantined => "the quarantined text comes after it, and this was gone too",
            Why::Evicted => "it had been there and was evicted",
            Why::First => "the cache was empty of it",
            Why::NothingKept => "nothing is ever there",
            Why::OutOfReach => "only its own cache is searched",
            Why::NotThere => "it had been asked before",
            Why::NewText | Why::Nothing => "nobody had asked it before",
        }
    )
}

fn slow(told: &[Told<'_>], out: &mut dyn Write) -> Result<(), Error> {
    writeln!(out, "The slowest request of each arm")?;
    for Told { arm, slowest, .. } in told {
        let Some(slow) = slowest else { continue };
        writeln!(
            out,
            "  {arm}: {} of repetition {}, {} ({:.1} times the arm's median). {}",
            slow.request,
            slow.rep,
            duration(slow.total_ns),
            slow.total_ns as f64 / slow.median_ns.max(1) as f64,
            because(slow)
        )?;
    }
    writeln!(out)?;
    Ok(())
}

/// The longest of its three parts, and what was done in it.
fn because(slow: &Slow) -> String {
    let share = |part_ns: u64| {
        format!(
            "{:.0} %",
            100.0 * part_ns as f64 / slow.total_ns.max(1) as f64
        )
    };
    let longest = slow.waiting_ns.max(slow.reading_ns).max(slow.writing_ns);
    if longest == slow.waiting_ns {
        format!(
            "{} of it went by before it was begun: others were being read.",
            share(longest)
        )
    } else if longest == slow.reading_ns {
        format!(
            "{} of it was reading the prompt, {} to compute, with whatever ran in the same steps.",
            share(longest),
            counted(slow.computed, "token")
        )
    } else {
        format!(
            "{} of it was writing {}, up to {} at a time.",
            share(longest),
            counted(slow.wrote, "token"),
            counted(slow.batch_max, "request")
        )
    }
}

/// How other engines were set, and how near their answers are.
fn others(record: &RunRecord, receipts: &Receipts, out: &mut dyn Write) -> Result<(), Error> {
    let lines = receipts.lines(record);
    if lines.is_empty() {
        return Ok(());
    }
    writeln!(out, "The other engines, whose counts above are their own")?;
    for line in lines {
        writeln!(out, "  {line}")?;
    }
    for (name, arm) in servers(record) {
        for words in asymmetries(arm, &record.effective) {
            writeln!(out, "  {name} is unlike ours: {words}")?;
        }
    }
    writeln!(out)?;
    Ok(())
}

fn saved(ratios: &[RatioRecord], told: &[Told<'_>], out: &mut dyn Write) -> Result<(), Error> {
    if ratios.is_empty() {
        return Ok(());
    }
    writeln!(out, "What each way saved")?;
    let computed = |name: &str| {
        let arm = told.iter().find(|told| told.arm == name)?;
        arm.record.prefill_tokens_computed
    };
    for ratio in ratios {
        let (own, other) = (computed(&ratio.arm), computed(&ratio.denominator));
        writeln!(
            out,
            "  {} against {}{}: computed {} instead of {} prompt tokens, {}; {}.",
            ratio.arm,
            ratio.denominator,
            if ratio.label.is_some() {
                " (a floor)"
            } else {
                ""
            },
            or_dash(own, grouped),
            or_dash(other, grouped),
            or_dash(ratio.prefill_tokens, |times| format!("{times:.2}x")),
            judged(ratio)
        )?;
    }
    writeln!(
        out,
        "  2x means half. agent-kv-batched against agent-kv is batching alone; instance-shared against \
         agent-kv-batched is\n  sharing the prefix; fused against instance-shared is attending it together. Nobody ships \
         a floor.\n"
    )?;
    Ok(())
}

fn closing(run: &SealedRun, out: &mut dyn Write) -> Result<(), Error> {
    writeln!(
        out,
        "{}\nThe counts follow from the traces, which were audited just now; the times are what the machine's \
         clock said.",
        answers(&run.record)
    )?;
    Ok(())
}

/// What is known of the answers.
fn answers(record: &RunRecord) -> String {
    let identity = &record.identity;
    let of_cells = record.cells.iter().flatten().flat_map(|cell| &cell.arms);
    let repeated = |name: &String| {
        let of_session = record.arms.get(name).is_some_and(|arm| arm.completed > 1);
        let mut of_cells = of_cells.clone().filter(|(arm, _)| *arm == name);
        of_session || of_cells.any(|(_, arm)| arm.completed > 1)
    };
    match (&identity.first_divergence, &identity.arms[..]) {
        (Some(at), _) => format!(
            "The answers differ: {} of repetition {} parts from the others at agent {}, turn {}. No time can be compared.",
            at.arm, at.rep, at.agent, at.turn
        ),
        (None, []) if record.complete => {
            "Only scripted arms answered, and what they say is made up: no answer was compared."
                .to_owned()
        }
        (None, []) => "No arm completed, so no answer was compared.".to_owned(),
        (None, [arm]) if repeated(arm) => {
            "The answers of only one arm are known; its repetitions gave the same, bit for bit."
                .to_owned()
        }
        (None, [_]) => {
            "Only one arm answered, and once: its answers were compared with nobody's.".to_owned()
        }
        (None, _) => "All arms and repetitions gave the same answers, bit for bit.".to_owned(),
    }
}

/// A run of engine work: what each cell did, and what held it up.
pub(super) fn cells(run: &SealedRun, out: &mut dyn Write) -> Result<(), Error> {
    heading(run, out)?;
    writeln!(
        out,
        "Each cell below is one piece of work, done by each arm alone. of limit: share of the speed this machine's \
         memory\nor arithmetic would allow at best, where that was measured."
    )?;
    let mut table = Table::new(&["cell", "arm", "tokens/s", "of limit", "repetitions"]).left(2);
    for cell in run.record.cells.iter().flatten() {
        for (name, arm) in &cell.arms {
            table.row([
                cell.name.clone(),
                name.clone(),
                or_dash(arm.tokens_per_s, |speed| format!("{speed:.1}")),
                or_dash(arm.share_of_limit, |share| {
                    format!("{:.0} %", share * 100.0)
                }),
                format!("{} of {}", arm.completed, arm.reps),
            ]);
        }
    }
    writeln!(out, "{}", table.render())?;
    for cell in run.record.cells.iter().flatten() {
        for ratio in &cell.ratios {
            let interval = ratio.low.zip(ratio.high);
            writeln!(
                out,
                "  {}: {} has {} the speed of {} ({}): {}",
                cell.name,
                ratio.arm,
                or_dash(ratio.speed, |speed| format!("{speed:.2}x")),
                ratio.denominator,
                or_dash(interval, |(low, high)| format!(
                    "95 % interval {low:.2} to {high:.2}"
                )),
                ratio
                    .verdict
                    .as_ref()
                    .or(ratio.withheld.as_ref())
                    .map_or("-", String::as_str),
            )?;
        }
        for (name, arm) in &cell.arms {
            if let Some(error) = &arm.error {
                writeln!(out, "  {}: {name} FAILED: {error}", cell.name)?;
            }
        }
    }
    writeln!(out)?;
    closing(run, out)
}
