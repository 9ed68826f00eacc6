//! Order between locations: message passing, store buffering, load buffering, cumulativity, independent reads.

use super::{Litmus, check_all};

#[test]
fn message_passing() {
    const PLAIN: Litmus = Litmus {
        name: "MP",
        threads: &["st.relaxed x 1; st.relaxed y 1", "ld.relaxed r0 y; ld.relaxed r1 x"],
        observed: "1:r0 1:r1",
        outcomes: &["0 0", "0 1", "1 0", "1 1"],
        uncovered: &[],
        unseen: &[],
        races: false,
    };
    /// Weak data; the outcome without order is a race.
    const WEAK: Litmus =
        Litmus { observed: "1:r0 1:r1", outcomes: &["0 -", "1 1", "1 0"], races: true, ..PLAIN };
    const ORDERED: Litmus = Litmus { outcomes: &["0 -", "1 1"], uncovered: &["1 0"], races: false, ..WEAK };
    check_all(&[
        PLAIN,
        Litmus {
            name: "MP with a fence in the writer only",
            threads: &["st.relaxed x 1; fence.acq_rel; st.relaxed y 1", "ld.relaxed r0 y; ld.relaxed r1 x"],
            ..PLAIN
        },
        Litmus {
            name: "MP with a fence in the reader only",
            threads: &["st.relaxed x 1; st.relaxed y 1", "ld.relaxed r0 y; fence.acq_rel; ld.relaxed r1 x"],
            ..PLAIN
        },
        Litmus {
            name: "MP of weak data with release and acquire",
            threads: &["st.weak x 1; st.release y 1", "ld.acquire r0 y; if r0 1; ld.weak r1 x"],
            ..ORDERED
        },
        Litmus {
            name: "MP of weak data with fences",
            threads: &[
                "st.weak x 1; fence.acq_rel; st.relaxed y 1",
                "ld.relaxed r0 y; if r0 1; fence.acq_rel; ld.weak r1 x",
            ],
            ..ORDERED
        },
        Litmus {
            name: "MP of weak data without a release",
            threads: &["st.weak x 1; st.relaxed y 1", "ld.acquire r0 y; if r0 1; ld.weak r1 x"],
            ..WEAK
        },
        Litmus {
            name: "MP of weak data without an acquire",
            threads: &["st.weak x 1; st.release y 1", "ld.relaxed r0 y; if r0 1; ld.weak r1 x"],
            ..WEAK
        },
        Litmus {
            name: "MP of weak data by a weak flag",
            threads: &[
                "st.weak x 1; fence.acq_rel; st.weak y 1",
                "ld.weak r0 y; if r0 1; fence.acq_rel; ld.weak r1 x",
            ],
            ..WEAK
        },
    ]);
}

#[test]
fn a_release_goes_on_through_atomics() {
    const TEST: Litmus = Litmus {
        name: "a release sequence",
        threads: &[
            "st.weak x 1; st.release y 1",
            "ld.relaxed r0 y; if r0 1; atom.relaxed r1 y 1",
            "ld.acquire r0 y; if r0 2; ld.weak r1 x",
        ],
        observed: "2:r0 2:r1",
        outcomes: &["0 -", "1 -", "2 1"],
        uncovered: &["2 0"],
        unseen: &[],
        races: false,
    };
    check_all(&[
        TEST,
        Litmus {
            name: "a release sequence broken by a store",
            threads: &[
                "st.weak x 1; st.release y 1",
                "ld.relaxed r0 y; if r0 1; st.relaxed y 2",
                "ld.acquire r0 y; if r0 2; ld.weak r1 x",
            ],
            outcomes: &["0 -", "1 -", "2 1", "2 0"],
            uncovered: &[],
            races: true,
            ..TEST
        },
    ]);
}

#[test]
fn store_buffering() {
    const TEST: Litmus = Litmus {
        name: "SB",
        threads: &["st.relaxed x 1; ld.relaxed r0 y", "st.relaxed y 1; ld.relaxed r0 x"],
        observed: "0:r0 1:r0",
        outcomes: &["0 0", "0 1", "1 0", "1 1"],
        uncovered: &[],
        unseen: &[],
        races: false,
    };
    check_all(&[
        TEST,
        Litmus {
            name: "SB with fence.acq_rel",
            threads: &[
                "st.relaxed x 1; fence.acq_rel; ld.relaxed r0 y",
                "st.relaxed y 1; fence.acq_rel; ld.relaxed r0 x",
            ],
            ..TEST
        },
        Litmus {
            name: "SB with fence.sc",
            threads: &[
                "st.relaxed x 1; fence.sc; ld.relaxed r0 y",
                "st.relaxed y 1; fence.sc; ld.relaxed r0 x",
            ],
            outcomes: &["0 1", "1 0", "1 1"],
            uncovered: &["0 0"],
            ..TEST
        },
        Litmus {
            name: "SB with one fence.sc",
            threads: &["st.relaxed x 1; fence.sc; ld.relaxed r0 y", "st.relaxed y 1; ld.relaxed r0 x"],
            ..TEST
        },
    ]);
}

/// PTX allows the last outcome; no run shows it.
#[test]
fn load_buffering() {
    const TEST: Litmus = Litmus {
        name: "LB",
        threads: &["ld.relaxed r0 y; st.relaxed x 1", "ld.relaxed r0 x; st.relaxed y 1"],
        observed: "0:r0 1:r0",
        outcomes: &["0 0", "0 1", "1 0"],
        uncovered: &[],
        unseen: &["1 1"],
        races: false,
    };
    check_all(&[
        TEST,
        Litmus {
            name: "LB with fence.acq_rel, which forbids it",
            threads: &[
                "ld.relaxed r0 y; fence.acq_rel; st.relaxed x 1",
                "ld.relaxed r0 x; fence.acq_rel; st.relaxed y 1",
            ],
            unseen: &[],
            ..TEST
        },
    ]);
}

/// Writers that nobody orders are seen in different orders, but for `fence.sc`.
#[test]
fn independent_reads_of_independent_writes() {
    const ALL: &[&str] = &[
        "0 0 0 0", "0 0 0 1", "0 0 1 0", "0 0 1 1", "0 1 0 0", "0 1 0 1", "0 1 1 0", "0 1 1 1", "1 0 0 0",
        "1 0 0 1", "1 0 1 1", "1 1 0 0", "1 1 0 1", "1 1 1 0", "1 1 1 1",
    ];
    const TEST: Litmus = Litmus {
        name: "IRIW with fence.sc",
        threads: &[
            "st.relaxed x 1",
            "st.relaxed y 1",
            "ld.relaxed r0 x; fence.sc; ld.relaxed r1 y",
            "ld.relaxed r0 y; fence.sc; ld.relaxed r1 x",
        ],
        observed: "2:r0 2:r1 3:r0 3:r1",
        outcomes: ALL,
        uncovered: &["1 0 1 0"],
        unseen: &[],
        races: false,
    };
    /// All and the one where the readers disagree.
    const DISAGREE: &[&str] = &[
        "0 0 0 0", "0 0 0 1", "0 0 1 0", "0 0 1 1", "0 1 0 0", "0 1 0 1", "0 1 1 0", "0 1 1 1", "1 0 0 0",
        "1 0 0 1", "1 0 1 0", "1 0 1 1", "1 1 0 0", "1 1 0 1", "1 1 1 0", "1 1 1 1",
    ];
    check_all(&[
        TEST,
        Litmus {
            name: "IRIW with acquiring loads",
            threads: &[
                "st.relaxed x 1",
                "st.relaxed y 1",
                "ld.acquire r0 x; ld.acquire r1 y",
                "ld.acquire r0 y; ld.acquire r1 x",
            ],
            outcomes: DISAGREE,
            uncovered: &[],
            ..TEST
        },
        Litmus {
            name: "IRIW with fence.acq_rel",
            threads: &[
                "st.relaxed x 1",
                "st.relaxed y 1",
                "ld.relaxed r0 x; fence.acq_rel; ld.relaxed r1 y",
                "ld.relaxed r0 y; fence.acq_rel; ld.relaxed r1 x",
            ],
            outcomes: DISAGREE,
            uncovered: &[],
            ..TEST
        },
    ]);
}

#[test]
fn cumulativity() {
    const WRC: Litmus = Litmus {
        name: "WRC",
        threads: &[
            "st.relaxed x 1",
            "ld.relaxed r0 x; if r0 1; st.relaxed y 1",
            "ld.relaxed r0 y; if r0 1; ld.relaxed r1 x",
        ],
        observed: "2:r0 2:r1",
        outcomes: &["0 -", "1 1", "1 0"],
        uncovered: &[],
        unseen: &[],
        races: false,
    };
    const WRC_FENCED: Litmus = Litmus {
        name: "WRC with fences",
        threads: &[
            "st.relaxed x 1",
            "ld.relaxed r0 x; if r0 1; fence.acq_rel; st.relaxed y 1",
            "ld.relaxed r0 y; if r0 1; fence.acq_rel; ld.relaxed r1 x",
        ],
        outcomes: &["0 -", "1 1"],
        uncovered: &["1 0"],
        ..WRC
    };
    check_all(&[
        WRC,
        WRC_FENCED,
        Litmus {
            name: "ISA2",
            threads: &[
                "st.weak x 1; st.release y 1",
                "ld.acquire r0 y; if r0 1; st.release z 1",
                "ld.acquire r0 z; if r0 1; ld.weak r1 x",
            ],
            ..WRC_FENCED
        },
        Litmus {
            name: "ISA2 whose middle does not acquire",
            threads: &[
                "st.weak x 1; st.release y 1",
                "ld.relaxed r0 y; if r0 1; st.release z 1",
                "ld.acquire r0 z; if r0 1; ld.weak r1 x",
            ],
            races: true,
            ..WRC
        },
    ]);
}
