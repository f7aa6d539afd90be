//! A flood of texts that nobody asks for twice: the cache stays within its bytes, and so does the process.
#![allow(clippy::unwrap_used, clippy::print_stderr)] // tests

use engine::kv::policy::Recompute;
use engine::kv::{Eviction, Owner, PageId, PagePool, RadixTree, Scope, Writer};
use engine::tensor::PAGE_POSITIONS;

/// Texts, and the budget of the pool they are cached in.
const TEXTS: u64 = 1_000_000;
const BUDGET_BYTES: u64 = 64 << 20;

/// Pages in the tree can go, but those of the text that is just being cached.
fn cache(pool: &mut PagePool, tree: &mut RadixTree, scope: &Scope, text: &[u32]) {
    let owner = Owner {
        scope,
        session: None,
    };
    let found = tree.find(owner, text, 0);
    tree.lock(found.node);
    let mut pages: Vec<PageId> = found.pages;
    for page in &pages {
        pool.retain(*page);
    }
    while pages.len() < text.len().div_ceil(PAGE_POSITIONS) {
        while pool.available() == 0 {
            assert!(tree.evict_one(pool));
        }
        let page = pool.allocate().unwrap();
        let rest = text.len() - pages.len() * PAGE_POSITIONS;
        pool.fill(page, rest.min(PAGE_POSITIONS));
        pages.push(page);
    }
    let text = (text, &mut pages[..]);
    let anchor = tree.insert(pool, owner, text, Writer::default(), found.node);
    tree.unlock(pool, anchor);
    for page in pages {
        pool.release(page);
    }
}

/// Resident bytes of this process, where the system tells them.
fn resident_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with("VmRSS:"))?;
    let kib: u64 = line.split_whitespace().nth(1)?.parse().ok()?;
    Some(kib << 10)
}

#[test]
fn a_million_random_prefixes_leave_pages_and_memory_where_the_budget_says() {
    let mut pool = PagePool::metadata_only(BUDGET_BYTES);
    let mut tree = RadixTree::new(Eviction::Lru.policy(Recompute {
        position: 1,
        attended: 0,
    }));
    let before = resident_bytes();
    let mut state = 0x2545_F491_4F6C_DD1D_u64;
    let mut next = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 33) as u32
    };
    let (mut text, mut full) = (Vec::new(), None);
    for number in 0..TEXTS {
        // A third goes on from the last text, at any cut of it; the others are new; a tenant in a thousand is.
        let cut = next() as usize % 200;
        text.truncate(if number % 3 == 0 { cut } else { 0 });
        text.extend((0..=next() % 130).map(|_| next() % 50_000));
        let scope = Scope::tenant(&format!("tenant {}", number / 1000));
        cache(&mut pool, &mut tree, &scope, &text);
        assert!(tree.pages() <= pool.capacity() && pool.occupancy().bytes <= BUDGET_BYTES);
        if number == TEXTS / 5 {
            assert!(pool.available() < 4, "a fifth of the texts fills the pool");
            full = resident_bytes();
        }
    }
    let after = resident_bytes();
    tree.check(&[]).unwrap();
    assert!(tree.pages() > pool.capacity() / 2);
    let (Some(before), Some(full), Some(after)) = (before, full, after) else {
        eprintln!("SKIPPED: the system does not tell the process's memory");
        return;
    };
    let (grown, later) = (after - before, after.saturating_sub(full));
    assert!(
        grown <= BUDGET_BYTES,
        "{grown} bytes for a budget of {BUDGET_BYTES}"
    );
    assert!(
        later <= BUDGET_BYTES / 100,
        "{later} bytes more than when it first was full"
    );
}
