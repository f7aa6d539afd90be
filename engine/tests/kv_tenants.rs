//! Tenants with equal texts: what one has computed neither serves another nor can be seen by it, in matches or in work.
#![allow(clippy::unwrap_used, clippy::print_stderr)] // tests

mod common;

use common::kv::{Answer, Client, DECODE, cold, element_types, next, parted, text, without};
use engine::{
    CachePolicy, EngineOptions, EvictMode, OnQuarantine, PAGE_POSITIONS, Phase, Public, Scope,
};

const POLICIES: [CachePolicy; 3] = [CachePolicy::None, CachePolicy::Session, CachePolicy::Shared];

fn with_public(tenant: &str, name: &str, positions: usize) -> Scope {
    let name = name.to_owned();
    Scope {
        public: Some(Public { name, positions }),
        ..Scope::tenant(tenant)
    }
}

fn ask(client: &mut Client, scope: Scope, session: u64, prompt: &[u32]) -> Answer {
    client.scope = scope;
    client.answer(session, prompt, DECODE)
}

#[test]
fn nothing_of_an_equal_prompt_is_matched_across_tenants() {
    for options in element_types() {
        for cache in POLICIES {
            let options = EngineOptions { cache, ..options };
            for len in [1, 63, 64, 65, 200] {
                let prompt = text(len, 1);
                let first = cold(&options, &prompt, DECODE);
                // In another session, and under the very number of the first tenant's.
                for (tenant, session) in [("b", 1), ("c", 0), ("", 0)] {
                    for prompt in [prompt.clone(), first.said(), parted(&prompt, len, 9, 3)] {
                        let mut by_itself = Client::new(&options);
                        let alone = ask(&mut by_itself, Scope::tenant(tenant), session, &prompt);
                        let mut client = Client::new(&options);
                        ask(&mut client, Scope::tenant("a"), 0, &text(len, 1));
                        let beside = ask(&mut client, Scope::tenant(tenant), session, &prompt);
                        assert_eq!(beside.matched(), 0, "{cache}, {len}, tenant `{tenant}`");
                        assert_eq!(beside, alone, "{cache}, {len}, tenant `{tenant}`");
                    }
                }
            }
        }
    }
}

#[test]
fn of_a_public_beginning_exactly_the_whole_pages_are_shared() {
    for options in element_types() {
        for positions in [0, 1, 63, 64, 65, 127, 128, 130, 192, 200] {
            let mut client = Client::new(&options);
            let prompt = text(200, 1);
            let scope = |tenant| with_public(tenant, "system", positions);
            ask(&mut client, scope("a"), 0, &prompt);
            let shared = positions / PAGE_POSITIONS * PAGE_POSITIONS;
            let answer = ask(&mut client, scope("b"), 1, &prompt);
            assert_eq!((answer.own, answer.instance), (0, shared), "{positions}");
            assert_eq!(answer.computed, 200 - shared);
            assert_eq!(answer.result(), cold(&options, &prompt, DECODE).result());
            let answer = ask(&mut client, scope("b"), 2, &prompt);
            assert_eq!(
                answer.matched(),
                200,
                "what is left is the tenant's own: {positions}"
            );
            // Under another name, or under none, it is not the same beginning.
            for scope in [with_public("c", "other", positions), Scope::tenant("d")] {
                let answer = ask(&mut client, scope.clone(), 3, &prompt);
                assert_eq!(answer.matched(), 0, "{positions}, {scope:?}");
            }
        }
    }
}

#[test]
fn a_public_beginning_is_kept_once_whoever_computes_it_at_once() {
    for options in element_types() {
        let mut client = Client::new(&options);
        let trunk = text(192, 1);
        for (session, tenant) in [(0, "a"), (1, "b"), (2, "c")] {
            client.scope = with_public(tenant, "system", 130);
            client.ask(session, &[&trunk[..], &text(8, session)].concat(), 1);
        }
        client.run();
        // Two public pages, and for each tenant the rest of the beginning and its own tail.
        assert_eq!(client.engine.occupancy().pages, 2 + 3 * 2);
        assert_eq!(
            client.engine.counters().prefill_tokens_computed,
            128 + 3 * 72
        );
    }
}

#[test]
fn a_tenant_does_not_wait_for_anothers_equal_prompt() {
    for options in element_types() {
        let mut client = Client::new(&EngineOptions {
            chunk_tokens: 1024,
            ..options
        });
        for (session, tenant) in [(0, "a"), (1, "b")] {
            client.scope = Scope::tenant(tenant);
            client.ask(session, &text(200, 1), 1);
        }
        client.run();
        assert_eq!(
            client.steps(),
            [(Phase::Prefill, 400, 2)],
            "both at once, side by side"
        );
    }
}

#[test]
fn a_session_number_used_by_two_tenants_gives_neither_the_others_rotated_pages() {
    for options in element_types() {
        let mut client = Client::new(&options);
        let mine = ask(&mut client, Scope::tenant("a"), 0, &text(200, 1));
        if client
            .engine
            .evict_span(0, 70..91, EvictMode::Rotate)
            .is_err()
        {
            continue; // of a type that cannot be rotated
        }
        let prompt = next(&without(&mine.cached(), &(70..91)), &mine);
        let answer = ask(&mut client, Scope::tenant("b"), 0, &prompt);
        assert_eq!(
            (answer.matched(), answer.carried, answer.approximate),
            (0, 0, false)
        );
        assert_eq!(answer.result(), cold(&options, &prompt, DECODE).result());
    }
}

/// What is left of a session's text stands lower than before: what was beyond the public beginning must not slip into it.
#[test]
fn a_span_evicted_from_a_public_beginning_makes_nothing_of_the_tenants_own_public() {
    for options in element_types() {
        let mut client = Client::new(&options);
        let scope = |tenant| with_public(tenant, "system", 128);
        let mine = ask(&mut client, scope("a"), 0, &text(200, 1));
        client
            .engine
            .evict_span(0, 10..20, EvictMode::Exact)
            .unwrap();
        let left = without(&mine.cached(), &(10..20));
        let answer = ask(&mut client, scope("b"), 1, &left);
        assert!(
            answer.matched() <= 64,
            "{} of what is a's own now",
            answer.matched()
        );
        assert_eq!(answer.result(), cold(&options, &left, DECODE).result());
        // For the tenant itself nothing is lost; of the public beginning the first ten positions are left.
        let answer = ask(
            &mut client,
            with_public("a", "system", 10),
            0,
            &next(&left, &mine),
        );
        assert_eq!((answer.own, answer.carried), (left.len(), 1));
    }
}

#[test]
fn a_span_evicted_from_a_public_beginning_leaves_it_to_the_others() {
    for options in element_types() {
        for declared in [128, 0] {
            let mut client = Client::new(&options);
            let prompt = text(200, 1);
            // Another tenant's session that has the public pages and nothing else, or one of the same tenant that declares
            // a beginning of no whole page.
            let (mine, other) = match declared {
                0 => (Scope::tenant("a"), with_public("a", "system", 10)),
                _ => (
                    with_public("a", "system", declared),
                    with_public("b", "system", declared),
                ),
            };
            client.scope = other.clone();
            client.answer(1, &prompt[..128], 1);
            ask(&mut client, mine, 0, &prompt);
            client
                .engine
                .evict_span(0, 10..20, EvictMode::Exact)
                .unwrap();
            let answer = ask(&mut client, other, 2, &prompt[..128]);
            assert_eq!(answer.matched(), 128, "{declared}");
        }
    }
}

#[test]
fn a_quarantine_reaches_rotated_pages_whatever_beginning_is_declared_public_later() {
    for options in element_types() {
        let mut client = Client::new(&options);
        let scope = with_public("a", "system", 128);
        let mine = ask(&mut client, scope.clone(), 0, &text(200, 1));
        if client
            .engine
            .evict_span(0, 70..91, EvictMode::Rotate)
            .is_err()
        {
            continue; // of a type that cannot be rotated
        }
        let prompt = next(&without(&mine.cached(), &(70..91)), &mine);
        let answer = ask(&mut client, Scope::tenant("a"), 0, &prompt);
        assert!(answer.approximate);
        let (ids, running) = (&mine.cached()[..91], OnQuarantine::Finish);
        client.engine.quarantine(&scope, ids, 70, running).unwrap();
        let answer = ask(&mut client, Scope::tenant("a"), 0, &answer.said());
        assert!(
            !answer.approximate && answer.matched() == 0,
            "{}",
            answer.matched()
        );
    }
}

/// Rows decide the time; the bench `tenants` measures it.
#[test]
fn a_repeat_across_tenants_is_as_much_work_as_a_cold_run_and_within_one_it_is_a_single_row() {
    for options in element_types() {
        let prompt = text(1500, 1);
        let rows = |before: &[&str], tenant: &str| {
            let mut client = Client::new(&options);
            for (session, before) in (0..).zip(before) {
                ask(&mut client, Scope::tenant(before), session, &prompt);
            }
            let steps = client.steps().len();
            client.scope = Scope::tenant(tenant);
            client.answer(9, &prompt, 1);
            let steps = &client.steps()[steps..];
            (
                steps.len(),
                steps.iter().map(|(_, rows, _)| rows).sum::<usize>(),
            )
        };
        let cold = rows(&[], "b");
        assert_eq!(cold, (1500_usize.div_ceil(options.chunk_tokens), 1500));
        assert_eq!(rows(&["a", "c", "a"], "b"), cold);
        assert_eq!(rows(&["a", "b"], "b"), (1, 1));
    }
}
