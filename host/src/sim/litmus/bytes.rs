//! Which bytes two accesses share, and whether that is a race.

use super::{Litmus, LitmusBed, Placement, ProbeKind};
use crate::ErrorKind;

/// Whether two threads that do one statement each race.
fn races(one: &'static str, two: &'static str, placement: Placement) -> bool {
    let threads: &'static [&'static str] = Box::leak(Box::new([one, two]));
    let test = Litmus {
        name: "bytes",
        threads,
        observed: "",
        outcomes: &[],
        uncovered: &[],
        unseen: &[],
        races: false,
    };
    let mut bed = LitmusBed::new(&test, "sys", placement, ProbeKind::Races);
    match bed.run() {
        Ok(()) => false,
        Err(error) => matches!(error.kind(), ErrorKind::Race { .. }),
    }
}

#[test]
fn bytes_that_two_accesses_share() {
    let stores = [
        ("st.global.u8 [%x], 1", 0..1),
        ("st.global.u8 [%x+1], 1", 1..2),
        ("st.global.u8 [%x+7], 1", 7..8),
        ("st.global.u16 [%x], 1", 0..2),
        ("st.global.u16 [%x+2], 1", 2..4),
        ("st.global.u32 [%x], 1", 0..4),
        ("st.global.u32 [%x+4], 1", 4..8),
        ("st.global.u64 [%x], 1", 0..8),
        ("st.global.u64 [%x+8], 1", 8..16),
        ("st.global.v2.b64 [%x], {%one, %one}", 0..16),
        ("st.global.v2.b64 [%x+16], {%one, %one}", 16..32),
    ];
    let loads = [
        ("ld.global.u8 %r0, [%x+1]", 1..2),
        ("ld.global.u16 %r0, [%x+6]", 6..8),
        ("ld.global.u32 %r0, [%x+4]", 4..8),
        ("ld.global.u64 %d0, [%x+8]", 8..16),
        ("ld.global.v4.b32 {%r0, %r1, %r2, %r3}, [%x]", 0..16),
    ];
    for (one, bytes) in &stores {
        for (two, others) in stores.iter().chain(&loads) {
            let shared = bytes.start.max(others.start) < bytes.end.min(others.end);
            for placement in super::PLACEMENTS {
                assert_eq!(races(one, two, placement), shared, "{one}, {two}, {placement:?}");
            }
        }
    }
    for (one, _) in &loads {
        for (two, _) in &loads {
            assert!(!races(one, two, Placement::Device), "{one}, {two}");
        }
    }
}

/// Strong accesses of one width and enough scope do not race; others do.
#[test]
fn strength() {
    let check = |one, two, placement, expect| {
        assert_eq!(races(one, two, placement), expect, "{one}, {two}, {placement:?}");
        assert_eq!(races(two, one, placement), expect, "{two}, {one}, {placement:?}");
    };
    use Placement::{Block, Device, System};
    let (sys, gpu, cta) = (
        "st.relaxed.sys.global.u32 [%x], 1",
        "st.relaxed.gpu.global.u32 [%x], 1",
        "st.relaxed.cta.global.u32 [%x], 1",
    );
    for (placement, races) in
        [(Block, [false; 3]), (Device, [false, false, true]), (System, [false, true, true])]
    {
        for (one, expect) in [sys, gpu, cta].into_iter().zip(races) {
            check(one, "ld.relaxed.sys.global.u32 %r0, [%x]", placement, expect);
            check(one, "ld.acquire.sys.global.u32 %r0, [%x]", placement, expect);
            check(one, "ld.volatile.global.u32 %r0, [%x]", placement, expect);
            check(one, "atom.relaxed.sys.global.add.u32 %r0, [%x], 1", placement, expect);
        }
    }
    for placement in [Block, Device, System] {
        check(sys, "ld.global.u32 %r0, [%x]", placement, true);
        check(sys, "ld.relaxed.sys.global.u64 %d0, [%x]", placement, true);
        check(sys, "ld.relaxed.sys.global.u16 %t0, [%x]", placement, true);
        check(sys, "ld.relaxed.sys.global.u32 %r0, [%a]", placement, true);
        check(sys, "ld.relaxed.sys.global.v2.b32 {%r0, %r1}, [%x]", placement, false);
        check("atom.relaxed.sys.global.add.u32 %r0, [%x], 1", "st.global.u32 [%x], 1", placement, true);
        check(
            "atom.relaxed.sys.global.add.u32 %r0, [%x], 1",
            "red.relaxed.sys.global.add.u32 [%x], 1",
            placement,
            false,
        );
    }
}

/// An access that a later one of another thread stands in front of is not forgotten.
#[test]
fn what_is_hidden_behind_others() {
    let check = |threads: &'static [&'static str], expect| {
        let test = Litmus {
            name: "hidden",
            threads,
            observed: "",
            outcomes: &[],
            uncovered: &[],
            unseen: &[],
            races: expect,
        };
        assert_eq!(test.finds_race("sys", Placement::System, expect), expect, "{threads:?}");
    };
    // The second thread orders itself behind the first alone.
    check(
        &[
            "st.relaxed x 1",
            "atom.relaxed r0 x 1; if r0 1; st.release y 1",
            "ld.acquire r0 y; if r0 1; ld.weak r1 x",
        ],
        false,
    );
    check(
        &["st.relaxed x 5", "st.relaxed x 1; st.release y 1", "ld.acquire r0 y; if r0 1; ld.weak r1 x"],
        true,
    );
    check(&["ld.weak r0 x", "ld.weak r0 x; st.release y 1", "ld.acquire r0 y; if r0 1; st.weak x 1"], true);
    check(&["ld.weak r0 z", "ld.weak r0 x; st.release y 1", "ld.acquire r0 y; if r0 1; st.weak x 1"], false);
}
