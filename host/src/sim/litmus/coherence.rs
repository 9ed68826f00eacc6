//! Order at one location, and writes to two.

use super::{Litmus, check_all};

#[test]
fn reads_of_one_location() {
    const TEST: Litmus = Litmus {
        name: "CoRR",
        threads: &["st.relaxed x 1", "ld.relaxed r0 x; ld.relaxed r1 x"],
        observed: "1:r0 1:r1",
        outcomes: &["0 0", "0 1", "1 1"],
        uncovered: &["1 0"],
        unseen: &[],
        races: false,
    };
    check_all(&[
        TEST,
        Litmus {
            name: "CoRR of weak loads",
            threads: &["st.relaxed x 1", "ld.weak r0 x; ld.weak r1 x"],
            outcomes: &["0 0", "0 1", "1 1", "1 0"],
            uncovered: &[],
            races: true,
            ..TEST
        },
        Litmus {
            name: "CoRR across a synchronisation",
            threads: &[
                "st.relaxed x 1",
                "ld.relaxed r0 x; st.release y 1",
                "ld.acquire r2 y; if r2 1; ld.relaxed r1 x",
            ],
            observed: "1:r0 2:r1",
            outcomes: &["0 -", "1 -", "0 0", "0 1", "1 1"],
            ..TEST
        },
    ]);
}

#[test]
fn writes_of_one_location() {
    const TEST: Litmus = Litmus {
        name: "CoWW",
        threads: &["st.relaxed x 1; st.relaxed x 2", "ld.relaxed r0 x; ld.relaxed r1 x"],
        observed: "1:r0 1:r1 x",
        outcomes: &["0 0 2", "0 1 2", "0 2 2", "1 1 2", "1 2 2", "2 2 2"],
        uncovered: &["1 0 2", "2 0 2", "2 1 2"],
        unseen: &[],
        races: false,
    };
    check_all(&[
        TEST,
        Litmus {
            name: "CoWR",
            threads: &["st.relaxed x 1; ld.relaxed r0 x", "st.relaxed x 2"],
            observed: "0:r0 x",
            outcomes: &["1 1", "1 2", "2 2"],
            uncovered: &[],
            ..TEST
        },
        Litmus {
            name: "CoRW",
            threads: &["ld.relaxed r0 x; st.relaxed x 1", "st.relaxed x 2"],
            observed: "0:r0 x",
            outcomes: &["0 1", "0 2", "2 1"],
            uncovered: &["2 2"],
            ..TEST
        },
        Litmus {
            name: "atomics lose nothing",
            threads: &[
                "atom.relaxed r0 x 1",
                "atom.relaxed r0 x 1",
                "atom.relaxed r0 x 1; atom.relaxed r1 x 1",
            ],
            observed: "x",
            outcomes: &["4"],
            uncovered: &[],
            ..TEST
        },
    ]);
}

#[test]
fn writes_of_two_locations() {
    const TEST: Litmus = Litmus {
        name: "2+2W",
        threads: &["st.relaxed x 1; st.relaxed y 2", "st.relaxed y 1; st.relaxed x 2"],
        observed: "x y",
        outcomes: &["1 1", "1 2", "2 1", "2 2"],
        uncovered: &[],
        unseen: &[],
        races: false,
    };
    check_all(&[
        TEST,
        Litmus {
            name: "2+2W with fence.acq_rel",
            threads: &[
                "st.relaxed x 1; fence.acq_rel; st.relaxed y 2",
                "st.relaxed y 1; fence.acq_rel; st.relaxed x 2",
            ],
            ..TEST
        },
        Litmus {
            name: "2+2W with fence.sc",
            threads: &[
                "st.relaxed x 1; fence.sc; st.relaxed y 2",
                "st.relaxed y 1; fence.sc; st.relaxed x 2",
            ],
            outcomes: &["1 2", "2 1", "2 2"],
            uncovered: &["1 1"],
            ..TEST
        },
    ]);
}

/// H1: PTX allows `x` to stay 2 where thread 1 has read 1 and not acquired it.
#[test]
fn a_store_behind_a_load() {
    const TEST: Litmus = Litmus {
        name: "S",
        threads: &["st.relaxed x 2; st.release y 1", "ld.relaxed r0 y; if r0 1; st.relaxed x 1"],
        observed: "1:r0 x",
        outcomes: &["0 2", "1 1"],
        uncovered: &["1 2"],
        unseen: &["1 2"],
        races: false,
    };
    for (scope, covers) in super::SCOPES {
        for placement in super::PLACEMENTS.into_iter().filter(|&placement| placement <= covers) {
            TEST.check(scope, true, placement);
        }
    }
    check_all(&[Litmus {
        name: "S without a release",
        threads: &["st.relaxed x 2; st.relaxed y 1", "ld.relaxed r0 y; if r0 1; st.relaxed x 1"],
        outcomes: &["0 2", "1 1", "1 2"],
        uncovered: &[],
        unseen: &[],
        ..TEST
    }]);
}
